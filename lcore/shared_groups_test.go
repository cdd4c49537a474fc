// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// A group that both segments share, and one of plain UDP. Their partition is neither segment's.
const sharedPartition = uint8(5)

var (
	sharedIP    = netip.MustParseAddr("239.7.7.7")
	inShared    = mustGID("fe80::2:c903:0:32") // a node of that partition
	inSharedIP  = netip.MustParseAddr("10.10.0.32")
	sharedGroup = tables.Group{IP: sharedIP, Version: lcore.V2, ToIB: true, ToRoCE: true, MGID: mgidOf(sharedIP), MLID: 0xc700, QKey: groupIB, RoCEQKey: groupRoCE,
		MTUToIB: 4096, MTUToRoCE: 4096, Partition: sharedPartition, Segments: 0b11}
)

// sharedRig is a rig of two segments that share groups.
func sharedRig(t *testing.T) *rig {
	w := twoSegments()
	w.nodes = append(w.nodes, tables.Node{IP4: inSharedIP, GID: inShared, LID: 32, Partition: sharedPartition})
	s := newRig(t, w)
	plain := sharedGroup
	plain.MGID[15]++
	plain.Version, plain.UDPPort, plain.TTL, plain.RoCEQKey = tables.PlainUDP, plainPort, plainTTL, 0
	for _, g := range []tables.Group{sharedGroup, plain} {
		if _, err := s.tables.Shared.Put(g); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestSharedGroupToRoCE sends to a group of two segments: each has a copy, unless it may not have it.
func TestSharedGroupToRoCE(t *testing.T) {
	s := sharedRig(t)
	plain := sharedGroup.MGID
	plain[15]++
	for _, c := range []struct {
		name  string
		msg   message
		vlans []uint16
		drop  string
	}{
		{"from a node of any partition", received(toGroup(sharedGroup.MGID)), []uint16{0, secondVLAN}, ""},
		{"from a node of the group's", received(fromNode(inShared, 32), toGroup(sharedGroup.MGID)), []uint16{0, secondVLAN}, ""},
		{"from a node of the first's", received(fromNode(inFirstGID, 30), toGroup(sharedGroup.MGID)), []uint16{0}, "wrong_partition"},
		{"from a node of the second's", received(fromNode(inSecondGID, 31), toGroup(sharedGroup.MGID)), []uint16{secondVLAN}, "wrong_partition"},
		{"more than the second's MTU", received(toGroup(sharedGroup.MGID), func(m *message) { m.Payload = pattern(2049) }), []uint16{0}, "mtu_exceeded"},
		{"plain UDP", received(toGroup(plain)), []uint16{0, secondVLAN}, ""},
		{"of the bridge's own", received(fromNode(bridgeGID, bridgeLID), toGroup(sharedGroup.MGID)), nil, "loop_self"},
	} {
		before := s.counters(lcore.IBToRoCE)
		s.fromIB(c.msg)
		got, seen := s.toRoCE(0), map[uint16]bool{}
		for _, b := range got {
			f, fault := frame.Open(b)
			if fault != "" || f.Dst() != sharedIP || f.Eth.Dst() != frame.GroupMAC(sharedIP) {
				t.Fatalf("%s: %v, % x", c.name, fault, b)
			}
			vlan := uint16(0)
			if f.Tag != nil {
				vlan = f.Tag.VID()
			}
			seen[vlan] = true
			if _, err := roce.Parse(b); err != nil && c.name != "plain UDP" {
				t.Errorf("%s: VLAN %d: %v", c.name, vlan, err)
			}
		}
		for _, v := range c.vlans {
			if !seen[v] {
				t.Errorf("%s: no copy on VLAN %d", c.name, v)
			}
		}
		after := s.counters(lcore.IBToRoCE)
		if len(got) != len(c.vlans) || after.Sent-before.Sent != uint64(len(got)) {
			t.Errorf("%s: %d frames, want %d", c.name, len(got), len(c.vlans))
		}
		drops := s.droppedSince(lcore.IBToRoCE, before)
		d, _ := lcore.DropNamed(c.drop)
		if (c.drop == "") != (len(drops) == 0) || c.drop != "" && drops[d] != 1 {
			t.Errorf("%s: dropped %v, want %q", c.name, drops, c.drop)
		}
		if copies := after.GroupCopies - before.GroupCopies; copies != after.Received-before.Received-1 {
			t.Errorf("%s: %d copies of %d received", c.name, copies, after.Received-before.Received)
		}
	}
}

// TestSharedGroupBurst sends more messages at once than there is room for copies.
func TestSharedGroupBurst(t *testing.T) {
	s := sharedRig(t)
	const n = 300
	msgs := make([]message, n)
	for i := range msgs {
		msgs[i] = received(toGroup(sharedGroup.MGID))
	}
	s.fromIB(msgs...)
	if got := len(s.toRoCE(0)); got != 2*n {
		t.Errorf("%d frames, want %d", got, 2*n)
	}
}

// TestSharedGroupOrder sends messages of which the first segment may not have all: the second has its own in order.
func TestSharedGroupOrder(t *testing.T) {
	s := sharedRig(t)
	both, second := fromNode(inShared, 32), fromNode(inSecondGID, 31)
	s.fromIB(received(both, toGroup(sharedGroup.MGID)), received(second, toGroup(sharedGroup.MGID)), received(both, toGroup(sharedGroup.MGID)))
	var from []netip.Addr
	for _, b := range s.toRoCE(0) {
		if f, _ := frame.Open(b); f.Tag != nil {
			from = append(from, f.Src())
		}
	}
	if len(from) != 3 || from[0] != inSharedIP || from[1] == inSharedIP || from[2] != inSharedIP {
		t.Errorf("the second segment has messages from %v", from)
	}
}

// TestSharedGroupToIB has hosts of both segments publish: each by its proxy QP in the group's partition, which leads to
// no host but by groups.
func TestSharedGroupToIB(t *testing.T) {
	s := sharedRig(t)
	for n := range uint8(2) {
		qp := tables.ProxyQP{
			HostQP: tables.HostQP{Host: hostIP, HostQPN: hostQPN, Partition: sharedPartition}, QP: 900 + uint32(n), QPN: 0x900 + ib.QPN(n), QKey: hostQKey, Version: lcore.V2,
		}
		if _, err := s.tables.In(n).ProxyQPs.Put(qp); err != nil {
			t.Fatal(err)
		}
	}
	s.fromRoCE(v4(to(sharedIP)), v4(to(sharedIP), onSecond))
	sent := s.toIB(0)
	if len(sent) != 2 || sent[0].QP != 900 || sent[1].QP != 901 || sent[0].DGID != sharedGroup.MGID || sent[1].DGID != sharedGroup.MGID {
		t.Errorf("sent %+v", sent)
	}
	before := s.counters(lcore.IBToRoCE)
	s.fromIB(received(func(m *message) { m.QPN = 0x900 }))
	checkVerdict(t, s, lcore.IBToRoCE, before, "wrong_partition")
	if got := s.toRoCE(0); len(got) != 0 {
		t.Errorf("%d frames to a host by its proxy QP for groups", len(got))
	}
}

// TestSharedGroupByVLAN checks that filters by VLAN find a message to a group of several segments, and the copy of their own.
func TestSharedGroupByVLAN(t *testing.T) {
	s := sharedRig(t)
	by := map[string]*observer{}
	for _, vlan := range []string{"0", "200", "201"} {
		by[vlan] = s.filtered("vlan", vlan)
	}
	s.fromIB(received(toGroup(sharedGroup.MGID)))
	s.toRoCE(0)
	for vlan, want := range map[string]int{"0": 2, "200": 2, "201": 0} {
		if got := by[vlan].end(); len(got) != want {
			t.Errorf("vlan %s saw %d points, want %d: %v", vlan, len(got), want, pointsOf(got))
		}
	}
}

// noBuffer has a message to a group of two segments come while the pool is empty.
func noBuffer(s *rig) {
	if _, err := s.tables.Shared.Put(sharedGroup); err != nil {
		s.t.Fatal(err)
	}
	in := []fabricport.Received{fabricport.Received(received(toGroup(sharedGroup.MGID)))}
	if s.ibPort.Deliver(0, in) != 1 {
		s.t.Fatal("the port takes nothing")
	}
	var all []dpdk.Mbuf
	for m, err := s.pool.Alloc(nil); err == nil; m, err = s.pool.Alloc(nil) {
		all = append(all, m)
	}
	s.work()
	for _, m := range all {
		m.Free()
	}
	s.toRoCE(0)
}

// secondSegment adds a segment that reaches all partitions.
func secondSegment(w *fixture) {
	o := w.config.Segment
	o.VLAN = secondVLAN
	w.config.More = []lcore.Segment{o}
}

// TestSegmentsComeAndGo removes and adds segments: a removed one's frames are dropped by name, also where it was the
// first, and the number of what comes in its place is another.
func TestSegmentsComeAndGo(t *testing.T) {
	w := twoSegments()
	s := newRig(t, w)
	verdict := func(when, untagged, second string) {
		t.Helper()
		for _, c := range []struct {
			frame []byte
			drop  string
		}{{v4(), untagged}, {v4(onSecond), second}} {
			j := s.judge([][]byte{c.frame})
			if c.drop == "" && len(j.sent) == 1 || c.drop != "" && j.drops[c.drop] == 1 && len(j.sent) == 0 {
				continue
			}
			t.Errorf("%s: %+v, want %q", when, j, c.drop)
		}
	}
	first, second := w.config.Segment, w.config.More[0]
	verdict("at first", "", "")
	s.datapath.RemoveSegment(1)
	verdict("without the second", "", "vlan_unknown")
	s.work()
	if s.datapath.SegmentRests(1) {
		t.Error("its number is not free after the workers have turned")
	}
	s.datapath.AddSegment(1, &second)
	verdict("again", "", "")
	s.datapath.RemoveSegment(0)
	verdict("without the first", "vlan_unknown", "")
	s.datapath.RemoveSegment(1)
	verdict("without any", "vlan_unknown", "vlan_unknown")
	s.datapath.AddSegment(4, &second) // whose tables are empty
	verdict("the second under another number", "vlan_unknown", isPending)
	s.datapath.AddSegment(0, &first)
	verdict("all", "", isPending)
}
