// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

const sharedPKey = ib.PKey(0x8003)

var (
	ownGroup    = netip.MustParseAddr("239.1.1.1")
	sharedGroup = netip.MustParseAddr("239.7.7.7")
)

// attachments are the segments that workers have, by number.
type attachments map[uint8]uint8 // partitions

func (a attachments) of(s *manage.Segment) {
	s.Attach = func(number, partition uint8) { a[number] = partition }
	s.Detach = func(number uint8) { delete(a, number) }
}

// segmentsRig is a loop of two segments, each with a group, and one that they share.
func segmentsRig(t *testing.T) (*rig, attachments) {
	at := attachments{0: 1, 1: 2}
	return start(t, func(c *manage.Config, p *ibPort) {
		twoSegments(c, p)
		p.pkeys = append(p.pkeys, sharedPKey)
		c.MaxGroups = 8
		for i, s := range []*manage.Segment{&c.Segment, &c.More[0]} {
			at.of(s)
			s.Groups = []manage.Group{{IP: ownGroup, MGID: ib.MGIDRDMACM(ownGroup, ib.PKey(0x8001+i), 2), PKey: s.Bound, ToIB: true, ToRoCE: true}}
		}
		c.Shared = []manage.SharedGroup{{
			Group: manage.Group{IP: sharedGroup, MGID: ib.MGIDRDMACM(sharedGroup, sharedPKey, 2), PKey: sharedPKey, ToIB: true, ToRoCE: true}, In: []manage.Place{{}, {VLAN: secondVLAN}},
		}}
	}), at
}

func (s *rig) changeTo(t *testing.T, edit func(*manage.Change)) {
	t.Helper()
	c := changeOf(s.cfg)
	c.Shared = s.cfg.Shared
	edit(&c)
	if err := s.loop.Change(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	sleep(3 * time.Second)
	s.w.take() // reports
}

// TestSegmentsChange checks that a segment is removed with all that it has, while the other keeps its number, hosts and
// groups; and that it can come again.
func TestSegmentsChange(t *testing.T) {
	bubble(t, "the second goes and comes", func(t *testing.T) { segmentGoes(t, 1) })
	bubble(t, "the first goes and comes", func(t *testing.T) { segmentGoes(t, 0) })
	bubble(t, "contradictions", segmentsRejected)
}

func segmentGoes(t *testing.T, goes uint8) {
	s, at := segmentsRig(t)
	sleep(3 * time.Second)
	links := []frame.Link{hostLink, on(hostLink)}
	for _, l := range links {
		s.give(arp(l, 1, host4, bridge4))
	}
	both := []manage.Segment{s.cfg.Segment, s.cfg.More[0]}
	stays, mgid := 1-goes, both[goes].Groups[0].MGID
	joins := s.ibPort.joins[both[stays].Groups[0].MGID]
	only := func(c *manage.Change) {
		c.Segment, c.More = both[stays], nil
		c.Shared = []manage.SharedGroup{{Group: s.cfg.Shared[0].Group, In: []manage.Place{both[stays].Place}}}
	}
	s.changeTo(t, only)
	if len(s.give(arp(links[goes], 1, host4, bridge4))) != 0 || len(s.give(arp(links[stays], 1, host4, bridge4))) != 1 {
		t.Error("a VLAN that was removed is answered, or the other is not")
	}
	if n := s.tables.In(goes).Hosts.Len() + s.tables.In(goes).Groups.Len(); n != 0 || s.tables.In(stays).Hosts.Len() != 1 || s.tables.In(stays).Groups.Len() != 1 {
		t.Errorf("%d hosts and groups are left", n)
	}
	g, _, _ := s.tables.Shared.FindMGID(s.cfg.Shared[0].MGID)
	if g.Segments != 1<<stays {
		t.Errorf("the group of both has segments %b", g.Segments)
	}
	if _, joined := s.ibPort.joined[mgid]; joined || s.ibPort.joins[both[stays].Groups[0].MGID] != joins || s.ibPort.joins[s.cfg.Shared[0].MGID] != 1 {
		t.Errorf("joined %v, after %v", s.ibPort.joined, s.ibPort.joins)
	}
	if x := s.loop.Status(); len(x.Segments) != 1 || x.Segments[0].Number != stays || x.Segments[0].VLAN != both[stays].VLAN || !x.Ready || len(at) != 1 {
		t.Errorf("segments %+v, attached %v", x.Segments, at)
	}
	var numbers map[manage.Place]uint8
	s.changeTo(t, func(c *manage.Change) {
		c.Segment, c.More = both[goes], []manage.Segment{both[stays]}
		c.Commit = func(n map[manage.Place]uint8) error { numbers = n; return nil }
	})
	if len(numbers) != 2 || numbers[both[goes].Place] != goes || numbers[both[stays].Place] != stays {
		t.Errorf("told that the numbers are %v", numbers)
	}
	x := s.loop.Status()
	if len(x.Segments) != 2 || !x.Ready || x.Segments[stays].VLAN != both[stays].VLAN || x.Segments[goes].Groups != 1 || at[goes] != 1+goes {
		t.Errorf("with both again: %+v, attached %v", x.Segments, at)
	}
	if len(s.give(arp(links[goes], 1, host4, bridge4))) != 1 {
		t.Error("the VLAN that has come again is not answered")
	}
	g, _, _ = s.tables.Shared.FindMGID(s.cfg.Shared[0].MGID)
	if g.Segments != 0b11 || s.ibPort.joins[s.cfg.Shared[0].MGID] != 1 || s.ibPort.joined[mgid].MGID != mgid {
		t.Errorf("the group of both: %+v, joins %v", g, s.ibPort.joins)
	}
	if c := s.count(); c.HostsLearned != 3 {
		t.Errorf("%d hosts were learned, want 3: what was counted in a segment stays", c.HostsLearned)
	}
}

func segmentsRejected(t *testing.T) {
	s, at := segmentsRig(t)
	c := changeOf(s.cfg)
	c.More = append(c.More, c.More[0])
	if err := s.loop.Change(t.Context(), c); err == nil || !strings.Contains(err.Error(), "VLAN 200 is that of two segments") {
		t.Errorf("a VLAN twice: %v", err)
	}
	c = changeOf(s.cfg)
	c.More = nil
	for i := range 8 {
		x := s.cfg.More[0]
		x.VLAN, x.Groups = uint16(300+i), nil
		c.More = append(c.More, x)
	}
	if err := s.loop.Change(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no number for another segment") {
		t.Errorf("nine segments: %v", err)
	}
	if n := len(s.loop.Status().Segments); n != 2 || len(at) != 2 {
		t.Errorf("%d segments after changes that were rejected", n)
	}
}

// leftOn returns the VLANs on which a group is reported as left.
func leftOn(t *testing.T, sent [][]byte, group netip.Addr) map[uint16]bool {
	left := map[uint16]bool{}
	for _, f := range frames(t, sent) {
		if f.IPv4 == nil || f.Protocol() != frame.ProtoIGMP {
			continue
		}
		m, fault := frame.ParseIGMP(f.IPv4, f.Payload)
		if fault != "" {
			t.Fatal(fault)
		}
		for _, r := range m.Records {
			if r.Group == group && r.Type == frame.ToInclude {
				left[vidOf(f)] = true
			}
		}
	}
	return left
}

// TestSharedGroupLeft removes one of two segments that share a group: it is reported as left there, and there alone.
func TestSharedGroupLeft(t *testing.T) {
	for _, goes := range []uint8{0, 1} {
		bubble(t, "", func(t *testing.T) {
			s, _ := segmentsRig(t)
			sleep(3 * time.Second)
			s.w.take()
			both := []manage.Segment{s.cfg.Segment, s.cfg.More[0]}
			stays := both[1-goes]
			c := manage.Change{Segment: stays, Nodes: s.cfg.Nodes, Shared: []manage.SharedGroup{{Group: s.cfg.Shared[0].Group, In: []manage.Place{stays.Place}}}}
			if err := s.loop.Change(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			s.settle()
			if left := leftOn(t, s.w.take(), sharedGroup); len(left) != 1 || !left[both[goes].VLAN] {
				t.Errorf("with segment %d gone the group is left on the VLANs %v", goes, left)
			}
		})
	}
}

// TestSharedGroup checks that a group of two segments is joined once, in its own partition, and reported in both.
func TestSharedGroup(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, _ := segmentsRig(t)
		sleep(3 * time.Second)
		vlans := map[uint16]bool{}
		for _, f := range frames(t, s.w.take()) {
			if f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP && strings.Contains(string(f.Payload), string(sharedGroup.AsSlice())) {
				vlans[vidOf(f)] = true
			}
		}
		g, _, known := s.tables.Shared.FindMGID(s.cfg.Shared[0].MGID)
		j := s.ibPort.joined[s.cfg.Shared[0].MGID]
		if !known || g.Segments != 0b11 || g.Partition != 3 || j.PKey != sharedPKey || len(vlans) != 2 {
			t.Errorf("the group is %+v, joined as %+v, reported on %v", g, j, vlans)
		}
		list, err := s.loop.Lists().ListGroups(t.Context(), manage.Query{})
		if err != nil || len(list.Entries) != 3 || list.Entries[2].Segments != 0b11 || list.Entries[2].State != "joined" || s.loop.Status().Groups != 3 {
			t.Errorf("listed %+v, %v", list.Entries, err)
		}
	})
}
