// SPDX-License-Identifier: Apache-2.0

package groups_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/groups"
	"causeway/tables"
)

var other4 = netip.MustParseAddr("239.1.2.4")

// TestFilter checks that the Ethernet port's filter is set before switches get a report; again when that fails, but not
// when nothing has changed.
func TestFilter(t *testing.T) {
	var told []string
	fails, tries := 0, 0
	bubble(t, groups.Config{Max: 8, Receive: func(groups []tables.GroupAddr) error {
		tries++
		if fails--; fails >= 0 {
			return errors.New("busy")
		}
		told = append(told, fmt.Sprint(groups))
		return nil
	}}, func(t *testing.T, r *rig) {
		r.set(t, toIB(group4), toRoCE(group6))
		r.set(t, toIB(group4), toRoCE(group6), toIB(other4))
		r.set(t, toIB(group4), toIB(other4)) // the same to the port
		fails = 3
		r.set(t, toIB(other4))
		r.run(time.Second)
		if want := []string{"[239.1.2.3]", "[239.1.2.3 239.1.2.4]", "[239.1.2.4]"}; !slices.Equal(told, want) || tries != 6 {
			t.Errorf("the filter was set to %q in %d tries, want %q", told, tries, want)
		}
		r.Refilter()
		if r.UpdateFilter(); len(told) != 4 {
			t.Errorf("told %q after Refilter", told)
		}
	})
}

// TestRejoin checks that groups that the subnet deletes are joined again, spread over time and without being closed,
// and that the tables get what is granted then.
func TestRejoin(t *testing.T) {
	bubble(t, groups.Config{Max: 64}, func(t *testing.T, r *rig) {
		var all []groups.Group
		for i := range 32 {
			g := toIB(netip.AddrFrom4([4]byte{239, 1, 2, byte(i)}))
			g.ToRoCE = true
			all = append(all, g)
		}
		r.set(t, all...)
		r.run(2 * time.Second)
		r.port.mlid = 0xd000
		began := time.Now()
		for _, g := range all {
			r.notices <- ibside.Notice{MGID: g.MGID, Deleted: true}
		}
		for range 100 {
			if r.run(10 * time.Millisecond); len(r.tables.all) != len(all) {
				t.Fatalf("%d groups are open", len(r.tables.all))
			}
		}
		for _, g := range r.tables.all {
			if g.MLID < 0xd000 || !g.ToIB || !g.ToRoCE {
				t.Errorf("%+v is as before", g)
			}
		}
		again := r.port.joins[len(all):]
		if len(again) != len(all) || again[len(again)-1].Sub(began) < 200*time.Millisecond || again[len(again)/2].Sub(began) < 20*time.Millisecond {
			t.Errorf("%d joins, the last after %v", len(again), again[len(again)-1].Sub(began))
		}
		if r.Unsettled() != 0 || r.Counters().GroupNotices != 32 {
			t.Errorf("%d groups are unsettled, %+v", r.Unsettled(), r.Counters())
		}
	})
}

// TestOpensClosed checks that a group's entry has no directions at first, so that no packet is counted before the
// group's counters begin.
func TestOpensClosed(t *testing.T) {
	var began []int
	bubble(t, groups.Config{Max: 8, Begin: func(id int) { began = append(began, id) }}, func(t *testing.T, r *rig) {
		r.set(t, toIB(group4))
		p := r.tables.puts
		if len(p) != 2 || p[0].ToIB || !p[1].ToIB || !slices.Equal(began, []int{0}) {
			t.Errorf("put %+v, began %v", p, began)
		}
	})
}

// TestFullTables checks that a group for which the tables have no room is left on the subnet, and tried again.
func TestFullTables(t *testing.T) {
	bubble(t, groups.Config{Max: 8}, func(t *testing.T, r *rig) {
		r.tables.room = 0
		r.set(t, toIB(group4))
		if r.Unsettled() != 1 || len(r.port.joined) != 0 {
			t.Errorf("%d unsettled, joined %v", r.Unsettled(), r.port.joined)
		}
		r.tables.room = 1
		r.run(11 * time.Second)
		if r.Unsettled() != 0 || len(r.tables.all) != 1 || !r.Changed() || len(r.Joined()) != 1 || r.Changed() {
			t.Errorf("%d unsettled, %v", r.Unsettled(), r.tables.all)
		}
	})
}

// TestLearnAndLeave checks that a group of a range is joined for as long as hosts report it; reports of nodes and of other
// bridges do not count.
func TestLearnAndLeave(t *testing.T) {
	c := groups.Config{Max: 8, Querier: true, Ranges: []groups.Range{{
		Prefix: netip.MustParsePrefix("239.1.0.0/16"), Reports: true, Most: 4, MGID: ib.MGIDRoCE, Group: groups.Group{ToIB: true},
	}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		mac := otherMAC
		report := func(from netip.Addr, x frame.GroupRecord) {
			t.Helper()
			r.report(t, mac, from, x)
		}
		report(host4, frame.JoinRecord(group4))
		if r.Learned() != 0 {
			t.Error("a group is learned from another bridge's report")
		}
		mac = frame.MAC{2, 0, 0, 0, 0, 1}
		report(node4, frame.JoinRecord(group4))
		if r.Learned() != 0 || r.Counters().GroupsRejected["source"] != 1 {
			t.Errorf("a node's report: %d groups, %+v", r.Learned(), r.Counters())
		}
		report(host4, frame.JoinRecord(group4))
		if r.Learned() != 1 || len(r.tables.all) != 1 || len(r.port.joined) != 1 {
			t.Errorf("reported: %d groups, %v", r.Learned(), r.tables.all)
		}
		for e := range r.All() {
			if e.State != "joined" || !e.Learned || e.Members != 1 {
				t.Errorf("%+v", e)
			}
		}
		report(host4, frame.LeaveRecord(group4))
		r.run(8 * time.Second)
		if n := r.Counters(); r.Learned() != 0 || len(r.tables.all) != 0 || len(r.port.joined) != 0 || n.GroupsLost != 1 {
			t.Errorf("left: %d groups, %v, %+v", r.Learned(), r.tables.all, n)
		}
	})
}

// report is an IGMPv3 report of a host.
func (r *rig) report(t *testing.T, mac frame.MAC, from netip.Addr, x frame.GroupRecord) {
	t.Helper()
	f, fault := frame.Open(frame.AppendIGMPv3Report(nil, frame.Link{MAC: mac}, from, x))
	if fault != "" {
		t.Fatal(fault)
	}
	m, fault := frame.ParseIGMP(f.IPv4, f.Payload)
	r.HandleMembership(f, m, fault, time.Now())
	r.run(100 * time.Millisecond)
}

// TestSubnetSharesRange checks that a share of a range is left to hosts by the groups that nodes create on the subnet, where hosts get groups of the range, too.
func TestSubnetSharesRange(t *testing.T) {
	for _, c := range []struct {
		reports bool
		want    int
	}{{true, 4}, {false, 8}} {
		cfg := groups.Config{Max: 32, Ranges: []groups.Range{{
			Prefix: netip.MustParsePrefix("239.1.0.0/16"), Reports: c.reports, SA: true, Most: 8, MGID: ib.MGIDRoCE, Group: groups.Group{ToIB: true, ToRoCE: true},
		}}}
		bubble(t, cfg, func(t *testing.T, r *rig) {
			for i := range byte(20) {
				r.notices <- ibside.Notice{MGID: ib.MGIDRoCE(netip.AddrFrom4([4]byte{239, 1, 0, 1 + i}))}
				r.run(10 * time.Millisecond)
			}
			if r.Learned() != c.want {
				t.Errorf("hosts report, too: %t: the subnet has %d groups of 8, want %d", c.reports, r.Learned(), c.want)
			}
		})
	}
}

// TestHostsShareRange checks that a host gets as many groups of a range as are left for others, again when its own have ended.
func TestHostsShareRange(t *testing.T) {
	c := groups.Config{Max: 32, Ranges: []groups.Range{{
		Prefix: netip.MustParsePrefix("239.1.0.0/16"), Reports: true, Most: 8, MGID: ib.MGIDRoCE, Group: groups.Group{ToIB: true},
	}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		next := byte(0)
		wants := func(host byte, n, want int) {
			t.Helper()
			for range n {
				next++
				r.report(t, frame.MAC{2, 5: host}, netip.AddrFrom4([4]byte{10, 9, 0, host}), frame.JoinRecord(netip.AddrFrom4([4]byte{239, 1, 0, next})))
			}
			if r.Learned() != want {
				t.Errorf("after %d reports of host %d there are %d groups, want %d", n, host, r.Learned(), want)
			}
		}
		wants(1, 20, 4)
		wants(2, 20, 6)
		wants(3, 20, 7)
		wants(4, 20, 8)
		if n := r.Counters().GroupsRejected; n["host_full"] != 16+18+19 || n["range_full"] != 19 {
			t.Errorf("rejected %v", n)
		}
		for i := range byte(4) {
			r.report(t, frame.MAC{2, 5: 1}, netip.AddrFrom4([4]byte{10, 9, 0, 1}), frame.LeaveRecord(netip.AddrFrom4([4]byte{239, 1, 0, 1 + i})))
		}
		r.run(10 * time.Second)
		wants(1, 20, 6)
	})
}
