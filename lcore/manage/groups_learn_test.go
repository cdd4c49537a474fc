// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"net/netip"
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
	learned4 = netip.MustParseAddr("239.2.0.5")
	learned6 = netip.MustParseAddr("ff15::2:5")
	other4   = netip.MustParseAddr("10.9.0.2")
)

func rangeOf(prefix string) manage.Range {
	return manage.Range{
		Prefix: netip.MustParsePrefix(prefix), Reports: true, SA: true, Most: 8, MGID: mgid,
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

// querier sends a general query each 125 s, as a querier on the link does, until the given time is over.
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
	for _, ip := range want {
		if g, _, ok := s.tables.Groups.Find(ip); !ok || g.MGID != mgid(ip) || !g.ToIB || !g.ToRoCE {
			s.t.Errorf("%s: group %v is %+v", what, ip, g)
		}
	}
	if st := s.loop.Status(); st.Learned != len(want) || !st.Ready {
		s.t.Errorf("%s: %d groups are learned, want %v", what, st.Learned, want)
	}
}

// TestLearnReports checks that a group that a host reports is bridged, and reported to the switches, and that one that
// all members have left ends.
func TestLearnReports(t *testing.T) {
	for _, ip := range []netip.Addr{learned4, learned6} {
		bubble(t, ip.String(), func(t *testing.T) {
			s := start(t, learning(nil))
			s.reports(hostLink, host4, frame.JoinRecord(ip))
			s.wantLearned("joined", ip)
			if j := s.ibPort.joined[mgid(ip)]; !j.Receive || j.NonMember {
				t.Errorf("joined as %+v", j)
			}
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

// TestLearnOlder checks that groups are learned also from older versions' reports, and from records that name sources.
func TestLearnOlder(t *testing.T) {
	for name, b := range map[string][]byte{
		"IGMPv2":     frame.AppendIGMPv2Report(nil, hostLink, host4, learned4),
		"no address": reportOf(hostLink, netip.IPv4Unspecified(), frame.JoinRecord(learned4)),
		"sources":    reportOf(hostLink, host4, frame.GroupRecord{Type: frame.AllowNewSources, Group: learned4, Sources: []netip.Addr{other4}}),
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, learning(nil))
			s.give(b)
			s.wantLearned("reported", learned4)
		})
	}
}

// TestLeaveOfOne checks that a group stays while it has members: another known host where there is no querier, and any
// that answers where there is one.
func TestLeaveOfOne(t *testing.T) {
	bubble(t, "without a querier", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.reports(otherLink, other4, frame.JoinRecord(learned4))
		s.reports(hostLink, host4, frame.LeaveRecord(learned4))
		sleep(time.Minute)
		s.wantLearned("one has left", learned4)
		s.reports(otherLink, other4, frame.LeaveRecord(learned4))
		sleep(8 * time.Second)
		s.wantLearned("both have left")
	})
	bubble(t, "in its name", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.reports(otherLink, host4, frame.LeaveRecord(learned4))
		s.reports(otherLink, host4, frame.JoinRecord(learned4))
		s.reports(otherLink, host4, frame.LeaveRecord(learned4))
		sleep(time.Minute)
		s.wantLearned("another one has left", learned4)
	})
	bubble(t, "nobody knows who", func(t *testing.T) { // more members than are recorded by address
		s := start(t, learning(nil))
		for i := range 40 {
			s.reports(hostLink, netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i)}), frame.JoinRecord(learned4))
		}
		for i := range 39 {
			s.reports(hostLink, netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i)}), frame.LeaveRecord(learned4))
		}
		sleep(time.Minute)
		s.wantLearned("39 of 40 have left", learned4)
	})
	bubble(t, "with a querier", func(t *testing.T) {
		s := start(t, learning(nil))
		s.querier(time.Second)
		asks := func() { s.give(igmpQuery(frame.Query{Group: learned4, MaxResp: time.Second})) }
		s.reports(hostLink, host4, frame.JoinRecord(learned4)) // the other stays silent, because it received this report
		s.reports(hostLink, host4, frame.LeaveRecord(learned4))
		sleep(time.Minute)
		s.wantLearned("the querier has not asked", learned4)
		asks()
		sleep(time.Second)
		s.reports(otherLink, other4, frame.GroupRecord{Type: frame.ModeIsExclude, Group: learned4})
		sleep(time.Minute)
		s.wantLearned("the other has answered", learned4)
		s.reports(otherLink, other4, frame.LeaveRecord(learned4))
		asks()
		sleep(4 * time.Second)
		s.wantLearned("no member has answered")
		s.reports(hostLink, host4, frame.JoinRecord(learned4)) // and is switched off without a leave
		s.reports(otherLink, other4, frame.JoinRecord(learned4))
		s.reports(otherLink, other4, frame.LeaveRecord(learned4))
		asks()
		sleep(4 * time.Second)
		s.wantLearned("nor here")
	})
}

// TestLeaveSources checks that a group that a host wants of some sources ends when it wants none of them any more.
func TestLeaveSources(t *testing.T) {
	bubble(t, "sources, without a querier", func(t *testing.T) {
		s := start(t, learning(nil))
		of := func(kind frame.RecordType, sources ...netip.Addr) frame.GroupRecord {
			return frame.GroupRecord{Type: kind, Group: learned4, Sources: sources}
		}
		s.reports(hostLink, host4, of(frame.AllowNewSources, other4, node4))
		s.reports(hostLink, host4, of(frame.BlockOldSources, other4))
		sleep(time.Minute)
		s.wantLearned("one of two", learned4)
		s.reports(hostLink, host4, of(frame.BlockOldSources, node4))
		sleep(8 * time.Second)
		s.wantLearned("both")
	})
}

// TestIdle checks that a group that is not reported any more ends after two rounds of a querier, and never where there is none.
func TestIdle(t *testing.T) {
	for _, ip := range []netip.Addr{learned4, learned6} {
		bubble(t, ip.String(), func(t *testing.T) {
			s := start(t, learning(nil))
			s.reports(hostLink, host4, frame.JoinRecord(ip))
			sleep(15 * time.Minute)
			s.wantLearned("no querier", ip)
			s.querier(100 * time.Second)
			s.wantLearned("asked once", ip)
			sleep(15 * time.Minute)
			s.wantLearned("the querier is gone", ip)
			for range 4 {
				s.querier(125 * time.Second)
				s.reports(hostLink, host4, frame.GroupRecord{Type: frame.ModeIsExclude, Group: ip})
			}
			s.wantLearned("answered", ip)
			s.querier(4 * time.Minute)
			s.wantLearned("not answered", ip)
			s.querier(30 * time.Second)
			s.wantLearned("its time is over")
		})
	}
}

// TestNotLearned checks that no group is learned that is outside the ranges or configured, nor from reports of stations
// that are no RoCE host.
func TestNotLearned(t *testing.T) {
	fixed := toIB(netip.MustParseAddr("239.2.0.9"))
	for _, c := range []struct {
		name     string
		frame    []byte
		rejected string
	}{
		{"out of the ranges", reportOf(hostLink, host4, frame.JoinRecord(netip.MustParseAddr("239.3.0.1"))), ""},
		{"configured", reportOf(hostLink, host4, frame.JoinRecord(fixed.IP)), ""},
		{"off the link", reportOf(hostLink, far4, frame.JoinRecord(learned4)), "source"},
		{"a node's", reportOf(hostLink, node4, frame.JoinRecord(learned4)), "source"},
		{"the bridge's own", reportOf(frame.Link{MAC: bridgeMAC}, bridge4, frame.JoinRecord(learned4)), ""},
		{"a leave", reportOf(hostLink, host4, frame.LeaveRecord(learned4)), ""},
		{"sources blocked", reportOf(hostLink, host4, frame.GroupRecord{Type: frame.BlockOldSources, Group: learned4, Sources: []netip.Addr{other4}}), ""},
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
			if got := s.count().GroupsRejected; c.rejected != "" && got[c.rejected] != 1 || c.rejected == "" && len(got) != 0 {
				t.Errorf("rejected %v, want %q", got, c.rejected)
			}
		})
	}
}

// TestConfiguredWins checks that a learned group that becomes configured stays open, that one that is configured with
// another MGID ends, and that learned ones make room.
func TestConfiguredWins(t *testing.T) {
	bubble(t, "the same", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.wantLearned("learned", learned4)
		s.set(both(learned4))
		s.wantLearned("configured")
		if st := s.loop.Status(); st.Groups != 1 || len(s.ibPort.leaves) != 0 || s.ibPort.joins[mgid(learned4)] != 1 {
			t.Errorf("status %+v, left %v", st, s.ibPort.leaves)
		}
	})
	bubble(t, "with another MGID", func(t *testing.T) {
		s := start(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.set(at(both(learned4), 1))
		s.wantLearned("configured")
		if g, _, _ := s.tables.Groups.Find(learned4); g.MGID != at(both(learned4), 1).MGID || len(s.ibPort.leaves) != 1 {
			t.Errorf("%+v, left %v", g, s.ibPort.leaves)
		}
		s.set()
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.wantLearned("no longer configured", learned4)
	})
	bubble(t, "room", func(t *testing.T) {
		s := start(t, learning(func(c *manage.Config, _ *ibPort) { c.MaxGroups = 2 }))
		for _, ip := range []netip.Addr{learned4, learned6, netip.MustParseAddr("239.2.0.6")} {
			s.reports(hostLink, host4, frame.JoinRecord(ip))
		}
		s.wantLearned("full", learned4, learned6)
		if n := s.count().GroupsRejected["groups_full"]; n != 1 {
			t.Errorf("rejected %d", n)
		}
		s.set(toIB(group4), toIB(group6))
		s.wantLearned("configured")
		if st := s.loop.Status(); st.Groups != 2 {
			t.Errorf("status %+v", st)
		}
	})
}

// TestLearnFlood checks that 10 000 groups at a time, old and new, are counted by reason, that memory does not grow by what is
// refused, that configured groups are not delayed by learned ones that cannot be joined, and that the bridge is ready.
func TestLearnFlood(t *testing.T) {
	bubble(t, "10 000 groups", func(t *testing.T) {
		const flood, most, rounds = 10_000, 64, 20
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
		round := func(n int) {
			for i := range flood {
				if i >= most { // the first ones are learned, and reported again
					i += n % 6 * flood
				}
				ip := netip.AddrFrom4([4]byte{239, 2, byte(i >> 8), byte(i)})
				from := netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i%100)}) // none has more of the range than others may
				s.w.give(manage.Punted{Data: reportOf(hostLink, from, frame.JoinRecord(ip))})
			}
			sleep(10 * time.Second)
			synctest.Wait()
			s.w.take()
		}
		round(0)
		before := int(heapNow())
		for n := range rounds - 1 {
			round(n + 1)
		}
		grown := int(heapNow()) - before
		c := s.count()
		if st := s.loop.Status(); st.Learned != most || !st.Ready || c.GroupsRejected["range_full"] != rounds*(flood-most) || c.GroupsLearned != most {
			t.Errorf("status %+v", st)
		}
		// 16 bytes a report would be 3 MB; what others in this process keep varies by 1.
		if s.ibPort.busiest > 20 || grown > 2<<20 || s.log.count("group_rejected") > 100 {
			t.Errorf("%d requests at a time, %d bytes more, %d lines", s.ibPort.busiest, grown, s.log.count("group_rejected"))
		}
		s.set(both(netip.MustParseAddr("239.1.2.4"))) // its request is answered
		sleep(time.Second)
		if st := s.loop.Status(); !st.Ready {
			t.Errorf("a configured group waits: %+v", st)
		}
	})
}

// TestQueryForBridgeAlone checks that a query that a group's members cannot hear ends nothing.
func TestQueryForBridgeAlone(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, learning(nil))
		s.querier(time.Second)
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		for _, q := range []frame.Query{
			{Group: learned4, MaxResp: 100 * time.Millisecond, Robustness: 1}, {Group: netip.IPv4Unspecified(), MaxResp: 100 * time.Millisecond, Robustness: 1},
		} {
			b := igmpQuery(q)
			copy(b, bridgeMAC[:])
			s.give(b)
			sleep(10 * time.Second)
			s.wantLearned("it has not been asked", learned4)
		}
		s.give(igmpQuery(frame.Query{Group: learned4, MaxResp: 100 * time.Millisecond, Robustness: 1}))
		sleep(500 * time.Millisecond)
		s.wantLearned("it has a second to answer", learned4)
		sleep(2 * time.Second)
		s.wantLearned("it has not answered")
	})
}
