// SPDX-License-Identifier: Apache-2.0

package mlx5mem_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"causeway/ibside/verbs"
	"causeway/ibside/verbs/mlx5mem/mlx5memtest"
)

// TestInGo has one queue pair of verbs.OpenUD send to another, in a Go program with its signal handlers.
func TestInGo(t *testing.T) {
	const qkey, count = 0x11223344, 600 // messages: the receiver's buffers are more
	var ends [2]*verbs.UD
	for i := range ends {
		u, err := verbs.OpenUD(mlx5memtest.Device, 1, qkey)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = u
	}
	i := ends[1].Info()
	if i.Ethernet || i.LID == 0 || len(i.GIDs) != 1 || i.MTU.Bytes() != 4096 {
		t.Fatalf("the port is %+v", i)
	}
	to, err := ends[0].Address(verbs.UDPath{DGID: i.GIDs[0].GID, HasGRH: true, DLID: i.LID, HopLimit: 64})
	if err != nil {
		t.Fatal(err)
	}
	for n := range count {
		if err := ends[0].Send(to, ends[1].QPN(), qkey, fmt.Append(nil, "message ", n)); err != nil {
			t.Fatal(err)
		}
		if done := mlx5memtest.Turn(); done != 1 {
			t.Fatalf("message %d: the device has carried out %d\n%s", n, done, mlx5memtest.Faults())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := 0
	err = ends[1].Receive(ctx, func(m *verbs.UDMessage) {
		if m.SrcQP != ends[0].QPN() || !m.HasGRH || string(m.Payload) != string(fmt.Append(nil, "message ", n)) {
			t.Errorf("message %d: %+v", n, m)
		}
		if n++; n == count {
			cancel()
		}
	})
	if err != nil || n != count {
		t.Errorf("%d of %d came; %v", n, count, err)
	}
	for _, u := range ends {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	if c := mlx5memtest.Count(); c.Faults != 0 || c.Live != 0 || c.Sent != count || c.Received != count {
		t.Errorf("the device has counted %+v\n%s", c, mlx5memtest.Faults())
	}
}
