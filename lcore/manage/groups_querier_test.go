// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// queried takes the queries that the bridge has sent: general ones, and those about a group.
func (s *rig) queried() (v4, v6, specific int) {
	s.t.Helper()
	for _, f := range frames(s.t, s.w.take()) {
		var m frame.Membership
		var fault frame.Fault
		switch {
		case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
			m, fault = frame.ParseIGMP(f.IPv4, f.Payload)
		case f.IPv6 != nil && f.Protocol() == frame.ProtoHopByHop:
			m, fault = frame.ParseMLD(f.IPv6, f.Payload)
		}
		switch {
		case fault != "":
			s.t.Errorf("a bad frame: %q", fault)
		case m.Query == nil:
		case !m.Query.Group.IsUnspecified():
			specific++
		case m.Query.Group.Is4():
			v4++
		default:
			v6++
		}
	}
	return v4, v6, specific
}

func asking(c *manage.Config, _ *ibPort) { c.Querier = true }

// TestQuerier checks that the bridge is the querier where there is no other: two queries at the start, then one each
// 125 s; that it yields to a querier with a lower address, but not to one with a higher or no address; and that it
// returns when that one has gone.
func TestQuerier(t *testing.T) {
	bubble(t, "off", func(t *testing.T) {
		s := start(t, learning(nil))
		sleep(5 * time.Minute)
		if v4, v6, n := s.queried(); v4+v6+n != 0 {
			t.Errorf("asked %d, %d, %d times", v4, v6, n)
		}
	})
	query := func(from string) []byte {
		return frame.AppendIGMPv3Query(nil, routerLink, netip.MustParseAddr(from),
			frame.Query{Group: netip.IPv4Unspecified(), MaxResp: 10 * time.Second})
	}
	bubble(t, "on", func(t *testing.T) {
		s := start(t, learning(asking))
		want := func(what string, took time.Duration, want4, want6 int) {
			t.Helper()
			sleep(took)
			if v4, v6, _ := s.queried(); v4 != want4 || v6 != want6 {
				t.Errorf("%s: asked %d and %d times, want %d and %d", what, v4, v6, want4, want6)
			}
		}
		want("at the start", 40*time.Second, 2, 2)
		want("then", 250*time.Second, 2, 2)
		s.give(query("10.9.0.255"))
		s.give(query("0.0.0.0"))
		want("others that come after", 125*time.Second, 1, 1)
		s.give(query("10.9.0.1"))
		want("one that comes first", 250*time.Second, 0, 2)
		want("and has gone", 40*time.Second, 2, 0)
	})
}

// TestQuerierAges checks that a bridge that is the querier ends groups without reports, and queries twice when a member
// has left.
func TestQuerierAges(t *testing.T) {
	bubble(t, "idle", func(t *testing.T) {
		s := start(t, learning(asking))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		sleep(255 * time.Second)
		s.wantLearned("255 s", learned4)
		sleep(6 * time.Second)
		s.wantLearned("261 s")
	})
	bubble(t, "left", func(t *testing.T) {
		s := start(t, learning(asking))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		sleep(time.Second)
		s.w.take()
		s.w.give(manage.Punted{Data: reportOf(hostLink, host4, frame.LeaveRecord(learned4))})
		sleep(3 * time.Second)
		if _, _, n := s.queried(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		sleep(5 * time.Second)
		s.wantLearned("no answer")
	})
}
