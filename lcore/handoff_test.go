// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"maps"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A frame that came to the wrong worker is sent by the one that has its proxy QP, once, and is counted once.
func TestHandoff(t *testing.T) {
	s := newRig(t, smallFixture().with(twoWorkers))
	s.fromRoCE(v4(), v6(), v4(to(group4)), v4(func(p *roce.Packet) { p.TClass |= 3 }))
	mine, others := s.toIB(0), 0
	want(t, "messages by worker 0", len(mine), 1)
	for _, m := range s.toIB(1) {
		others++
		want(t, "QP", m.QP, proxyQP)
		want(t, "payload", string(m.Payload), "Hello")
	}
	want(t, "messages by worker 1", others, 3)
	c := s.counters(lcore.RoCEToIB)
	want(t, "received", c.Received, 4)
	want(t, "sent", c.Sent, 4)
	want(t, "handed over", c.Handoffs, 3)
	want(t, "marked, counted once", c.CongestionMarked, 1)
	want(t, "sent by worker 1", s.workers[1].Counters().Direction[lcore.RoCEToIB].Sent, 3)
	want(t, "received by worker 1", s.workers[1].Counters().Direction[lcore.RoCEToIB].Received, 0)
}

// The second worker drops a frame that it finds wrong, and the counters of both together show conservation.
func TestHandoffThenDropped(t *testing.T) {
	s := newRig(t, smallFixture().with(twoWorkers))
	s.arrive(0, v4(), v4())
	s.workers[0].Step()
	if err := s.tables.Nodes.Delete(nodeIP); err != nil {
		t.Fatal(err)
	}
	s.work()
	drop, _ := lcore.DropNamed("node_unknown")
	if got := s.workers[1].Counters().Direction[lcore.RoCEToIB].Drops; !maps.Equal(got, map[lcore.Drop]uint64{drop: 2}) {
		t.Errorf("worker 1 dropped %v", got)
	}
}

// What waited for its proxy QP, or comes from another worker, is sent before what comes later, and all of it, however much.
func TestRequeuedGoesFirst(t *testing.T) {
	const waited = 200 // some bursts
	w := smallFixture()
	s := newRig(t, w)
	numbered := func(n int) []byte {
		return v4(fromNewcomer(newcomerIP), func(p *roce.Packet) { p.Payload = []byte{byte(n >> 8), byte(n), 0, 0} })
	}
	var pending []lcore.PuntedFrame
	for n := range waited {
		s.fromRoCE(numbered(n))
		pending = append(pending, s.takePunted()...)
	}
	w.addHost(newcomerIP, lcore.V2)
	if err := w.populate(s.tables); err != nil {
		t.Fatal(err)
	}
	for _, p := range pending {
		p.Pending.Requeue()
	}
	s.fromRoCE(numbered(waited))
	got := s.toIB(0)
	want(t, "messages", len(got), waited+1)
	for n, m := range got {
		want(t, "number", int(m.Payload[0])<<8|int(m.Payload[1]), n)
	}
}

// Good RoCE of a QP without a proxy QP waits at management; when it has one it crosses as any other.
func TestPendingThenRequeued(t *testing.T) {
	for _, workers := range []int{1, 2} {
		w := smallFixture()
		w.workers = workers
		s := newRig(t, w)
		s.fromRoCE(newcomer(), v4(), newcomer())
		pending := s.takePunted()
		want(t, "pending", len(pending), 2)
		want(t, "crossed at once", len(s.toIB(0)), 1)
		for _, o := range pending {
			if o.Pending == nil || string(o.Data) != string(newcomer()) || o.Pending.Worker() != 0 {
				t.Errorf("pending: %+v", o)
			}
		}
		w.addHost(newcomerIP, lcore.V2)
		s1 := &w.proxyQPs[len(w.proxyQPs)-1]
		s1.Worker = workers - 1
		if err := w.populate(s.tables); err != nil {
			t.Fatal(err)
		}
		pending[0].Pending.Requeue()
		pending[1].Pending.Drop(lcore.DropSourceRefused)
		s.work()
		got := s.toIB(workers - 1)
		if len(got) != 1 || got[0].QP != s1.QP || string(got[0].Payload) != "Hello" {
			t.Errorf("%d workers: sent %+v", workers, got)
		}
		c := s.counters(lcore.RoCEToIB)
		want(t, "received", c.Received, 3)
		want(t, "sent", c.Sent, 2)
		want(t, "rejected", c.Drops[lcore.DropSourceRefused], 1)
		want(t, "waited", c.ProxyQPWaits, 2)
	}
}

// Counters of groups, and the counters of notes.
func TestNotesAndGroupCounters(t *testing.T) {
	s := newRig(t, smallFixture())
	_, id, ok := s.tables.Groups.Find(group4)
	if !ok {
		t.Fatal("no group")
	}
	s.fromRoCE(v4(to(group4)), v4(to(group4), payload(100)), v4(to(noGroup)), v4(func(p *roce.Packet) { p.FECN = true }),
		sign(patch(v4(), at4BTH+inBTHResv, 1)), sign(patch(v4(), at4BTH+inBTHAck, 1)), sign(patch(v4(), at4BTH+inDETHResv, 1)))
	s.toIB(0)
	s.fromIB(received(toGroup(mgidOf(group4))), received(toGroup(mgidOf(group4)), fecn))
	g := s.datapath.Group(int(id))
	want(t, "group to IB", g.Packets[lcore.RoCEToIB], 2)
	want(t, "its bytes", g.Bytes[lcore.RoCEToIB], 105)
	want(t, "group to RoCE", g.Packets[lcore.IBToRoCE], 2)
	want(t, "its bytes", g.Bytes[lcore.IBToRoCE], 10)
	in, out := s.counters(lcore.RoCEToIB), s.counters(lcore.IBToRoCE)
	want(t, "marked", in.CongestionMarked, 1)
	want(t, "marked towards RoCE", out.CongestionMarked, 1)
	want(t, "reserved bits", in.ReservedBits, 3)
	want(t, "bytes to IB", in.SentBytes, 5+100+4*5)
	want(t, "bytes to RoCE", out.SentBytes, 10)
}

// Bursts keep their packets in order and unchanged: full ones, and those in which every second packet is dropped.
func TestBurstsKeepOrder(t *testing.T) {
	s := newRig(t, smallFixture())
	spoilt := [][]byte{
		v4(func(p *roce.Packet) { p.Dst = frame.MAC{2, 9} }), patch(v4(), 73, 0), v4(to(noGroup)), v4(func(p *roce.Packet) { p.PKey = 1 }),
	}
	for _, n := range []int{1, 2, 63, 64, 65, 128, 200} {
		for _, spoil := range []bool{false, true} {
			var frames [][]byte
			var msgs []message
			for i := range n {
				frames = append(frames, v4(func(p *roce.Packet) { p.QKey = ib.QKey(i) }))
				msgs = append(msgs, received(func(m *message) { m.Payload = pattern(i) }))
				if spoil {
					frames = append(frames, spoilt[i%len(spoilt)])
					msgs = append(msgs, received(func(m *message) { m.QPN = 0x999 }))
				}
			}
			s.inOrder(n, frames, msgs)
		}
	}
	s.checkConserved(s.datapath.Counters())
}

// inOrder forwards frames and messages, of which the n good ones are numbered, and checks their order.
func (s *rig) inOrder(n int, frames [][]byte, msgs []message) {
	s.t.Helper()
	s.fromRoCE(frames...)
	sent := s.toIB(0)
	for i := range sent {
		if sent[i].QKey != ib.QKey(i) {
			s.t.Errorf("message %d of %d has the number %v", i, n, sent[i].QKey)
		}
	}
	s.fromIB(msgs...)
	out := s.toRoCE(0)
	for i, f := range out {
		if p, err := roce.Parse(f); err != nil || string(p.Payload) != string(pattern(i)) {
			s.t.Errorf("frame %d of %d: %v, %x", i, n, err, f)
		}
	}
	if len(sent) != n || len(out) != n {
		s.t.Errorf("%d messages and %d frames crossed, want %d", len(sent), len(out), n)
	}
}
