// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"maps"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// A wayCase is a drop on the way out, or by management: it takes more than one frame to provoke it.
type wayCase struct {
	name      string
	drop      string
	direction lcore.Direction
	count     uint64 // how many packets are dropped for it
	fixture   func(*fixture)
	provoke   func(*rig)
}

func twoWorkers(w *fixture) {
	w.workers = 2
	w.proxyQPs[0].Worker = 1
}

// newcomer is good RoCE from a QP without a proxy QP.
func newcomer() []byte { return v4(fromNewcomer(newcomerIP)) }

func repeat(f []byte, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = f
	}
	return all
}

func endPending(reason lcore.Drop) func(*rig) {
	return func(s *rig) {
		s.fromRoCE(newcomer())
		for _, o := range s.takePunted() {
			o.Pending.Drop(reason)
		}
	}
}

var wayCases = []wayCase{
	{"a frame in two mbufs", "l2_toolong", lcore.RoCEToIB, 1, nil, func(s *rig) {
		var m [2]dpdk.Mbuf
		for i, part := range [][]byte{v4(payload(4000))[:2000], v4(payload(4000))[2000:]} {
			var err error
			if m[i], err = s.pool.Alloc(part); err != nil {
				s.t.Fatal(err)
			}
		}
		chain(m[0], m[1])
		s.arriveMbufs(0, 0, m[:1])
		s.work()
	}},
	{"a completion of 39 bytes", "wc_short", lcore.IBToRoCE, 1, nil, func(s *rig) { s.fromIBCut(received(), 39) }},
	{"a completion of 0 bytes", "wc_short", lcore.IBToRoCE, 1, nil, func(s *rig) { s.fromIBCut(received(), 0) }},
	{"by a port that is not the active one", "standby_port", lcore.IBToRoCE, 1, onTwoFabrics, func(s *rig) { s.byPort(1, received(toGroup(mgidOf(group4)))) }},
	{"by another port before", "duplicate", lcore.IBToRoCE, 1, onTwoFabrics, func(s *rig) {
		x := received(toGroup(mgidOf(group6)), func(m *message) { m.HasImm, m.Imm = true, 7 })
		s.byPort(0, x)
		s.byPort(1, x)
	}},
	{"by a port that is not the active one, of a node that nobody knows", "node_unknown", lcore.IBToRoCE, 1, onTwoFabrics, func(s *rig) {
		s.byPort(1, received(toGroup(mgidOf(group4)), fromNode(mustGID("fe80::99"), 99)))
	}},
	{"the IB port full", "ib_full", lcore.RoCEToIB, 3, nil, func(s *rig) {
		s.fromRoCE(repeat(v4(), rigRing)...)
		s.fromRoCE(repeat(v4(), 3)...)
	}},
	{"another member's work", "not_mine", lcore.RoCEToIB, 1, member, func(s *rig) { s.fromRoCE(v4()) }},
	{"without a lease", "lease_ended", lcore.RoCEToIB, 1, member, func(s *rig) {
		s.open(everyShard()...)
		s.fromRoCE(v4())
	}},
	{"no buffer for a copy", "no_buffer", lcore.IBToRoCE, 1, secondSegment, noBuffer},
	{"the Ethernet port full", "eth_full", lcore.IBToRoCE, 3, nil, func(s *rig) {
		for range rigRing {
			s.fromIB(received())
		}
		s.fromIB(received(), received(), received())
	}},
	{"management's ring full", "punt_full", lcore.RoCEToIB, 4, nil, func(s *rig) {
		s.ignorePunts = true
		for range 2 {
			s.fromRoCE(repeat(newcomer(), puntedMost/2)...)
		}
		s.fromRoCE(repeat(newcomer(), puntedMost%2+4)...)
	}},
	{"the other worker's ring full", "peer_full", lcore.RoCEToIB, 4, twoWorkers, func(s *rig) {
		s.arrive(0, repeat(v4(), handed)...)
		for s.workers[0].Step() > 0 {
		}
		s.arrive(0, repeat(v4(), 3)...)
		s.workers[0].Step()
		s.work()
	}},
	{"its own ring full when management gives frames back", "peer_full", lcore.RoCEToIB, 1, twoWorkers, func(s *rig) {
		s.arrive(1, newcomer())
		s.workers[1].Step()
		s.fixture.addHost(newcomerIP, lcore.V2)
		if err := s.fixture.populate(s.tables); err != nil {
			s.t.Fatal(err)
		}
		s.arrive(0, repeat(v4(), handed-1)...) // the other worker's, which are handed off
		for s.workers[0].Step() > 0 {
		}
		for _, o := range s.workers[1].TakePunted() {
			o.Pending.Requeue()
		}
		s.work()
	}},
	{"given back without a proxy QP", "proxy_qp_unknown", lcore.RoCEToIB, 1, nil, func(s *rig) {
		s.fromRoCE(newcomer())
		s.takePunted()[0].Pending.Requeue()
		s.work()
	}},
	{"too many proxy QPs", "proxy_qp_full", lcore.RoCEToIB, 1, nil, endPending(lcore.DropProxyQPFull)},
	{"a source that has not answered", "src_unconfirmed", lcore.RoCEToIB, 1, nil, endPending(lcore.DropSourceUnconfirmed)},
	{"new proxy QPs too fast", "proxy_qp_rate", lcore.RoCEToIB, 1, nil, endPending(lcore.DropProxyQPRate)},
	{"a source that contradicts what is known", "src_refused", lcore.RoCEToIB, 1, nil, endPending(lcore.DropSourceRefused)},
	{"more from another MAC address than management has room for", "src_refused", lcore.RoCEToIB, 2, nil, func(s *rig) {
		s.ignorePunts = true
		s.fromRoCE(repeat(v4(fromMAC(otherMAC)), puntedMost/2)...)
		s.fromRoCE(repeat(v4(fromMAC(otherMAC)), puntedMost-puntedMost/2+2)...)
	}},
	{"more than a group's rate, from Ethernet", "policed", lcore.RoCEToIB, 3, policed, func(s *rig) {
		s.police(1)
		s.fromRoCE(repeat(v4(to(group4)), burstOf+3)...)
	}},
	{"more than a group's rate, from InfiniBand", "policed", lcore.IBToRoCE, 3, policed, func(s *rig) {
		s.police(1)
		for range burstOf + 3 {
			s.fromIB(received(toGroup(mgidOf(group4))))
		}
	}},
	{"dropped on purpose, from Ethernet", "injected", lcore.RoCEToIB, 200, nil, func(s *rig) {
		s.inject(lcore.RoCEToIB, lcore.Injection{Drop: 1})
		s.fromRoCE(repeat(v4(), 200)...)
	}},
	{"dropped on purpose, from InfiniBand", "injected", lcore.IBToRoCE, 3, nil, func(s *rig) {
		s.inject(lcore.IBToRoCE, lcore.Injection{Drop: 1})
		s.fromIB(received(), received(), received())
	}},
	{"pending at the end", "shutdown", lcore.RoCEToIB, 1, nil, endPending(lcore.DropShutdown)},
}

func TestDropsOfWaysOut(t *testing.T) {
	for _, c := range wayCases {
		t.Run(c.name, func(t *testing.T) {
			s := newRig(t, smallFixture().with(c.fixture))
			c.provoke(s)
			want := named(t, c.drop)
			for d := range want {
				want[d] = c.count
			}
			if got := s.counters(c.direction).Drops; !maps.Equal(got, want) {
				t.Errorf("dropped %v, want %v", got, want)
			}
			if other := s.counters(1 - c.direction); other.Received != 0 {
				t.Errorf("the other direction received %d", other.Received)
			}
		})
	}
}

// Close drops what lies on the rings between worker and management, and counts it.
func TestShutdownDropsWhatIsOnRings(t *testing.T) {
	s := newRig(t, smallFixture().with(twoWorkers))
	s.ignorePunts = true
	s.arrive(0, newcomer(), v4(), newcomer(), v4())
	s.workers[0].Step() // two on the punt ring, two on the other worker's ring
	final := s.datapath.Close()
	s.checkConserved(final)
	want := map[lcore.Drop]uint64{lcore.DropShutdown: 4}
	if got := final.Direction[lcore.RoCEToIB].Drops; !maps.Equal(got, want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
	if n := s.pool.InUse(); n != 0 {
		t.Errorf("%d mbufs are in use", n)
	}
	s.reopen()
}

// Punted frames are counted separately: they do not count as RoCE packets, dropped or not.
func TestPuntedFrames(t *testing.T) {
	s := newRig(t, smallFixture())
	icmp6 := patch(v6(), at6Next, 58)
	mld := patch(withExtension(0), at6UDP, 58)
	control := [][]byte{
		patch(v4(), atEthType, 8, 6), patch(v4(), at4Proto, 1), patch(v4(), at4Proto, 2), icmp6, mld,
		patch(patch(v4(), atNet, 0x46), at4Proto, 2), // IGMP has options
	}
	s.fromRoCE(control...)
	punted := s.takePunted()
	if len(punted) != len(control) {
		t.Fatalf("management got %d frames, want %d", len(punted), len(control))
	}
	for i, o := range punted {
		if o.Pending != nil || string(o.Data) != string(control[i]) {
			t.Errorf("frame %d: pending %v, % x", i, o.Pending != nil, o.Data)
		}
	}
	s.ignorePunts = true
	s.fromRoCE(repeat(control[0], puntedMost/2)...)
	s.fromRoCE(repeat(control[0], puntedMost-puntedMost/2+1)...)
	if o := s.datapath.Counters().Punt; o.Received != uint64(len(control)+puntedMost+1) || o.Full != 1 {
		t.Errorf("punted frames: %+v", o)
	}
	if c := s.counters(lcore.RoCEToIB); c.Received != 0 {
		t.Errorf("%d punted frames were counted as RoCE", c.Received)
	}
}

// A flood of datagrams for the bridge's own services leaves room for others on the punt ring; those that are still on
// it at the end have already been counted.
func TestServicesShare(t *testing.T) {
	s := newRig(t, smallFixture())
	s.ignorePunts = true
	s.fromRoCE(repeat(v4(sidr(ib.AttrSIDRReq)), puntedMost/2)...)
	s.fromRoCE(repeat(v4(sidr(ib.AttrSIDRReq)), puntedMost-puntedMost/2+3)...)
	want := map[lcore.Drop]uint64{}
	for name, n := range map[string]uint64{"mad_served": puntedMost, "punt_full": 3} {
		for d := range named(t, name) {
			want[d] = n
		}
	}
	if got := s.counters(lcore.RoCEToIB).Drops; !maps.Equal(got, want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
	s.fromRoCE(newcomer(), v4(sidr(ib.AttrSIDRRep)))
	for d := range named(t, "punt_full") {
		want[d]++
	}
	if c := s.counters(lcore.RoCEToIB); !maps.Equal(c.Drops, want) || c.ProxyQPWaits != 1 {
		t.Errorf("with a newcomer: %+v", c)
	}
}

// Frames that management sends go out unchanged.
func TestManagementSends(t *testing.T) {
	s := newRig(t, smallFixture())
	long := v4(func(p *roce.Packet) { p.SrcQP, p.Payload = ib.QPN(9), pattern(1400) })
	for _, f := range [][]byte{v4(), long} {
		if err := s.workers[0].Send(s.pool.Pointer(), 0, f); err != nil {
			t.Fatal(err)
		}
	}
	s.work()
	got := s.toRoCE(0)
	if len(got) != 2 || string(got[0]) != string(v4()) || string(got[1]) != string(long) {
		t.Errorf("sent %d frames: % x", len(got), got)
	}
	if err := s.workers[0].Send(s.pool.Pointer(), 0, make([]byte, lcore.DataRoom)); err == nil {
		t.Error("a frame that fits no mbuf was accepted")
	}
	for err := error(nil); err == nil; {
		err = s.workers[0].Send(s.pool.Pointer(), 0, v4())
	}
	if o := s.datapath.Counters().Punt; o.Sent != 2 || o.Rejected != 0 {
		t.Errorf("punted frames: %+v", o)
	}
}
