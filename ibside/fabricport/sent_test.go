// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

// TestAwaitSent has the subnet of another process take nothing for a time: what a worker has posted is not sent before that is
// over, and is all there then.
func TestAwaitSent(t *testing.T) {
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{echoNode}, Socket: filepath.Join(t.TempDir(), "subnet.sock")}, 256, 0)
	node := r.fabric.Node("echo")
	qp, _, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 0x1111)
	if err != nil {
		t.Fatal(err)
	}
	sent := func(d time.Duration) error {
		ctx, end := context.WithTimeout(t.Context(), d)
		defer end()
		return r.port.AwaitSent(ctx)
	}
	stall := func(on bool) {
		if err := r.fabric.Stall(r.hca.Info().GUID, on); err != nil {
			t.Fatal(err)
		}
	}
	const messages = 100
	for round := range 3 {
		if err := sent(time.Minute); err != nil {
			t.Fatal(err)
		}
		stall(true)
		for range messages {
			r.post(t, 0, porttest.Send{QP: qp, DLID: node.HCA().Info().LID, DestQP: echoQPN, QKey: 0x1111}, "sent")
		}
		if err := sent(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("what a stalled link has is sent: %v", err)
		}
		time.AfterFunc(20*time.Millisecond, func() { stall(false) })
		if err := sent(time.Minute); err != nil {
			t.Fatal(err)
		}
		r.settle(t)
		for range messages {
			r.poll(t, 0)
		}
		if got := node.Stats().Echoed; got != uint64(messages*(round+1)) {
			t.Errorf("%d messages came", got)
		}
	}
	if err := r.fabric.Stall(0x99, true); err == nil {
		t.Error("a port that is not there is stalled")
	}
}
