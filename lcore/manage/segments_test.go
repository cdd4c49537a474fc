// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// Two segments, each with a partition; the second on VLAN 200. Hosts, and the bridge, have the same addresses in both.
const (
	firstPKey, secondPKey = ib.PKey(0x8001), ib.PKey(0x8002)
	secondVLAN            = uint16(200)
)

// Nodes of one partition each. node4 is in both.
var (
	inFirst  = netip.MustParseAddr("10.9.0.30")
	inSecond = netip.MustParseAddr("10.9.0.31")
)

func twoSegments(c *manage.Config, p *ibPort) {
	c.Bound = firstPKey
	c.More = []manage.Segment{{Place: manage.Place{VLAN: secondVLAN}, Bound: secondPKey, Addresses: c.Addresses[:1], Version: 2, RoCEMTU: 2048}}
	c.Nodes = append(c.Nodes,
		manage.Node{IP4: inFirst, GID: gid(30), LID: 30, PKey: firstPKey}, manage.Node{IP4: inSecond, GID: gid(31), LID: 31, PKey: secondPKey})
	p.pkeys = []ib.PKey{ib.PKeyDefault, firstPKey, secondPKey}
}

// on returns a frame's link on the second segment.
func on(l frame.Link) frame.Link {
	l.VID = secondVLAN
	return l
}

// TestSegments checks that each segment learns its own hosts, and answers for the nodes that it reaches; and that one
// that floods leaves the other room.
func TestSegments(t *testing.T) {
	bubble(t, "nodes", segmentsAnswer)
	bubble(t, "hosts", segmentsLearn)
	bubble(t, "claims", segmentClaims)
	bubble(t, "pings", segmentPings)
	bubble(t, "one that floods", segmentFloods)
}

func segmentsAnswer(t *testing.T) {
	s := start(t, twoSegments)
	for _, c := range []struct {
		name    string
		link    frame.Link
		to      netip.Addr
		answers int
	}{
		{"the bridge", hostLink, bridge4, 1},
		{"the bridge, in the second", on(hostLink), bridge4, 1},
		{"a node of both", hostLink, node4, 1},
		{"a node of both, in the second", on(hostLink), node4, 1},
		{"a node of the first", hostLink, inFirst, 1},
		{"a node of the first, in the second", on(hostLink), inFirst, 0},
		{"a node of the second", on(hostLink), inSecond, 1},
		{"a node of the second, in the first", hostLink, inSecond, 0},
		{"on a VLAN of nobody", frame.Link{MAC: hostMAC, VID: 201}, bridge4, 0},
	} {
		sent := s.give(arp(c.link, 1, host4, c.to))
		if len(sent) != c.answers {
			t.Errorf("%s: %d answers, want %d", c.name, len(sent), c.answers)
			continue
		}
		for _, f := range frames(t, sent) {
			if vid := vidOf(f); vid != c.link.VID {
				t.Errorf("%s: answered on VLAN %d", c.name, vid)
			}
		}
	}
	if c := s.count(); c.HostsLearned != 2 || c.ARPAnswered != 6 {
		t.Errorf("%d hosts learned, %d requests answered; want 2 and 6", c.HostsLearned, c.ARPAnswered)
	}
}

func segmentsLearn(t *testing.T) {
	s := start(t, twoSegments)
	s.give(arp(hostLink, 1, host4, bridge4))
	s.give(arp(on(hostLink), 1, host4, bridge4))
	first, _, known := s.tables.In(0).Hosts.Find(host4)
	second, _, too := s.tables.In(1).Hosts.Find(host4)
	if !known || !too || first.MAC != hostMAC || first.VLAN != 0 || second.VLAN != secondVLAN {
		t.Errorf("the hosts are %+v and %+v", first, second)
	}
	s.count()
	status := s.loop.Status()
	if x := status.Segments; len(x) != 2 || x[1].PKey != secondPKey || x[1].Name != "VLAN 200" || x[1].Hosts != 1 || status.Hosts != 2 {
		t.Errorf("segments %+v of %d hosts", x, status.Hosts)
	}
	list, err := s.loop.Lists().ListHosts(t.Context(), manage.Query{})
	if err != nil || len(list.Entries) != 2 || list.Entries[0].Segment != 0 || list.Entries[1].Segment != 1 {
		t.Errorf("listed %+v, %v", list.Entries, err)
	}
	for segment, want := range []bool{true, true, false} {
		if got, err := s.loop.Lists().RemoveLearnedHost(t.Context(), uint8(segment), host4); got != want || err != nil {
			t.Errorf("removed from segment %d: %v, %v", segment, got, err)
		}
	}
}

// segmentClaims has another station claim a host's address on the other VLAN, by ARP and ND: it is another host, and the
// first is not asked whether it has gone.
func segmentClaims(t *testing.T) {
	s := start(t, func(c *manage.Config, p *ibPort) {
		twoSegments(c, p)
		c.More[0].Addresses = c.Addresses
	})
	s.give(arp(hostLink, 1, host4, bridge4))
	s.give(ns(hostLink, host6, bridge6))
	for _, b := range [][]byte{arp(on(otherLink), 1, host4, bridge4), arp(on(otherLink), 2, host4, host4), ns(on(otherLink), host6, bridge6), na(on(otherLink), host6, true)} {
		for _, f := range frames(t, s.give(b)) {
			if vidOf(f) != secondVLAN {
				t.Errorf("VLAN %d was told or asked: %x", vidOf(f), b)
			}
		}
	}
	sleep(10 * time.Second)
	for _, ip := range []netip.Addr{host4, host6} {
		first, _, _ := s.tables.In(0).Hosts.Find(ip)
		second, _, _ := s.tables.In(1).Hosts.Find(ip)
		if first.MAC != hostMAC || first.VLAN != 0 || second.MAC != otherMAC || second.VLAN != secondVLAN {
			t.Errorf("%v: the hosts are %+v and %+v", ip, first, second)
		}
	}
	if c := s.count(); c.HostsMoved+c.HostConflicts+c.HostFlaps != 0 {
		t.Errorf("counted %+v", c.HostCounters)
	}
}

// segmentPings checks that an answer is on the VLAN of its request.
func segmentPings(t *testing.T) {
	s := start(t, twoSegments)
	for _, l := range []frame.Link{hostLink, on(hostLink)} {
		sent := frames(t, s.give(ping4(l, 64)))
		if len(sent) != 1 || vidOf(sent[0]) != l.VID || sent[0].Eth.Dst() != hostMAC {
			t.Errorf("on VLAN %d: %d answers", l.VID, len(sent))
		}
	}
}

func segmentFloods(t *testing.T) {
	s := start(t, twoSegments)
	for i := range 64 {
		s.give(arp(frame.Link{MAC: frame.MAC{2, 1, 0, 0, 0, byte(i)}}, 1, netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i)}), bridge4))
	}
	s.give(arp(on(hostLink), 1, host4, bridge4))
	if _, _, known := s.tables.In(1).Hosts.Find(host4); !known {
		t.Error("the other segment's host has found no room")
	}
	if n := s.tables.In(0).Hosts.Len(); n != 8 {
		t.Errorf("the segment that floods has %d hosts, want half of 16", n)
	}
}

func vidOf(f frame.Frame) uint16 {
	if f.Tag == nil {
		return 0
	}
	return f.Tag.VID()
}

// TestPartitionOf checks that the workers' numbers of segments' partitions are management's.
func TestPartitionOf(t *testing.T) {
	segments := []manage.Segment{{Bound: firstPKey}, {Bound: ib.PKeyDefault}, {Bound: secondPKey}}
	for i, want := range []uint8{1, 0, 2} {
		if got := manage.PartitionOf(segments[i].Bound, ib.PKeyDefault, segments); got != want || got >= tables.MaxPartitions {
			t.Errorf("segment %d: partition %d, want %d", i, got, want)
		}
	}
}
