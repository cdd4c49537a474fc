// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

var (
	learnt4 = netip.MustParseAddr("239.2.0.5")
	learnt6 = netip.MustParseAddr("ff15::2:5")
	other4  = netip.MustParseAddr("10.9.0.2")
)

func rangeOf(prefix string) manage.Range {
	return manage.Range{
		Prefix: netip.MustParsePrefix(prefix), Reports: true, SA: true, Most: 8, Idle: 10 * time.Minute, MGID: mgid,
		Group: manage.Group{QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, ToIB: true, ToRoCE: true},
	}
}

// learning starts a bridge that learns groups.
func learning(edit func(*manage.Config, *ibPort)) func(*manage.Config, *ibPort) {
	return func(c *manage.Config, d *ibPort) {
		c.MaxGroups, c.Ranges = 32, []manage.Range{rangeOf("239.2.0.0/16"), rangeOf("ff15::2:0/112")}
		if edit != nil {
			edit(c, d)
		}
	}
}

func reportOf(link frame.Link, from netip.Addr, r frame.GroupRecord) []byte {
	if r.Group.Is4() {
		return frame.AppendIGMPv3Report(nil, link, from, r)
	}
	return frame.AppendMLDv2Report(nil, link, link.MAC.LinkLocal(), r)
}

func (s *rig) reports(link frame.Link, from netip.Addr, r frame.GroupRecord) {
	s.t.Helper()
	s.give(reportOf(link, from, r))
}

// querier sends a general query each 125 s, as one on the link does, until the bubble's time is over.
func (s *rig) querier(took time.Duration) {
	for end := time.Now().Add(took); time.Now().Before(end); sleep(min(125*time.Second, time.Until(end))) {
		s.give(igmpQuery(frame.Query{Group: netip.IPv4Unspecified(), MaxResp: 10 * time.Second}))
		s.give(mldQuery(frame.Query{Group: netip.IPv6Unspecified(), MaxResp: 10 * time.Second}))
	}
}

func (s *rig) wantLearned(what string, want ...netip.Addr) {
	s.t.Helper()
	s.settle()
	sleep(200 * time.Millisecond)
	s.look(func() {
		for _, ip := range want {
			if g, _, ok := s.tables.Groups.Find(ip); !ok || g.MGID != mgid(ip) || !g.ToIB || !g.ToRoCE {
				s.t.Errorf("%s: group %v is %+v", what, ip, g)
			}
		}
	})
	if st := s.loop.Status(); st.Learned != len(want) || !st.Ready {
		s.t.Errorf("%s: %d groups are learnt, want %v", what, st.Learned, want)
	}
}

// TestLearnReports wants a group that a host reports bridged, and reported to the switches, and one that all members
// have left to end.
func TestLearnReports(t *testing.T) {
	for _, ip := range []netip.Addr{learnt4, learnt6} {
		bubble(t, ip.String(), func(t *testing.T) {
			s := start(t, learning(nil))
			s.reports(hostLink, host4, frame.JoinRecord(ip))
			s.wantLearned("joined", ip)
			s.look(func() {
				if j := s.ibPort.joined[mgid(ip)]; !j.Receive || j.NonMember {
					t.Errorf("joined as %+v", j)
				}
			})
			s.reports(hostLink, host4, frame.LeaveRecord(ip))
			s.wantLearned("the others are given time", ip)
			sleep(8 * time.Second)
			s.wantLearned("left")
			if c := s.count(); c.GroupsLearned != 1 || c.GroupsLost != 1 || c.GroupReportsHeard != 2 || len(s.ibPort.joined) != 0 {
				t.Errorf("counted %+v; still in %v", c, s.ibPort.joined)
			}
		})
	}
}

// TestLearnOlder wants groups learnt also from older versions' reports, and from records that name sources.
func TestLearnOlder(t *testing.T) {
	for name, b := range map[string][]byte{
		"IGMPv2":     frame.AppendIGMPv2Report(nil, hostLink, host4, learnt4),
		"no address": reportOf(hostLink, netip.IPv4Unspecified(), frame.JoinRecord(learnt4)),
		"sources":    reportOf(hostLink, host4, frame.GroupRecord{Type: frame.AllowNewSources, Group: learnt4, Sources: []netip.Addr{other4}}),
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, learning(nil))
			s.give(b)
			s.wantLearned("reported", learnt4)
		})
	}
}

// TestLeaveOfOne wants a group to stay while it has members: another known host where there is no querier, and any that
// answers where there is one.
func TestLeaveOfOne(t *testing.T) {
	bubble(t, "without a querier", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		s.reports(otherLink, other4, frame.JoinRecord(learnt4))
		s.reports(hostLink, host4, frame.LeaveRecord(learnt4))
		sleep(time.Minute)
		s.wantLearned("one has left", learnt4)
		s.reports(otherLink, other4, frame.LeaveRecord(learnt4))
		sleep(8 * time.Second)
		s.wantLearned("both have left")
	})
	bubble(t, "nobody knows who", func(t *testing.T) { // more hosts than are known by address
		s := start(t, learning(nil))
		for i := range 40 {
			s.reports(hostLink, netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i)}), frame.JoinRecord(learnt4))
		}
		for i := range 39 {
			s.reports(hostLink, netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i)}), frame.LeaveRecord(learnt4))
		}
		sleep(time.Minute)
		s.wantLearned("39 of 40 have left", learnt4)
	})
	bubble(t, "with a querier", func(t *testing.T) {
		s := start(t, learning(nil))
		s.querier(time.Second)
		s.reports(hostLink, host4, frame.JoinRecord(learnt4)) // the other is silent: he heard this one
		s.reports(hostLink, host4, frame.LeaveRecord(learnt4))
		sleep(2 * time.Second)
		s.reports(otherLink, other4, frame.GroupRecord{Type: frame.ModeIsExclude, Group: learnt4})
		sleep(time.Minute)
		s.wantLearned("the other has answered", learnt4)
		s.reports(otherLink, other4, frame.LeaveRecord(learnt4))
		sleep(8 * time.Second)
		s.wantLearned("no member has answered")
		s.reports(hostLink, host4, frame.JoinRecord(learnt4)) // and is switched off
		s.reports(otherLink, other4, frame.JoinRecord(learnt4))
		s.reports(otherLink, other4, frame.LeaveRecord(learnt4))
		sleep(8 * time.Second)
		s.wantLearned("nor here")
	})
}

// TestIdle wants a group that is not reported any more to end after its time where there is a querier, and
// never where there is none; time without a querier does not count.
func TestIdle(t *testing.T) {
	for _, ip := range []netip.Addr{learnt4, learnt6} {
		bubble(t, ip.String(), func(t *testing.T) {
			s := start(t, learning(nil))
			s.reports(hostLink, host4, frame.JoinRecord(ip))
			sleep(15 * time.Minute)
			s.wantLearned("no querier", ip)
			s.querier(5 * time.Minute) // and it is believed to be there for 260 s from its last query on
			s.wantLearned("asked for five minutes", ip)
			sleep(15 * time.Minute)
			s.wantLearned("the querier is gone", ip)
			for range 2 {
				s.querier(9 * time.Minute)
				s.reports(hostLink, host4, frame.GroupRecord{Type: frame.ModeIsExclude, Group: ip})
			}
			s.wantLearned("answered", ip)
			s.querier(11 * time.Minute)
			s.wantLearned("not answered")
		})
	}
}

// TestNotLearned wants no group learnt that is in no range or configured, nor from reports of what is no RoCE host.
func TestNotLearned(t *testing.T) {
	fixed := toIB(netip.MustParseAddr("239.2.0.9"))
	for _, c := range []struct {
		name    string
		frame   []byte
		refused string
	}{
		{"out of the ranges", reportOf(hostLink, host4, frame.JoinRecord(netip.MustParseAddr("239.3.0.1"))), ""},
		{"configured", reportOf(hostLink, host4, frame.JoinRecord(fixed.IP)), ""},
		{"off the link", reportOf(hostLink, far4, frame.JoinRecord(learnt4)), "source"},
		{"a node's", reportOf(hostLink, node4, frame.JoinRecord(learnt4)), "source"},
		{"the bridge's own", reportOf(frame.Link{MAC: bridgeMAC}, bridge4, frame.JoinRecord(learnt4)), ""},
		{"a leave", reportOf(hostLink, host4, frame.LeaveRecord(learnt4)), ""},
		{"sources blocked", reportOf(hostLink, host4, frame.GroupRecord{Type: frame.BlockOldSources, Group: learnt4, Sources: []netip.Addr{other4}}), ""},
		{"another's MGID", reportOf(hostLink, host4, frame.JoinRecord(netip.MustParseAddr("239.2.0.77"))), "mgid_taken"},
		{"no MGID", reportOf(hostLink, host4, frame.JoinRecord(netip.MustParseAddr("239.2.0.78"))), "no_mgid"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, learning(func(cfg *manage.Config, _ *ibPort) {
				cfg.Groups = []manage.Group{fixed}
				cfg.Ranges[0].MGID = func(ip netip.Addr) ib.GID {
					switch ip.As4()[3] {
					case 77:
						return fixed.MGID
					case 78:
						return ib.GID{}
					}
					return mgid(ip)
				}
			}))
			s.give(c.frame)
			s.wantLearned("then")
			if got := s.count().GroupsRejected; c.refused != "" && got[c.refused] != 1 || c.refused == "" && len(got) != 0 {
				t.Errorf("refused %v, want %q", got, c.refused)
			}
		})
	}
}

// TestConfiguredWins wants a learnt group that becomes configured to stay open, one that is configured with another MGID
// to end, and learnt ones to make room.
func TestConfiguredWins(t *testing.T) {
	bubble(t, "the same", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		s.wantLearned("learnt", learnt4)
		s.set(both(learnt4))
		s.wantLearned("configured")
		if st := s.loop.Status(); st.Groups != 1 || len(s.ibPort.leaves) != 0 || s.ibPort.joins[mgid(learnt4)] != 1 {
			t.Errorf("status %+v, left %v", st, s.ibPort.leaves)
		}
	})
	bubble(t, "with another MGID", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		s.set(at(both(learnt4), 1))
		s.wantLearned("configured")
		if g, _, _ := s.tables.Groups.Find(learnt4); g.MGID != at(both(learnt4), 1).MGID || len(s.ibPort.leaves) != 1 {
			t.Errorf("%+v, left %v", g, s.ibPort.leaves)
		}
		s.set()
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		s.wantLearned("no longer configured", learnt4)
	})
	bubble(t, "room", func(t *testing.T) {
		s := start(t, learning(func(c *manage.Config, _ *ibPort) { c.MaxGroups = 2 }))
		for _, ip := range []netip.Addr{learnt4, learnt6, netip.MustParseAddr("239.2.0.6")} {
			s.reports(hostLink, host4, frame.JoinRecord(ip))
		}
		s.wantLearned("full", learnt4, learnt6)
		if n := s.count().GroupsRejected["groups_full"]; n != 1 {
			t.Errorf("refused %d", n)
		}
		s.set(toIB(group4), toIB(group6))
		s.wantLearned("configured")
		if st := s.loop.Status(); st.Groups != 2 {
			t.Errorf("status %+v", st)
		}
	})
}

// TestLearnFlood wants 10 000 groups that are reported repeatedly counted by reason, with memory flat, configured groups
// not delayed by learnt ones that cannot be joined, and the bridge ready.
func TestLearnFlood(t *testing.T) {
	bubble(t, "10 000 groups", func(t *testing.T) {
		const flood, most = 10_000, 64
		size := tables.Config{MaxHosts: 4, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 256, MaxReaders: 1}
		s := startWith(t, size, learning(func(c *manage.Config, d *ibPort) {
			c.Ranges[0].Most, c.MaxGroups = most, 128
			d.join = func(ctx context.Context, j ibside.Join, _ int) error {
				if j.MGID[15]%2 == 0 {
					return nil
				}
				<-ctx.Done()
				return errors.New("no answer")
			}
		}))
		round := func() {
			for i := range flood {
				ip := netip.AddrFrom4([4]byte{239, 2, byte(i >> 8), byte(i)})
				s.w.give(manage.Punted{Data: reportOf(hostLink, host4, frame.JoinRecord(ip))})
			}
			sleep(10 * time.Second)
			synctest.Wait()
			s.w.take()
		}
		round()
		before := heapOfGroups()
		for range 5 {
			round()
		}
		grown := heapOfGroups() - before
		c := s.count()
		if st := s.loop.Status(); st.Learned != most || !st.Ready || c.GroupsRejected["range_full"] != 6*(flood-most) || c.GroupsLearned != most {
			t.Errorf("status %+v", st)
		}
		if s.ibPort.busiest > 20 || grown > 1<<20 || s.log.count("group_rejected") > 100 {
			t.Errorf("%d questions at a time, %d bytes more, %d lines", s.ibPort.busiest, grown, s.log.count("group_rejected"))
		}
		s.set(both(netip.MustParseAddr("239.1.2.4"))) // its question is answered
		sleep(time.Second)
		if st := s.loop.Status(); !st.Ready {
			t.Errorf("a configured group waits: %+v", st)
		}
	})
}

func heapOfGroups() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
