// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"runtime"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

// TestAwaitReceived has messages come to a port of another process's subnet, and of this one's: after the wait, workers have all
// that came before it, without any other.
func TestAwaitReceived(t *testing.T) {
	t.Run("socket", func(t *testing.T) {
		overSocket = true
		defer func() { overSocket = false }()
		awaitReceived(t)
	})
	t.Run("own", awaitReceived)
}

func awaitReceived(t *testing.T) {
	const most, rounds = 200, 1000
	node := fabric.NodeConfig{Name: "sender", GUID: 0x5e}
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{node}}, 256, 0)
	_, qpn, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 0x1111)
	if err != nil {
		t.Fatal(err)
	}
	sender := r.fabric.Node("sender").QP()
	for round := range rounds {
		messages := 1
		if round%100 == 0 {
			messages = most
		}
		for range messages {
			if why := sender.Send(&fabric.Send{AH: fabric.AH{DLID: r.hca.Info().LID}, DestQP: qpn, QKey: 0x1111}); why != "" {
				t.Fatalf("not sent: %s", why)
			}
		}
		for !r.fabric.Quiet() { // without a pause, in which all would be received
			runtime.Gosched()
		}
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		err := r.port.AwaitReceived(ctx)
		end()
		if err != nil {
			t.Fatal(err)
		}
		came := 0
		for got := porttest.Poll(r.port.Pointer(0), burst); len(got) > 0; got = porttest.Poll(r.port.Pointer(0), burst) {
			for _, m := range got {
				m.Mbuf.Free()
			}
			came += len(got)
		}
		if came != messages {
			t.Fatalf("the worker can poll %d messages of %d that had come", came, messages)
		}
	}
}
