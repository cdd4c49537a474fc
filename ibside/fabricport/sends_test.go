// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"maps"
	"strings"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

func TestPortSendDrops(t *testing.T) {
	r := newRig(t, fabric.Config{PKeys: []ib.PKey{0xffff, 0x8001}}, 64, 0x8001)
	qp, _, err := r.port.CreateProxyQP(0, 0x8001, 7)
	if err != nil {
		t.Fatal(err)
	}
	gone, _, _ := r.port.CreateProxyQP(0, 0x8001, 7)
	if err := r.port.DestroyProxyQP(gone); err != nil {
		t.Fatal(err)
	}
	ok := porttest.Send{QP: qp, DLID: 1, DestQP: 9}
	change := func(f func(*porttest.Send)) porttest.Send {
		s := ok
		f(&s)
		return s
	}
	for _, c := range []struct {
		name   string
		worker int
		send   porttest.Send
		size   int
		drop   string
	}{
		{"sent", 0, ok, 4096, ""},
		{"longer than a datagram", 0, ok, 4097, fabric.DropMTU},
		{"no such handle", 0, change(func(s *porttest.Send) { s.QP = 999 }), 1, fabric.DropNoQP},
		{"destroyed", 0, change(func(s *porttest.Send) { s.QP = gone }), 1, fabric.DropNoQP},
		{"another worker's", 1, ok, 1, DropWrongWorker},
		{"SGID index", 0, change(func(s *porttest.Send) { s.Source = 1 }), 1, fabric.DropAH},
		{"no LID", 0, change(func(s *porttest.Send) { s.DLID = 0 }), 1, fabric.DropAH},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := r.port.counters()
			r.post(t, c.worker, c.send, strings.Repeat("x", c.size))
			r.settle(t)
			after := r.port.counters()
			want := maps.Clone(before.SendDrops)
			if c.drop != "" {
				want[c.drop]++
			}
			if after.Posted != before.Posted+1 || !maps.Equal(after.SendDrops, want) || r.pool.InUse() != 0 {
				t.Errorf("counters %+v, %d mbufs in use; want drop %q", after, r.pool.InUse(), c.drop)
			}
		})
	}
}

// TestPortSendWhile has a port's right to send end between two messages of a burst: those that are left in the ring are
// dropped and counted, and what management asks the subnet still passes.
func TestPortSendWhile(t *testing.T) {
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{echoNode}}, 64, 0)
	left := 2
	r.port.SendWhile(func() bool {
		left--
		return left >= 0
	})
	qp, _, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 7)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.post(t, 0, porttest.Send{QP: qp, DLID: 1, DestQP: 9}, "x")
	}
	r.settle(t)
	if c := r.port.counters(); c.Sent != 2 || c.SendDrops[fabric.DropLeaseEnded] != 3 {
		t.Errorf("of 5 messages %d were sent, and dropped %v; want 2, and 3 as %s", c.Sent, c.SendDrops, fabric.DropLeaseEnded)
	}
	if _, err := r.port.Path(t.Context(), r.fabric.Node("echo").HCA().Info().GID, 0); err != nil {
		t.Errorf("the subnet administrator cannot be asked: %v", err)
	}
}
