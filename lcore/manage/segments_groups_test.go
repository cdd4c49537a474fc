// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// mgidIn is the MGID of a group in a partition.
func mgidIn(k ib.PKey) func(netip.Addr) ib.GID {
	return func(ip netip.Addr) ib.GID { return ib.MGIDRDMACM(ip, k, 2) }
}

// inPartition is a range of a partition's groups.
func inPartition(r manage.Range, k ib.PKey) manage.Range {
	r.Group.PKey, r.MGID = k, mgidIn(k)
	return r
}

// learningTwice learns the same addresses in both segments.
func learningTwice(edit func(*manage.Config)) func(*manage.Config, *ibPort) {
	return func(c *manage.Config, p *ibPort) {
		twoSegments(c, p)
		c.MaxGroups = 32
		c.More[0].Addresses = c.Addresses
		for _, prefix := range []string{"239.2.0.0/16", "ff15::2:0/112"} {
			c.Ranges = append(c.Ranges, inPartition(rangeOf(prefix), firstPKey))
			c.More[0].Ranges = append(c.More[0].Ranges, inPartition(rangeOf(prefix), secondPKey))
		}
		if edit != nil {
			edit(c)
		}
	}
}

// wantGroups compares the groups that each segment has in the tables, and what the port has joined.
func (s *rig) wantGroups(what string, want ...[]ib.GID) {
	s.t.Helper()
	sleep(200 * time.Millisecond)
	joined := 0
	counted := map[ib.GID]uint8{}
	for _, x := range s.loop.Status().Joined {
		counted[x.MGID] = x.Segments
	}
	for i, mgids := range want {
		k := []ib.PKey{firstPKey, secondPKey}[i]
		in := s.tables.In(uint8(i)).Groups
		joined += len(mgids)
		if in.Len() != len(mgids) {
			s.t.Errorf("%s: segment %d has %v, want %v", what, i, slices.Collect(in.All()), mgids)
		}
		for _, m := range mgids {
			if counted[m] != 1<<i {
				s.t.Errorf("%s: %v is counted for the segments %b, want %d alone", what, m, counted[m], i)
			}
			if g, _, ok := in.FindMGID(m); !ok || s.loop.PKey(g.Partition) != k || s.ibPort.joined[m].PKey != k {
				s.t.Errorf("%s: segment %d has %+v, joined as %+v", what, i, g, s.ibPort.joined[m])
			}
		}
	}
	if len(s.ibPort.joined) != joined {
		s.t.Errorf("%s: joined %v", what, s.ibPort.joined)
	}
}

// TestSegmentGroups checks that reports, queries and notices count in their segment alone.
func TestSegmentGroups(t *testing.T) {
	bubble(t, "reports", segmentReports)
	bubble(t, "the bridge's own reports", segmentReportsOwn)
	bubble(t, "querier", segmentQueriers)
	bubble(t, "one MGID in both", segmentsShareMGID)
	bubble(t, "a group that moves", groupMovesSegment)
	bubble(t, "notices", segmentNotices)
}

func segmentReports(t *testing.T) {
	s := start(t, learningTwice(nil))
	for _, ip := range []netip.Addr{learned4, learned6} {
		first, second := []ib.GID{mgidIn(firstPKey)(ip)}, []ib.GID{mgidIn(secondPKey)(ip)}
		s.reports(on(hostLink), host4, frame.JoinRecord(ip))
		s.wantGroups("a report in the second", nil, second)
		s.reports(hostLink, host4, frame.JoinRecord(ip))
		s.wantGroups("and in the first", first, second)
		s.reports(on(hostLink), host4, frame.LeaveRecord(ip))
		sleep(8 * time.Second)
		s.wantGroups("left in the second", first, nil)
		s.reports(frame.Link{MAC: hostMAC, VID: 201}, host4, frame.LeaveRecord(ip))
		sleep(8 * time.Second)
		s.wantGroups("left on a VLAN of nobody", first, nil)
		s.reports(hostLink, host4, frame.LeaveRecord(ip))
		sleep(8 * time.Second)
		s.wantGroups("left in the first", nil, nil)
	}
}

// segmentReportsOwn has a group in both segments, and another in the second: each is reported on its VLAN.
func segmentReportsOwn(t *testing.T) {
	other := netip.MustParseAddr("239.1.2.9")
	s := start(t, func(c *manage.Config, p *ibPort) {
		twoSegments(c, p)
		c.MaxGroups = 32
		in := func(ip netip.Addr, k ib.PKey) manage.Group {
			g := toIB(ip)
			g.PKey, g.MGID = k, mgidIn(k)(ip)
			return g
		}
		c.Groups = []manage.Group{in(group4, firstPKey)}
		c.More[0].Groups = []manage.Group{in(group4, secondPKey), in(other, secondPKey)}
	})
	count := func() (on [2][]netip.Addr) {
		for _, f := range frames(t, s.w.take()) {
			if m, fault := frame.ParseIGMP(f.IPv4, f.Payload); fault == "" && m.Query == nil {
				n := min(int(vidOf(f)), 1)
				on[n] = append(on[n], m.Records[0].Group)
				slices.SortFunc(on[n], netip.Addr.Compare)
			}
		}
		return on
	}
	if on := count(); !slices.Equal(on[0], []netip.Addr{group4}) || !slices.Equal(on[1], []netip.Addr{group4, other}) {
		t.Errorf("at the join: %v", on)
	}
	sleep(2 * time.Second)
	s.w.take()
	query := frame.Query{Group: netip.IPv4Unspecified(), MaxResp: time.Second}
	s.give(frame.AppendIGMPv3Query(nil, on(routerLink), netip.MustParseAddr("10.9.0.99"), query))
	sleep(2 * time.Second)
	if on := count(); len(on[0]) != 0 || !slices.Equal(on[1], []netip.Addr{group4, other}) {
		t.Errorf("asked in the second: %v", on)
	}
}

// segmentQueriers has the bridge query in both segments; a querier that comes first in one silences it there alone.
func segmentQueriers(t *testing.T) {
	s := start(t, learningTwice(func(c *manage.Config) { c.Querier, c.More[0].Querier = true, true }))
	count := func(took time.Duration) (on [2]int) {
		sleep(took)
		for _, f := range frames(t, s.w.take()) {
			if f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP {
				if m, fault := frame.ParseIGMP(f.IPv4, f.Payload); fault == "" && m.Query != nil {
					on[min(vidOf(f), 1)]++
				}
			}
		}
		return on
	}
	if n := count(40 * time.Second); n != [2]int{2, 2} {
		t.Errorf("at the start: %v queries", n)
	}
	s.give(frame.AppendIGMPv3Query(nil, on(routerLink), netip.MustParseAddr("10.9.0.1"), frame.Query{Group: netip.IPv4Unspecified(), MaxResp: 10 * time.Second}))
	if n := count(250 * time.Second); n != [2]int{2, 0} {
		t.Errorf("with another in the second: %v queries", n)
	}
	c := changeOf(s.cfg)
	c.Querier, c.More[0].Querier = false, true
	if err := s.loop.Change(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	s.w.take()
	if n := count(300 * time.Second); n[0] != 0 || n[1] == 0 {
		t.Errorf("off in the first, alone in the second: %v queries", n)
	}
}

// segmentsShareMGID has ranges whose MGIDs do not tell the partitions apart. A configuration has none; they would make
// hosts of one segment end what those of the other have joined.
func segmentsShareMGID(t *testing.T) {
	s := start(t, learningTwice(func(c *manage.Config) {
		for i := range c.Ranges {
			c.More[0].Ranges[i].MGID = c.Ranges[i].MGID
		}
	}))
	first := []ib.GID{mgidIn(firstPKey)(learned4)}
	s.reports(hostLink, host4, frame.JoinRecord(learned4))
	s.reports(on(hostLink), host4, frame.JoinRecord(learned4))
	s.wantGroups("reported in both", first, nil)
	s.reports(on(hostLink), host4, frame.LeaveRecord(learned4))
	sleep(8 * time.Second)
	s.wantGroups("left in the second", first, nil)
	if n := s.count().GroupsRejected["mgid_taken"]; n != 1 {
		t.Errorf("%d groups were rejected", n)
	}
}

// groupMovesSegment gives a group's MGID to the other segment, while leaving takes time.
func groupMovesSegment(t *testing.T) {
	g := toIB(group4)
	g.PKey = firstPKey
	s := start(t, func(c *manage.Config, p *ibPort) {
		twoSegments(c, p)
		c.MaxGroups, c.Groups = 32, []manage.Group{g}
		p.leave = func() { time.Sleep(time.Second) }
	})
	s.wantGroups("at the start", []ib.GID{g.MGID}, nil)
	for _, k := range []ib.PKey{secondPKey, firstPKey} {
		c, moved := changeOf(s.cfg), g
		moved.PKey = k
		want := [][]ib.GID{{g.MGID}, nil}
		if c.Groups = []manage.Group{moved}; k == secondPKey {
			c.Groups, c.More[0].Groups = nil, []manage.Group{moved}
			want[0], want[1] = want[1], want[0]
		}
		if err := s.loop.Change(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		sleep(2 * time.Second)
		s.wantGroups("moved", want...)
		if !s.loop.Status().Ready {
			t.Error("not ready")
		}
	}
}

func segmentNotices(t *testing.T) {
	s, notices := startNotified(t, learningTwice(nil))
	first, second := mgidIn(firstPKey)(learned4), mgidIn(secondPKey)(learned4)
	notices <- ibside.Notice{MGID: second}
	s.wantGroups("made in the second's partition", nil, []ib.GID{second})
	notices <- ibside.Notice{MGID: first}
	s.wantGroups("and in the first's", []ib.GID{first}, []ib.GID{second})
	notices <- ibside.Notice{MGID: mgidIn(0x8003)(learned4)}
	s.wantGroups("in that of nobody", []ib.GID{first}, []ib.GID{second})
	notices <- ibside.Notice{MGID: second, Deleted: true}
	s.wantGroups("ended in the second's", []ib.GID{first}, nil)
}
