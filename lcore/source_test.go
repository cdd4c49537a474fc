// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"maps"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// otherMAC is a second station's, which uses the first one's IP address and QPN.
var otherMAC = frame.MAC{2, 0, 0, 0, 0, 0x77}

func fromMAC(mac frame.MAC) func(*roce.Packet) { return func(p *roce.Packet) { p.Src = mac } }

// wantRejected ends pending packets as management does that does not believe them.
func (s *rig) wantRejected(frames ...[]byte) {
	s.t.Helper()
	before := s.counters(lcore.RoCEToIB)
	s.fromRoCE(frames...)
	punted := s.takePunted()
	for i, o := range punted {
		if o.Pending == nil || string(o.Data) != string(frames[i]) {
			s.t.Errorf("management got %+v", o)
			continue
		}
		o.Pending.Drop(lcore.DropSourceRefused)
	}
	n := uint64(len(frames))
	if got := s.droppedSince(lcore.RoCEToIB, before); len(punted) != len(frames) || !maps.Equal(got, map[lcore.Drop]uint64{lcore.DropSourceRefused: n}) {
		s.t.Errorf("management got %d of %d frames; dropped %v", len(punted), n, got)
	}
	after := s.counters(lcore.RoCEToIB)
	if after.Sent != before.Sent || after.ProxyQPWaits != before.ProxyQPWaits {
		s.t.Errorf("before %+v, after %+v", before, after)
	}
}

// A host on the link is its IP address and its MAC address: a second station with its IP address and QPN does not cross
// as the first one, to a node or to a group, on the fast path or not.
func TestOtherMAC(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fixture)
		build  func(...func(*roce.Packet)) []byte
	}{
		{"IPv4", nil, v4},
		{"IPv6", nil, v6},
		{"RoCEv1", nil, v1},
		{"not on the fast path", nil, func(c ...func(*roce.Packet)) []byte { return v4(append(c, checksummed)...) }},
		{"to a group", nil, func(c ...func(*roce.Packet)) []byte { return v4(append(c, to(group4))...) }},
		{"to an IPv6 group", nil, func(c ...func(*roce.Packet)) []byte { return v6(append(c, to(group6))...) }},
		{"VLAN", func(w *fixture) { w.onVLAN(100) }, func(c ...func(*roce.Packet)) []byte {
			return v4(append(c, func(p *roce.Packet) { p.Tag = &frame.VLANFields{PCP: 3, VID: 100} })...)
		}},
		{"the other worker's", twoWorkers, v4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRig(t, smallFixture().with(c.change))
			s.wantRejected(c.build(fromMAC(otherMAC)), c.build(fromMAC(otherMAC)))
			want(t, "handed off", s.counters(lcore.RoCEToIB).Handoffs, 0)
			for i := range 6 { // each byte counts
				mac := hostMAC
				mac[i] ^= 2
				s.wantRejected(c.build(fromMAC(mac)))
			}
			s.fromRoCE(c.build(fromMAC(otherMAC)), c.build())
			s.takePunted()[0].Pending.Drop(lcore.DropSourceRefused)
			want(t, "crossed", len(s.toIB(0))+len(s.toIB(len(s.workers)-1)), 1)
		})
	}
}

// A host that has moved crosses from its new MAC address after one store in each entry, and its packets that were with
// management meanwhile do, too. Nothing crosses from the old one.
func TestSourceMoves(t *testing.T) {
	s := newRig(t, smallFixture())
	s.fromRoCE(v4(fromMAC(otherMAC)))
	pending := s.takePunted()
	if _, err := s.tables.Hosts.Put(tables.Host{IP: hostIP, MAC: otherMAC, Version: lcore.V2}); err != nil {
		t.Fatal(err)
	}
	pending[0].Pending.Requeue()
	s.fromRoCE(v4(fromMAC(otherMAC)), v4(to(group4), fromMAC(otherMAC)))
	want(t, "crossed from the new address", len(s.toIB(0)), 3)
	s.wantRejected(v4())
}

// The MAC address of a host behind a router is a router's, and routers may take turns.
func TestRoutedSource(t *testing.T) {
	s := newRig(t, smallFixture().with(func(w *fixture) { w.hosts[0].Routed = true }))
	s.fromRoCE(v4(), v4(fromMAC(otherMAC)), v4(to(group4), fromMAC(otherMAC)))
	want(t, "crossed", len(s.toIB(0)), 3)
	if _, err := s.tables.Hosts.Put(tables.Host{IP: hostIP, MAC: hostMAC, Version: lcore.V2}); err != nil {
		t.Fatal(err)
	}
	s.wantRejected(v4(fromMAC(otherMAC)))
}

// A packet that management gives back without having moved the host is dropped, and does not go round in a circle.
func TestOtherMACGivenBack(t *testing.T) {
	s := newRig(t, smallFixture())
	s.fromRoCE(v4(fromMAC(otherMAC)))
	s.takePunted()[0].Pending.Requeue()
	s.work()
	want(t, "rejected", s.counters(lcore.RoCEToIB).Drops[lcore.DropSourceRefused], 1)
	want(t, "punted again", len(s.takePunted()), 0)
}

// A flood from another MAC address leaves room for others on the punt ring.
func TestOtherMACShard(t *testing.T) {
	s := newRig(t, smallFixture())
	s.ignorePunts = true
	s.fromRoCE(repeat(v4(fromMAC(otherMAC)), puntedMost/2)...)
	s.fromRoCE(repeat(v4(fromMAC(otherMAC)), puntedMost-puntedMost/2+5)...)
	want(t, "rejected at once", s.counters(lcore.RoCEToIB).Drops[lcore.DropSourceRefused], 5)
	s.fromRoCE(newcomer(), v4(fromMAC(otherMAC)))
	c := s.counters(lcore.RoCEToIB)
	want(t, "rejected at once", c.Drops[lcore.DropSourceRefused], 6)
	want(t, "newcomers that wait", c.ProxyQPWaits, 1)
}
