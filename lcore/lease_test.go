// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"causeway/fleet/shards"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

var virtualMAC = frame.MAC{0x02, 0xca, 0x5e, 0x17, 0x2b, 0}

// virtualOf is the MAC address of a station's shard.
func virtualOf(station frame.MAC) frame.MAC {
	m := virtualMAC
	m[5] = byte(shards.OfHost(station))
	return m
}

func member(w *fixture) { w.config.VirtualMAC = virtualMAC }

// some are these shards.
func some(all ...shards.Shard) (s lcore.Shards) {
	for _, x := range all {
		if x < shards.Hosts {
			s.Hosts |= 1 << x
		} else {
			s.Groups[(x-shards.Hosts)/64] |= 1 << ((x - shards.Hosts) % 64)
		}
	}
	return s
}

// part has the workers do a part, and not take a step.
func (s *rig) part(p lcore.Part) {
	s.t.Helper()
	if err := lcore.LeaseOf(s.datapath).Set(context.Background(), &p); err != nil {
		s.t.Fatal(err)
	}
}

// open has the workers forward these shards, and no others.
func (s *rig) open(all ...shards.Shard) {
	s.t.Helper()
	s.part(lcore.Part{Open: some(all...)})
	s.work() // what is opened waits for a turn in which nothing comes
}

func everyShard() (all []shards.Shard) {
	for x := range shards.Shard(shards.Count) {
		all = append(all, x)
	}
	return all
}

func without(all []shards.Shard, x shards.Shard) []shards.Shard {
	return slices.DeleteFunc(slices.Clone(all), func(o shards.Shard) bool { return o == x })
}

func (s *rig) entitle() { lcore.LeaseOf(s.datapath).SetDeadline(time.Now().Add(time.Hour)) }

// A member forwards while it has a lease, what its shards are.
func TestLease(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	toShard, fromNewcomer := v4(), v4(fromNewcomer(newcomerIP))
	mac := virtualOf(hostMAC)
	copy(toShard, mac[:])
	host, group := shards.OfHost(hostMAC), shards.OfGroup(mgidOf(group4))
	roce := func(when string, f []byte, drop string) {
		t.Helper()
		t.Log(when)
		before := s.counters(lcore.RoCEToIB)
		s.fromRoCE(f)
		checkVerdict(t, s, lcore.RoCEToIB, before, drop)
	}
	ib := func(when string, m message, drop string) {
		t.Helper()
		t.Log(when)
		before := s.counters(lcore.IBToRoCE)
		s.fromIB(m)
		checkVerdict(t, s, lcore.IBToRoCE, before, drop)
	}
	roce("at first", toShard, "not_mine")
	roce("a stranger, at first", fromNewcomer, "not_mine")
	ib("at first", received(toGroup(mgidOf(group4))), "not_mine")
	ib("of another bridge, at first", received(toGroup(mgidOf(group4)), fromNode(peerGID, peerLID)), "loop_bridge")
	s.open(everyShard()...)
	roce("without a lease", toShard, "lease_ended")
	ib("without a lease", received(toGroup(mgidOf(group4))), "lease_ended")
	ib("to a proxy QP, without a lease", received(), "lease_ended")
	s.entitle()
	for _, to := range []func(*rig){func(s *rig) { s.open(everyShard()...) }, func(s *rig) { s.open(host, group) }} {
		to(s)
		roce("to the shard", toShard, "")
		roce("to the port", v4(), "")
		ib("with a lease", received(toGroup(mgidOf(group4))), "")
	}
	s.open(without(everyShard(), host)...)
	roce("another's", toShard, "not_mine")
	ib("another's host", received(toGroup(mgidOf(group4))), "")
	s.open(without(everyShard(), group)...)
	roce("another's group", toShard, "")
	ib("another's", received(toGroup(mgidOf(group4))), "not_mine")
	s.open(everyShard()...)
	lcore.LeaseOf(s.datapath).SetDeadline(time.Now())
	roce("after the lease", toShard, "lease_ended")
	ib("after the lease", received(toGroup(mgidOf(group4))), "lease_ended")
	lcore.LeaseOf(s.datapath).Until(1<<63, 0)
	roce("after the lease, by a TSC that has stood still", toShard, "lease_ended")
	lcore.LeaseOf(s.datapath).Until(0, time.Hour)
	roce("after the lease, by a system's clock that has", toShard, "lease_ended")
	s.entitle()
	looped := v4()
	copy(looped[6:], mac[:])
	roce("another member's", looped, "loop_bridge")
}

// source is where the frame that a message becomes comes from.
func (s *rig) source(m message) frame.MAC {
	s.t.Helper()
	s.fromIB(m)
	sent := s.toRoCE(0)
	if len(sent) != 1 {
		s.t.Fatalf("%d frames", len(sent))
	}
	return frame.MAC(sent[0][6:12])
}

// Frames come from the shard of the host that they are for, where this bridge has it: then the host's neighbour entry stays
// lease whoever has the shard.
func TestVirtualMAC(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	group := received(toGroup(mgidOf(group4)))
	s.open(everyShard()...)
	if got := s.source(received()); got != virtualOf(hostMAC) {
		t.Errorf("to a host of this bridge from %v", got)
	}
	if got := s.source(group); got != bridgeMAC {
		t.Errorf("to a group from %v", got)
	}
	s.open(without(everyShard(), shards.OfHost(hostMAC))...)
	if got := s.source(received()); got != bridgeMAC {
		t.Errorf("to a host of another bridge, by a proxy QP of this one, from %v", got)
	}
	s.open(everyShard()...)
	s.part(lcore.Part{Open: some(everyShard()...), Leave: some(shards.OfHost(hostMAC))})
	if got := s.source(received()); got != bridgeMAC {
		t.Errorf("to a host whose shard passes to another bridge, from %v", got)
	}
}

// What management sends from a shard's MAC address leaves while the bridge has the shard and a lease, or is about to have it; and
// what it sends from its port's always.
func TestAnnouncementsAreFenced(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	mac := virtualOf(hostMAC)
	host := some(shards.OfHost(hostMAC))
	rest := some(without(everyShard(), shards.OfHost(hostMAC))...)
	send := func(when string, leaves bool) {
		t.Helper()
		want := 1
		before := s.datapath.Counters().Punt
		for _, from := range []frame.MAC{mac, bridgeMAC} {
			if err := s.workers[0].Send(s.pool.Pointer(), 0, frame.AppendRARP(nil, frame.Link{MAC: from})); err != nil {
				t.Fatal(err)
			}
		}
		s.work()
		if leaves {
			want++
		}
		after := s.datapath.Counters().Punt
		if n := len(s.toRoCE(0)); n != want || after.Sent-before.Sent != uint64(want) || after.Fenced-before.Fenced != uint64(2-want) {
			t.Errorf("%s: %d of 2 leave, want %d: %+v, then %+v", when, n, want, before, after)
		}
	}
	s.part(lcore.Part{Open: host})
	send("without a lease", false)
	s.entitle()
	send("open", true)
	s.part(lcore.Part{Open: rest})
	send("another's", false)
	s.part(lcore.Part{Open: rest, Hold: host})
	send("held", false)
	s.part(lcore.Part{Open: rest, Hold: host, Attracts: host.Hosts})
	send("held, and hosts are to reach it here", true)
	s.part(lcore.Part{Open: rest, Attracts: host.Hosts})
	send("held no more", false)
	s.part(lcore.Part{Open: host, Leave: host})
	send("left", false)
	s.part(lcore.Part{Open: host})
	lcore.LeaseOf(s.datapath).SetDeadline(time.Now())
	send("after the lease", false)
}

// Another member's announcement comes to management when it is of a shard that this one has.
func TestOthersAnnouncements(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	hears := func(from frame.MAC, drop string) {
		t.Helper()
		before := s.counters(lcore.RoCEToIB)
		s.fromRoCE(frame.AppendRARP(nil, frame.Link{MAC: from}))
		checkVerdict(t, s, lcore.RoCEToIB, before, drop)
	}
	hears(virtualOf(hostMAC), "loop_bridge")
	hears(hostMAC, "l2_other")
	s.part(lcore.Part{Open: some(shards.OfHost(hostMAC))})
	s.fromRoCE(frame.AppendRARP(nil, frame.Link{MAC: virtualOf(hostMAC)}))
	want(t, "punted of a shard", len(s.takePunted()), 1)
}

// A host that moves is of the shard of its new MAC address: what it sends, and what is sent to it.
func TestMovedHost(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	h, _, ok := s.tables.In(0).Hosts.Find(hostIP)
	was := shards.OfHost(h.MAC)
	for ok && shards.OfHost(h.MAC) == was {
		h.MAC[4]++
	}
	if _, err := s.tables.In(0).Hosts.Put(h); err != nil {
		t.Fatal(err)
	}
	moved := v4()
	copy(moved[6:], h.MAC[:])
	for _, c := range []struct {
		closed shards.Shard
		drop   string
		source frame.MAC
	}{{was, "", virtualOf(h.MAC)}, {shards.OfHost(h.MAC), "not_mine", bridgeMAC}} {
		s.open(without(everyShard(), c.closed)...)
		before := s.counters(lcore.RoCEToIB)
		s.fromRoCE(moved)
		checkVerdict(t, s, lcore.RoCEToIB, before, c.drop)
		if got := s.source(received()); got != c.source {
			t.Errorf("with all shards but %v: to the host from %v, want %v", c.closed, got, c.source)
		}
	}
}

// What waited before a shard was opened may be what another member forwarded.
func TestShardsOpenAfterWhatWaited(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	s.open()
	const waiting = 100 // more than a burst
	before := s.counters(lcore.RoCEToIB)
	s.arrive(0, repeat(v4(), waiting)...)
	s.open(shards.OfHost(hostMAC))
	s.fromRoCE(v4())
	got := s.counters(lcore.RoCEToIB)
	if dropped := s.droppedSince(lcore.RoCEToIB, before); got.Sent-before.Sent != 1 || dropped[dropNamed(t, "not_mine")] != waiting {
		t.Errorf("sent %d, dropped %v, of %d that waited and one that came later", got.Sent-before.Sent, dropped, waiting)
	}
	group := received(toGroup(mgidOf(group4)))
	s.open(shards.OfGroup(mgidOf(group4)))
	s.fromIB(group)
	if n := len(s.toRoCE(0)); n != 1 {
		t.Errorf("%d of 1 message to a group whose shard is open", n)
	}
}

// What comes to another worker than that of its proxy QP crosses as soon as the first has the shard open, even while the second
// still has older frames in its queue. A shard that is closed meanwhile is closed to both.
func TestHandoffWhileShardOpens(t *testing.T) {
	for _, closed := range []bool{false, true} {
		s := newRig(t, smallFixture().with(twoWorkers).with(member))
		s.entitle()
		s.open()
		const waiting = 1000 // many bursts
		s.arrive(1, repeat(v4(), waiting)...)
		s.part(lcore.Part{Open: some(shards.OfHost(hostMAC))})
		s.workers[0].Step() // finds its queue empty
		s.arrive(0, v4(), v4())
		s.workers[0].Step()
		if closed {
			s.part(lcore.Part{})
		}
		s.work()
		want(t, "handed over", s.counters(lcore.RoCEToIB).Handoffs > 0, true)
		sent, dropped := len(s.toIB(0))+len(s.toIB(1)), s.counters(lcore.RoCEToIB).Drops[dropNamed(t, "not_mine")]
		if closed && sent != 0 || !closed && sent != 2 || uint64(sent)+dropped != waiting+2 {
			t.Errorf("closed meanwhile is %v: %d sent, %d are not_mine", closed, sent, dropped)
		}
	}
}

// A queue that is never empty does not keep a shard closed.
func TestShardsOpenUnderLoad(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	s.open()
	s.part(lcore.Part{Open: lcore.Shards{Hosts: ^uint64(0)}})
	for came := 0; ; came += 64 {
		if came > 2*65536 {
			t.Fatal("the shard is not open after 131072 frames")
		}
		s.arrive(0, repeat(v4(), 64)...)
		s.workers[0].Step()
		if n := len(s.toIB(0)); n != 0 {
			if came < 65536-64 {
				t.Errorf("open after %d frames, which may be older", came)
			}
			return
		}
	}
}

// Workers number shards as the fleet does.
func TestShardNumbers(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	s.entitle()
	s.ignorePunts = true // of strangers
	for range 500 {
		mac := frame.MAC{0x02, byte(rand.Uint32()), byte(rand.Uint32()), byte(rand.Uint32()), byte(rand.Uint32()), byte(rand.Uint32())}
		f := v4(func(p *roce.Packet) { p.Src, p.SrcIP = mac, newcomerIP })
		before := s.counters(lcore.RoCEToIB)
		s.open(without(everyShard(), shards.OfHost(mac))...)
		s.fromRoCE(f)
		if d := s.droppedSince(lcore.RoCEToIB, before); d[dropNamed(t, "not_mine")] != 1 {
			t.Fatalf("%v is not of shard %v: %v", mac, shards.OfHost(mac), d)
		}
	}
	g := s.fixture.groups[0]
	for range 500 {
		mgid := ib.GID{0xff}
		for i := range mgid[1:] {
			mgid[1+i] = byte(rand.Uint32())
		}
		if err := s.tables.In(0).Groups.DeleteMGID(g.MGID); err != nil {
			t.Fatal(err)
		}
		g.MGID = mgid
		if _, err := s.tables.In(0).Groups.Put(g); err != nil {
			t.Fatal(err)
		}
		before := s.counters(lcore.IBToRoCE)
		s.open(without(everyShard(), shards.OfGroup(mgid))...)
		s.fromIB(received(toGroup(mgid)))
		if d := s.droppedSince(lcore.IBToRoCE, before); d[dropNamed(t, "not_mine")] != 1 {
			t.Fatalf("%v is not of shard %v: %v", mgid, shards.OfGroup(mgid), d)
		}
	}
}
