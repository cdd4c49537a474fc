// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"

	"pgregory.net/rapid"
)

func (s *rig) set(groups ...manage.Group) {
	s.t.Helper()
	if err := s.setGroups(groups); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// setGroups changes the groups, and nothing else.
func (s *rig) setGroups(groups []manage.Group) error {
	c := changeOf(s.cfg)
	c.Groups = groups
	return s.loop.Change(context.Background(), c)
}

func both(group netip.Addr) manage.Group {
	g := toIB(group)
	g.ToRoCE = true
	return g
}

// at returns a group with another MGID of the same address.
func at(g manage.Group, n byte) manage.Group {
	g.MGID[8] = n
	return g
}

// entries returns the groups in the tables, without MLIDs, which the port assigns in the order of joins.
func entries(s *tables.Tables) map[ib.GID]tables.Group {
	out := map[ib.GID]tables.Group{}
	for g := range s.Groups.All() {
		g.MLID = 0
		out[g.MGID] = g
	}
	return out
}

// answers returns the bridge's reports in answer to general queries.
func (s *rig) answers() []string {
	s.t.Helper()
	sleep(2 * time.Second) // until repeated reports have been sent
	s.w.take()
	s.w.give(manage.Punted{Data: igmpQuery(frame.Query{Group: netip.IPv4Unspecified(), MaxResp: time.Second})})
	s.w.give(manage.Punted{Data: mldQuery(frame.Query{Group: netip.IPv6Unspecified(), MaxResp: time.Second})})
	sleep(1200 * time.Millisecond)
	synctest.Wait()
	reported := s.takeReports()
	slices.Sort(reported)
	return reported
}

// TestAnyChanges checks that any sequence of changes, whatever the port answers meanwhile, ends in the state of a
// bridge that starts with the last set: in the tables, on the IB side, and in its reports.
func TestAnyChanges(t *testing.T) {
	groups := []netip.Addr{group4, netip.MustParseAddr("239.1.2.4"), group6}
	draw := rapid.Custom(func(t *rapid.T) []manage.Group {
		var set []manage.Group
		led := map[netip.Addr]bool{}
		for _, ip := range groups {
			for n := range rapid.IntRange(0, 2).Draw(t, "MGIDs") {
				g := at(both(ip), byte(n))
				way := rapid.IntRange(1, 3).Draw(t, "way")
				g.ToIB, g.ToRoCE = way&1 != 0 && !led[ip], way&2 != 0
				g.ToRoCE = g.ToRoCE || !g.ToIB
				g.QKey = ib.QKey(rapid.IntRange(1, 2).Draw(t, "qkey"))
				g.Rate = uint64(rapid.IntRange(0, 1).Draw(t, "rate"))
				led[ip] = led[ip] || g.ToIB
				set = append(set, g)
			}
		}
		return rapid.Permutation(set).Draw(t, "order")
	})
	rapid.Check(t, func(rt *rapid.T) {
		sets := rapid.SliceOfN(draw, 1, 5).Draw(rt, "sets")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 300), len(sets), len(sets)).Draw(rt, "pauses, ms")
		reject := rapid.SliceOfN(rapid.Bool(), 7, 7).Draw(rt, "rejections")
		var changed, fresh []any
		synctest.Test(t, func(t *testing.T) { changed = afterChanges(t, sets, pauses, reject) })
		synctest.Test(t, func(t *testing.T) { fresh = afterChanges(t, sets[len(sets)-1:], pauses[:1], nil) })
		if a, b := fmt.Sprint(changed), fmt.Sprint(fresh); a != b {
			rt.Fatalf("after changes\n%s\nfrom the start\n%s", a, b)
		}
	})
}

// afterChanges returns the final state of all groups.
func afterChanges(t *testing.T, sets [][]manage.Group, pauses []int, reject []bool) []any {
	rates := map[int]uint64{}
	s := startWith(t, tables.Config{MaxHosts: 4, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 64, MaxReaders: 1}, func(c *manageConfig, d *ibPort) {
		c.Groups, c.MaxGroups = sets[0], 64
		c.Police = func(id int, rate uint64) { rates[id] = rate }
		n := 0
		d.join = func(ctx context.Context, _ ibside.Join, _ int) error {
			d.mu.Lock()
			n++
			no := n < len(reject) && reject[n]
			d.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			if no {
				return errors.New("rejected")
			}
			return ctx.Err()
		}
		d.leave = func() { time.Sleep(7 * time.Millisecond) }
	})
	for i, set := range sets[1:] {
		sleep(time.Duration(pauses[i]) * time.Millisecond)
		if err := s.setGroups(set); err != nil {
			t.Fatal(err)
		}
	}
	sleep(12 * time.Second)
	reported := s.answers()
	if st := s.loop.Status(); !st.Ready || st.Waiting != 0 || len(st.Joined) != st.Groups {
		t.Errorf("status %+v", st)
	}
	policed := map[string]uint64{}
	for _, g := range s.loop.Status().Joined {
		if e, _, _ := s.tables.Groups.FindMGID(g.MGID); e.Policed {
			policed[g.MGID.String()] = rates[g.ID]
		}
	}
	s.ibPort.mu.Lock()
	defer s.ibPort.mu.Unlock()
	return []any{entries(s.tables), maps.Clone(s.ibPort.joined), reported, policed}
}

// TestChangeWithoutGap checks that a change of one group does not interrupt it, where that is possible, nor another;
// and that no direction is open before the IB side has granted it.
func TestChangeWithoutGap(t *testing.T) {
	edit := func(f func(*manage.Group)) manage.Group { g := both(group4); f(&g); return g }
	for _, c := range []struct {
		name         string
		from, to     manage.Group
		during, then string // directions open: during the request to the port, and after it
		joins        int
	}{
		{"rate", both(group4), edit(func(g *manage.Group) { g.Rate = 7 }), "to-ib to-roce", "to-ib to-roce", 1},
		{"immediates", both(group4), edit(func(g *manage.Group) { g.RewriteImm = true }), "to-ib to-roce", "to-ib to-roce", 1},
		{"one way less", both(group4), toIB(group4), "to-ib", "to-ib", 2},
		{"the other way less", both(group4), toRoCE(group4), "to-roce", "to-roce", 1},
		{"one way more", toIB(group4), both(group4), "to-ib", "to-ib to-roce", 2},
		{"the other way more", toRoCE(group4), both(group4), "to-ib to-roce", "to-ib to-roce", 1},
		{"turned around", toIB(group4), toRoCE(group4), "", "to-roce", 2},
		{"Q_Key", both(group4), edit(func(g *manage.Group) { g.QKey = 5 }), "to-ib to-roce", "to-ib to-roce", 2},
		{"address", both(group4), edit(func(g *manage.Group) { g.IP = netip.MustParseAddr("239.9.9.9") }), "to-ib to-roce", "to-ib to-roce", 1},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, func(c2 *manageConfig, d *ibPort) {
				c2.Groups, c2.MaxGroups, c2.Police = []manage.Group{c.from, both(group6)}, 8, func(int, uint64) {}
				d.join = slowJoin
			})
			sleep(2 * time.Second)
			s.w.take()
			other, id, _ := s.tables.Groups.Find(group6)
			s.set(c.to, both(group6))
			if got := s.directions(c.to.IP); got != c.during {
				t.Errorf("during the request, open %q, want %q", got, c.during)
			}
			sleep(2 * time.Second)
			synctest.Wait()
			if got := s.directions(c.to.IP); got != c.then || s.ibPort.joins[c.from.MGID] != c.joins || len(s.ibPort.leaves) > 0 {
				t.Errorf("then, open %q, want %q; %d joins, want %d; left %v", got, c.then, s.ibPort.joins[c.from.MGID], c.joins, s.ibPort.leaves)
			}
			if g, id2, _ := s.tables.Groups.Find(group6); g != other || id2 != id || s.ibPort.joins[mgid(group6)] != 1 {
				t.Errorf("the other group is %+v, was %+v", g, other)
			}
			reported := s.takeReports()
			if slices.ContainsFunc(reported, func(x string) bool { return strings.Contains(x, group6.String()) }) {
				t.Errorf("about the other group: %q", reported)
			}
			if left := slices.Contains(reported, leave4); left != (c.from.ToIB && (!c.to.ToIB || c.to.IP != group4)) {
				t.Errorf("reported %q", reported)
			}
		})
	}
}

// directions returns the directions in which a group is open for workers.
func (s *rig) directions(ip netip.Addr) string {
	g, _, _ := s.tables.Groups.Find(ip)
	e, _, _ := s.tables.Groups.LookupMGID(g.MGID)
	var ways []string
	if e.ToIB {
		ways = append(ways, "to-ib")
	}
	if e.ToRoCE {
		ways = append(ways, "to-roce")
	}
	return strings.Join(ways, " ")
}

// TestKeyRejected checks that a group whose new Q_Key is rejected while the bridge is a member is left first, and
// closed meanwhile.
func TestKeyRejected(t *testing.T) {
	bubble(t, "Q_Key", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = []manage.Group{both(group4)}
			d.join = func(_ context.Context, j ibside.Join, _ int) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				if old, in := d.joined[j.MGID]; in && old.QKey != j.QKey {
					return errors.New("the group has another Q_Key")
				}
				return nil
			}
			d.leave = func() { time.Sleep(time.Second) }
		})
		g := both(group4)
		g.QKey = 5
		s.set(g)
		if got := s.directions(group4); got != "" {
			t.Errorf("while it is being left, open %q", got)
		}
		sleep(2 * time.Second)
		synctest.Wait()
		e, _, _ := s.tables.Groups.Find(group4)
		if e.QKey != 5 || e.RoCEQKey != 5 || !e.ToIB || len(s.ibPort.leaves) != 1 || s.ibPort.joins[g.MGID] != 3 {
			t.Errorf("%+v; left %v, %d joins", e, s.ibPort.leaves, s.ibPort.joins[g.MGID])
		}
	})
}

// TestRemove checks that a removed group is left on both sides, twice on Ethernet, and that a group that gets its id
// begins again: closed at first, and open only after its counters have begun.
func TestRemove(t *testing.T) {
	bubble(t, "and again", func(t *testing.T) {
		var began []int
		var s *rig
		s = startWith(t, tables.Config{MaxHosts: 4, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 2, MaxReaders: 1}, func(c *manageConfig, _ *ibPort) {
			c.Groups, c.MaxGroups = []manage.Group{both(group4), toIB(group6)}, 2
			c.Begin = func(id int) {
				if began = append(began, id); s == nil {
					return
				}
				for g := range s.tables.Groups.All() {
					if _, i, _ := s.tables.Groups.Find(g.IP); int(i) == id && (g.ToIB || g.ToRoCE) {
						t.Errorf("group %v is open before its counts have begun", g.IP)
					}
				}
			}
		})
		sleep(2 * time.Second)
		s.w.take()
		s.set(toIB(group6))
		sleep(2 * time.Second)
		s.wantReports("removed", leave4, leave4)
		if _, _, there := s.tables.Groups.LookupMGID(mgid(group4)); there || !slices.Equal(s.ibPort.leaves, []ib.GID{mgid(group4)}) {
			t.Errorf("on the tables: %v; left %v", there, s.ibPort.leaves)
		}
		s.set(toIB(group6), toIB(netip.MustParseAddr("239.1.2.9")))
		sleep(time.Second)
		if st := s.loop.Status(); !st.Ready || st.Groups != 2 || len(began) != 3 || began[2] != began[0] && began[2] != began[1] {
			t.Errorf("begun %v, status %+v", began, st)
		}
	})
}

// TestManyPorts tests groups that differ only in their MGID, as those of several ports of one address do: all are
// forwarded to RoCE, and messages of RoCE hosts go to the one that is open to IB, also when that changes.
func TestManyPorts(t *testing.T) {
	one, two, three := both(group4), at(toRoCE(group4), 2), at(toRoCE(group4), 3)
	bubble(t, "three", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.Groups = []manage.Group{three, one, two} })
		check := func(what string, main ib.GID, mgids ...ib.GID) {
			t.Helper()
			if g, _, ok := s.tables.Groups.Lookup(tables.GroupAddr{IP: group4}); !ok || g.MGID != main {
				t.Errorf("%s, RoCE hosts send to %v, want %v", what, g.MGID, main)
			}
			for _, m := range mgids {
				if g, _, ok := s.tables.Groups.LookupMGID(m); !ok || g.IP != group4 || !g.ToRoCE {
					t.Errorf("%s, MGID %v leads to %+v", what, m, g)
				}
			}
			if st := s.loop.Status(); !st.Ready || st.Groups != len(mgids) {
				t.Errorf("%s, status %+v", what, st)
			}
		}
		check("at first", one.MGID, one.MGID, two.MGID, three.MGID)
		sleep(1200 * time.Millisecond)
		s.wantReports("for all", join4, join4)
		one.ToIB, three.ToIB = false, true
		s.set(one, two, three)
		check("changed", three.MGID, one.MGID, two.MGID, three.MGID)
		three.ToIB = false
		s.set(two, three)
		check("without", two.MGID, two.MGID, three.MGID)
		s.set(three)
		check("the last", three.MGID, three.MGID)
	})
}

// TestContradictions checks that contradictory changes give an error of one line that names the fault, and change
// nothing.
func TestContradictions(t *testing.T) {
	two := at(both(group4), 2)
	nowhere, host, mapped := toIB(group6), toIB(host4), toIB(netip.AddrFrom16(group4.As16()))
	nowhere.ToIB = false
	other := toIB(group6)
	other.MGID = mgid(group4)
	var many []manage.Group
	for i := range 9 {
		many = append(many, toIB(netip.AddrFrom4([4]byte{239, 1, 2, byte(i)})))
	}
	bubble(t, "all", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.Groups, c.MaxGroups = []manage.Group{both(group4)}, 8 })
		before := entries(s.tables)
		for want, groups := range map[string][]manage.Group{
			"goes to mgid ff12:4001:ffff::f01:203 already": {both(group4), two},
			"is also that of group 239.1.2.3":              {both(group4), other},
			"it has no direction":                          {nowhere},
			"10.9.0.1: not a multicast address":            {host},
			"::ffff:239.1.2.3: not a multicast address":    {mapped},
			"mgid :: is not a multicast GID":               {{IP: group4, ToIB: true}},
			"9 groups are more than the limit of 8":        many,
		} {
			err := s.setGroups(groups)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if after := entries(s.tables); !maps.Equal(before, after) || !s.loop.Status().Ready {
			t.Errorf("%v became %v", before, after)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
		if err := s.setGroups(nil); !errors.Is(err, manage.ErrEnded) {
			t.Errorf("at the end: %v", err)
		}
	})
}
