// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"causeway/fleet/shards"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// heard is what comes to two members, in order: each hears some of it, later or sooner.
type heard struct {
	rigs  [2]*rig
	r     *rand.Rand
	sent  uint32      // so many of a flow were sent
	waits [2][]uint32 // on their way
	left  []uint32    // the bridges, in order
}

// A passage is how messages come to a rig, and leave it.
type passage struct {
	name   string
	shard  shards.Shard
	arrive func(s *rig, number uint32)
	leave  func(s *rig) []uint32
}

func numbered(number uint32) []byte { return binary.BigEndian.AppendUint32(nil, number) }

// A group's shard is that of its MGID, and a host's that of its MAC address, whatever it sends to.
var passages = []passage{
	{"of a host to a node", shards.OfHost(hostMAC), func(s *rig, number uint32) {
		f := v4(func(p *roce.Packet) { p.Payload, p.PSN = numbered(number), number })
		mac := virtualOf(hostMAC)
		copy(f, mac[:])
		s.arrive(int(number)%len(s.workers), f)
	}, (*rig).numbersToIB},
	{"of a host to a group", shards.OfHost(hostMAC), func(s *rig, number uint32) {
		s.arrive(int(number)%len(s.workers), v4(to(group4), func(p *roce.Packet) { p.PSN, p.Payload = number, numbered(number) }))
	}, (*rig).numbersToIB},
	{"of a node to a group", shards.OfGroup(mgidOf(group4)), func(s *rig, number uint32) {
		m := received(toGroup(mgidOf(group4)), func(m *message) { m.Payload = numbered(number) })
		s.ibPort.Deliver(int(number)%len(s.workers), []fabricport.Received{fabricport.Received(m)})
	}, func(s *rig) (all []uint32) {
		for w := range s.workers {
			for _, f := range s.toRoCE(w) {
				all = append(all, binary.BigEndian.Uint32(f[len(f)-8:])) // before the ICRC
			}
		}
		return all
	}},
}

func (s *rig) numbersToIB() (all []uint32) {
	for w := range s.workers {
		for _, m := range s.toIB(w) {
			all = append(all, binary.BigEndian.Uint32(m.Payload))
		}
	}
	return all
}

// pass has some messages be sent, some come to each member, and each member's workers take some steps.
func (h *heard) pass(w passage, times int) {
	for range times {
		for range h.r.IntN(20) {
			for i := range h.waits {
				h.waits[i] = append(h.waits[i], h.sent)
			}
			h.sent++
		}
		h.move(w)
	}
}

// move has what is on its way come, or some of it.
func (h *heard) move(w passage) {
	for i, s := range h.rigs {
		n := h.r.IntN(len(h.waits[i]) + 1)
		for _, number := range h.waits[i][:n] {
			w.arrive(s, number)
		}
		h.waits[i] = h.waits[i][n:]
		for range h.r.IntN(3) {
			for _, worker := range s.workers {
				worker.Step()
			}
		}
		h.left = append(h.left, w.leave(s)...)
	}
}

// drain has all come that is on its way.
func (h *heard) drain(w passage) {
	for i, s := range h.rigs {
		for _, number := range h.waits[i] {
			w.arrive(s, number)
		}
		h.waits[i] = nil
		s.work()
		h.left = append(h.left, w.leave(s)...)
	}
}

// TestHandover has a shard pass from one member to another while messages of it come to both, which are late or early. All
// of them cross, once and in order.
func TestHandover(t *testing.T) {
	for _, w := range passages {
		for seed := range uint64(20) {
			t.Run(fmt.Sprint(w.name, ", seed ", seed), func(t *testing.T) { handOver(t, w, seed) })
		}
	}
}

func handOver(t *testing.T, w passage, seed uint64) {
	h := &heard{r: rand.New(rand.NewPCG(seed, 0))}
	for i := range h.rigs {
		h.rigs[i] = newRig(t, smallFixture().with(member))
		h.rigs[i].entitle()
	}
	owner, successor, shard := h.rigs[0], h.rigs[1], some(w.shard)
	owner.open(w.shard)
	h.pass(w, 20)
	owner.part(lcore.Part{Open: shard, Leave: shard})
	h.drain(w) // etcd takes longer than the fabric
	successor.part(lcore.Part{Hold: shard})
	successor.work()
	h.pass(w, 20)
	h.drain(w)
	h.pass(w, 3)
	owner.part(lcore.Part{})
	ids, all := lcore.LeaseOf(owner.datapath).Noted()
	if !all || !lcore.LeaseOf(successor.datapath).AddForwarded(ids) {
		t.Fatalf("%d were noted", len(ids))
	}
	for _, number := range h.waits[0] { // etcd takes longer than the fabric, but the successor may hear all later
		w.arrive(owner, number)
	}
	h.waits[0] = nil
	owner.work()
	lcore.LeaseOf(successor.datapath).Late(time.Hour)
	successor.part(lcore.Part{Open: shard, Hold: shard})
	h.pass(w, 20)
	h.drain(w)
	if lcore.LeaseOf(successor.datapath).Settled(t.Context()) != nil {
		t.Fatal("the successor does not settle")
	}
	if lcore.LeaseOf(successor.datapath).Done() {
		t.Error("the successor forgets what was forwarded at once")
	}
	lcore.LeaseOf(successor.datapath).Late(0)
	successor.part(lcore.Part{Open: shard, Hold: shard})
	successor.work()
	if !lcore.LeaseOf(successor.datapath).Done() {
		t.Error("the successor never forgets what was forwarded")
	}
	successor.part(lcore.Part{Open: shard})
	h.pass(w, 5)
	h.drain(w)
	for i, number := range h.left {
		if number != uint32(i) {
			t.Fatalf("message %d is number %d", i, number)
		}
	}
	want(t, "messages", len(h.left), int(h.sent))
}

// TestHandedOnAtOnce has a shard leave while what was kept of it, and what comes late, is still told apart: what is sent of it
// then is noted, too, or the next member would send it again.
func TestHandedOnAtOnce(t *testing.T) {
	for _, w := range passages {
		s, shard := newRig(t, smallFixture().with(member)), some(w.shard)
		s.entitle()
		lcore.LeaseOf(s.datapath).Late(time.Hour)
		s.part(lcore.Part{Hold: shard})
		s.work()
		s.part(lcore.Part{Open: shard, Hold: shard})
		s.work()
		s.part(lcore.Part{Open: shard, Hold: shard, Leave: shard})
		s.work()
		w.arrive(s, 1)
		s.work()
		want(t, w.name+": sent", len(w.leave(s)), 1)
		if ids, all := lcore.LeaseOf(s.datapath).Noted(); len(ids) != 1 || !all {
			t.Errorf("%s: %d messages were noted", w.name, len(ids))
		}
	}
}

// TestChangesAtOnce: a worker that takes two changes of management's at once, as one that slept, has done the first: what was kept of a
// shard before it was held no more is not sent when it is held again, nor what waited before it was closed when it is open again.
func TestChangesAtOnce(t *testing.T) {
	for _, w := range passages {
		s, shard := newRig(t, smallFixture().with(member)), some(w.shard)
		step := func(p lcore.Part) { s.part(p); s.work() }
		s.entitle()
		step(lcore.Part{Hold: shard})
		w.arrive(s, 1)
		s.work()
		s.part(lcore.Part{})
		step(lcore.Part{Hold: shard})
		step(lcore.Part{Open: shard, Hold: shard})
		step(lcore.Part{Open: shard})
		want(t, w.name+": sent of what was dropped", len(w.leave(s)), 0)
		w.arrive(s, 2)
		s.part(lcore.Part{})
		step(lcore.Part{Open: shard})
		want(t, w.name+": sent of what waited", len(w.leave(s)), 0)
		w.arrive(s, 3)
		s.work()
		want(t, w.name+": sent of what came later", len(w.leave(s)), 1)
	}
}

// TestKeptIsBounded keeps the newest that come, and drops all when the shard is not to be this bridge's after all.
func TestKeptIsBounded(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	shard := some(shards.OfHost(hostMAC))
	come := func(from, to uint32) {
		for n := from; n < to; n++ {
			passages[0].arrive(s, n)
			if n%64 == 0 {
				s.work()
			}
		}
		s.work()
	}
	dropped := func() int { return int(s.counters(lcore.RoCEToIB).Drops[dropNamed(t, "not_mine")]) }
	const all = 5000
	s.part(lcore.Part{Hold: shard})
	s.work()
	come(0, all)
	lost := dropped()
	if lost < all-4096 || lost > all-1000 {
		t.Errorf("%d of %d were dropped for want of room", lost, all)
	}
	s.part(lcore.Part{Open: shard, Hold: shard})
	var left []uint32
	for len(left) < all-lost {
		s.workers[0].Step()
		left = append(left, s.numbersToIB()...)
	}
	for i, number := range left {
		if number != uint32(lost+i) {
			t.Fatalf("message %d is number %d, when %d were dropped", i, number, lost)
		}
	}
	s.part(lcore.Part{Hold: shard})
	s.work()
	come(all, all+10)
	s.part(lcore.Part{})
	s.work()
	want(t, "dropped as nothing is held any more", dropped()-lost, 10)
}

// TestStrangersAreNotKept: who may not cross does not take the place of what was kept, and is dropped at once, by its reason.
func TestStrangersAreNotKept(t *testing.T) {
	s := keepsAll(t, nil)
	s.fromRoCE(v4())
	s.fromIB(received(toGroup(mgidOf(group4))))
	const most = 5000
	for n := range uint64(most) {
		stranger := ib.GIDFromGUID(0xfe80<<48, ib.GUID(0x1000+n))
		s.fromRoCE(v4(from(strangerIP.String()), func(p *roce.Packet) { p.PSN = uint32(n) }))
		s.fromIB(received(toGroup(mgidOf(group4)), fromNode(stranger, 99)))
	}
	want(t, "strangers on RoCE", int(s.counters(lcore.RoCEToIB).Drops[dropNamed(t, "acl")]), most)
	want(t, "strangers on InfiniBand", int(s.counters(lcore.IBToRoCE).Drops[dropNamed(t, "node_unknown")]), most)
	s.opensAll()
	want(t, "sent", len(s.toIB(0)), 1)
	want(t, "sent to RoCE", len(s.toRoCE(0)), 1)
}

// TestKeptAtTheEnd counts what is kept when the bridge ends.
func TestKeptAtTheEnd(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	s.part(lcore.Part{Hold: some(shards.OfHost(hostMAC), shards.OfGroup(mgidOf(group4)))})
	s.work()
	s.fromRoCE(v4())
	s.fromIB(received(toGroup(mgidOf(group4))))
	want(t, "sent", len(s.toIB(0))+len(s.toRoCE(0)), 0)
}

// TestKeptIsPrepared has management make the proxy QP of what is kept, so that it is there when the shard is.
func TestKeptIsPrepared(t *testing.T) {
	w := smallFixture().with(member)
	s := newRig(t, w)
	s.entitle()
	shard := some(shards.OfHost(hostMAC))
	s.part(lcore.Part{Hold: shard})
	s.work()
	s.fromRoCE(v4(fromNewcomer(newcomerIP)))
	punted := s.takePunted()
	if len(punted) != 1 || punted[0].Pending == nil {
		t.Fatalf("%d frames were punted", len(punted))
	}
	w.addHost(newcomerIP, lcore.V2)
	if err := w.populate(s.tables); err != nil {
		t.Fatal(err)
	}
	punted[0].Pending.Requeue()
	s.work()
	want(t, "sent while it is kept", len(s.toIB(0)), 0)
	s.part(lcore.Part{Open: shard, Hold: shard})
	s.work()
	want(t, "sent", len(s.toIB(0)), 1)
	if lcore.LeaseOf(s.datapath).Settled(context.Background()) != nil {
		t.Error("it is not settled")
	}
}

// keepsAll has a rig's worker keep what comes, until opensAll.
func keepsAll(t *testing.T, change func(*fixture)) *rig {
	t.Helper()
	w := smallFixture().with(member)
	if change != nil {
		w = w.with(change)
	}
	s := newRig(t, w)
	s.entitle()
	s.part(lcore.Part{Hold: some(everyShard()...)})
	s.work()
	return s
}

func (s *rig) opensAll() {
	all := some(everyShard()...)
	s.part(lcore.Part{Open: all, Hold: all})
	s.work()
}

// TestKeptIsAsOther has what was kept be sent or dropped for the same reasons as what was not, and counted once.
func TestKeptIsAsOther(t *testing.T) {
	for _, c := range roceCases() {
		t.Run(c.name, func(t *testing.T) {
			s := keepsAll(t, c.fixture)
			before := s.counters(lcore.RoCEToIB)
			s.fromRoCE(c.frame)
			if n := len(s.toIB(0)); n != 0 {
				t.Errorf("%d were sent while they are kept", n)
			}
			s.opensAll()
			checkVerdict(t, s, lcore.RoCEToIB, before, c.drop)
			want(t, "sent", len(s.toIB(0)), 1-len(named(t, c.drop)))
		})
	}
	for _, c := range ibCases {
		t.Run(c.name, func(t *testing.T) {
			s := keepsAll(t, c.fixture)
			before := s.counters(lcore.IBToRoCE)
			s.fromIB(c.msg)
			s.opensAll()
			checkVerdict(t, s, lcore.IBToRoCE, before, c.drop)
			want(t, "sent", len(s.toRoCE(0)), 1-len(named(t, c.drop)))
		})
	}
}

// TestKeptIsCountedOnce counts what is noted of packets when they come, and not again when they are sent.
func TestKeptIsCountedOnce(t *testing.T) {
	s := keepsAll(t, nil)
	marked := func(p *roce.Packet) { p.TClass |= 3 }
	s.fromRoCE(v4(marked), v6(marked), v1(func(p *roce.Packet) { p.FECN = true }))
	s.fromIB(received(toGroup(mgidOf(group4)), fecn))
	s.opensAll()
	want(t, "marked, from RoCE", s.counters(lcore.RoCEToIB).CongestionMarked, 3)
	want(t, "marked, from InfiniBand", s.counters(lcore.IBToRoCE).CongestionMarked, 1)
	want(t, "sent", len(s.toIB(0))+len(s.toRoCE(0)), 4)
}

// TestForwardedBounded fills the set of what others have forwarded. What has no room is refused whole.
func TestForwardedBounded(t *testing.T) {
	const most = 32768
	s := newRig(t, smallFixture().with(member))
	lease, id := lcore.LeaseOf(s.datapath), uint64(0)
	for _, c := range []struct {
		ids int
		fit bool
	}{{most - 1, true}, {2, false}, {1, true}, {1, false}, {0, true}} {
		ids := make([]uint64, c.ids)
		for i := range ids {
			id++
			ids[i] = id
		}
		want(t, fmt.Sprintf("%d more fit", c.ids), lease.AddForwarded(ids), c.fit)
	}
}
