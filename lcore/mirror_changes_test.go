// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// A mirrorStep changes the tables, or sends one packet, which the mirrors with these filters see at all of its points;
// the others do not see it.
type mirrorStep struct {
	what string
	do   func() error
	send func()
	seen string
}

// runSteps runs steps with a mirror for each filter, beside one of all packets, all of them from the first step to the last.
func (s *rig) runSteps(filters []string, steps []mirrorStep) {
	s.t.Helper()
	all := s.filtered()
	var by []*observer
	for _, f := range filters {
		by = append(by, s.filtered(strings.Fields(f)...))
	}
	var sent []mirrorStep
	for _, x := range steps {
		if x.do == nil {
			x.send()
			s.toIB(0)
			s.toRoCE(0)
			for _, p := range s.takePunted() {
				if p.Pending != nil {
					p.Pending.Drop(lcore.DropShutdown)
				}
			}
			sent = append(sent, x)
		} else if err := x.do(); err != nil {
			s.t.Fatalf("%s: %v", x.what, err)
		}
	}
	seen := pointsOf(all.end())
	packets := slices.Sorted(maps.Keys(seen))
	if len(packets) != len(sent) {
		s.t.Fatalf("%d packets were seen, not %d", len(packets), len(sent))
	}
	for i, f := range filters {
		got := pointsOf(by[i].end())
		for j, p := range packets {
			wanted := ""
			if slices.Contains(strings.Split(sent[j].seen, ", "), f) {
				wanted = seen[p]
			}
			if got[p] != wanted {
				s.t.Errorf("%s, %s: saw it %q, want %q", f, sent[j].what, got[p], wanted)
			}
		}
	}
}

// pointsOf lists the points of each packet.
func pointsOf(saw []lcore.MirroredPacket) map[uint64]string {
	out := map[uint64]string{}
	for _, x := range saw {
		out[x.Packet] += x.Point.String() + " "
	}
	return out
}

// A node that appears, changes its GID and LIDs, and leaves, all while it is watched by each of its addresses.
func TestMirrorOfNodeThatComesAndGoes(t *testing.T) {
	s := newRig(t, smallFixture())
	ip4, ip6 := netip.MustParseAddr("10.10.0.50"), netip.MustParseAddr("2001:db8::50")
	gid, other := mustGID("fe80::2:c903:0:50"), mustGID("fe80::2:c903:0:51")
	put := func(gid ib.GID, lid ib.LID) func() error {
		return func() error {
			_, err := s.tables.Nodes.Put(tables.Node{IP4: ip4, IP6: ip6, GID: gid, LID: lid, LMC: 1, HopLimit: 1})
			return err
		}
	}
	from := func(gid ib.GID, lid ib.LID) func() { return func() { s.fromIB(received(fromNode(gid, lid))) } }
	fromLID := func(lid ib.LID) func() {
		return func() { s.fromIB(received(noGRH, func(m *message) { m.SLID = lid })) }
	}
	to4 := func() { s.fromRoCE(v4(func(p *roce.Packet) { p.DstIP = ip4 })) }
	to6 := func() { s.fromRoCE(v6(func(p *roce.Packet) { p.DstIP = ip6 })) }
	by4, by6, byGID := "host "+ip4.String(), "host "+ip6.String(), "host "+gid.String()
	everyone := strings.Join([]string{by4, by6, byGID}, ", ")
	s.runSteps([]string{by4, by6, byGID}, []mirrorStep{
		{what: "before it is there, with its GID", send: from(gid, 20), seen: byGID},
		{what: "before it is there, from its LID", send: fromLID(21)},
		{what: "before it is there, to it", send: to4, seen: by4},
		{what: "put", do: put(gid, 20)},
		{what: "with its GID", send: from(gid, 20), seen: everyone},
		{what: "from its second LID", send: fromLID(21), seen: everyone},
		{what: "from a LID beside it", send: fromLID(22)},
		{what: "to its IPv4 address", send: to4, seen: everyone},
		{what: "to its IPv6 address", send: to6, seen: everyone},
		{what: "to another", send: func() { s.fromRoCE(v4()) }},
		{what: "change", do: put(other, 300)},
		{what: "with its old GID", send: from(gid, 20), seen: byGID},
		{what: "from its old LID", send: fromLID(21)},
		{what: "with its new GID", send: from(other, 300), seen: by4 + ", " + by6},
		{what: "from its new LID", send: fromLID(301), seen: by4 + ", " + by6},
		{what: "to it", send: to4, seen: by4 + ", " + by6},
		{what: "delete", do: func() error { return s.tables.Nodes.Delete(ip4) }},
		{what: "when it is gone, with its GID", send: from(other, 300)},
		{what: "when it is gone, from its LID", send: fromLID(301)},
		{what: "when it is gone, to it", send: to6, seen: by6},
	})
}

// Two hosts, one after the other, get proxy QPs of the same number.
func TestMirrorOfHostsThatComeAndGo(t *testing.T) {
	s := newRig(t, smallFixture())
	host4, host6 := netip.MustParseAddr("10.10.0.60"), netip.MustParseAddr("2001:db8::60")
	const qpn, proxy = ib.QPN(0x99), ib.QPN(0x7f0)
	put := func(ip netip.Addr) func() error {
		return func() error {
			if _, err := s.tables.Hosts.Put(tables.Host{IP: ip, MAC: hostMAC, Version: lcore.V2}); err != nil {
				return err
			}
			_, err := s.tables.ProxyQPs.Put(tables.ProxyQP{
				HostQP: tables.HostQP{Host: ip, HostQPN: qpn}, QP: proxyQP, QPN: proxy, QKey: hostQKey, Version: lcore.V2,
			})
			return err
		}
	}
	remove := func(ip netip.Addr) func() error {
		return func() error {
			if err := s.tables.ProxyQPs.Delete(tables.HostQP{Host: ip, HostQPN: qpn}); err != nil {
				return err
			}
			return s.tables.Hosts.Delete(ip)
		}
	}
	receive := func() { s.fromIB(received(func(m *message) { m.QPN = proxy })) }
	of := func(ip netip.Addr) func(*roce.Packet) { return func(p *roce.Packet) { p.SrcIP, p.SrcQP = ip, qpn } }
	send4, send6 := func() { s.fromRoCE(v4(of(host4))) }, func() { s.fromRoCE(v6(of(host6))) }
	by4, by6, byQPN := "host "+host4.String(), "host "+host6.String(), "qpn 0x99"
	s.runSteps([]string{by4, by6, byQPN}, []mirrorStep{
		{what: "a message to nobody", send: receive},
		{what: "the first packet of a host", send: send4, seen: by4 + ", " + byQPN},
		{what: "put", do: put(host4)},
		{what: "a message to the first", send: receive, seen: by4 + ", " + byQPN},
		{what: "a packet of the first", send: send4, seen: by4 + ", " + byQPN},
		{what: "a packet of the second, which has no proxy QP", send: send6, seen: by6 + ", " + byQPN},
		{what: "a packet of another", send: func() { s.fromRoCE(v4()) }},
		{what: "delete", do: remove(host4)},
		{what: "put", do: put(host6)},
		{what: "a message to the second", send: receive, seen: by6 + ", " + byQPN},
		{what: "a packet of the second", send: send6, seen: by6 + ", " + byQPN},
		{what: "delete", do: remove(host6)},
		{what: "a message to nobody again", send: receive},
	})
}

// A group that gets another MGID while its address is watched, as a group and as a host.
func TestMirrorOfGroupThatComesAndGoes(t *testing.T) {
	s := newRig(t, smallFixture())
	ip, mgid, other := netip.MustParseAddr("239.1.2.77"), mustGID("ff12:401b:ffff::77"), mustGID("ff12:401b:ffff::78")
	put := func(mgid ib.GID) func() error {
		return func() error {
			_, err := s.tables.Groups.Put(tables.Group{
				IP: ip, MGID: mgid, MLID: 0xc077, QKey: groupIB, RoCEQKey: groupRoCE, MTUToIB: 2048, MTUToRoCE: 2048, Version: lcore.V2, ToIB: true, ToRoCE: true,
			})
			return err
		}
	}
	receive := func(mgid ib.GID) func() { return func() { s.fromIB(received(toGroup(mgid))) } }
	send := func() { s.fromRoCE(v4(to(ip))) }
	byGroup, byHost := "group "+ip.String(), "host "+ip.String()
	s.runSteps([]string{byGroup, byHost}, []mirrorStep{
		{what: "a message before it is there", send: receive(mgid)},
		{what: "a packet before it is there", send: send, seen: byGroup + ", " + byHost},
		{what: "put", do: put(mgid)},
		{what: "a message", send: receive(mgid), seen: byGroup + ", " + byHost},
		{what: "a packet", send: send, seen: byGroup + ", " + byHost},
		{what: "it is closed", do: func() error { return s.tables.Groups.DeleteMGID(mgid) }},
		{what: "another MGID", do: put(other)},
		{what: "a message to the old MGID", send: receive(mgid)},
		{what: "a message to the new MGID", send: receive(other), seen: byGroup + ", " + byHost},
	})
}

// What a requeued packet becomes is mirrored, even if nothing of its host is in the burst that was received before.
func TestMirrorOfRequeued(t *testing.T) {
	s := newRig(t, smallFixture())
	host, qpn := netip.MustParseAddr("10.10.0.60"), ib.QPN(0x99)
	l := s.filtered("host", host.String())
	s.fromRoCE(v4(func(p *roce.Packet) { p.SrcIP, p.SrcQP = host, qpn }))
	pending := s.takePunted()
	if _, err := s.tables.Hosts.Put(tables.Host{IP: host, MAC: hostMAC, Version: lcore.V2}); err != nil {
		t.Fatal(err)
	}
	_, err := s.tables.ProxyQPs.Put(tables.ProxyQP{
		HostQP: tables.HostQP{Host: host, HostQPN: qpn}, QP: proxyQP, QPN: 0x7f0, QKey: hostQKey, Version: lcore.V2,
	})
	if err != nil || len(pending) != 1 {
		t.Fatal(len(pending), err)
	}
	s.fromRoCE(v4())
	pending[0].Pending.Requeue()
	s.work()
	want(t, "points", points(l.end()), "received@0 waiting@0 sent@0 ")
}
