// SPDX-License-Identifier: Apache-2.0

package groups_test

import (
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/groups"
	"causeway/tables"
)

// plain makes a group one of plain UDP, whose MGID has the port.
func plain(g groups.Group, port uint16) groups.Group {
	g.UDPPort, g.TTL, g.MGID = port, 9, ib.MGIDRDMACM(g.IP, ib.PKeyDefault, ib.ScopeLinkLocal)
	g.MGID[8], g.MGID[9] = byte(port>>8), byte(port)
	return g
}

// TestPlainEntries checks what of a group of plain UDP is in the tables: the port, the TTL, and the largest datagram
// that the Ethernet port sends whole.
func TestPlainEntries(t *testing.T) {
	bubble(t, groups.Config{Max: 8, Version: 2, EthMTU: 1500, RoCEMTU: 1024, IBMTU: 4096}, func(t *testing.T, r *rig) {
		a, b := plain(toRoCE(group4), 4711), plain(toRoCE(group6), 4711)
		r.set(t, a, b, toRoCE(group4))
		for _, want := range []tables.Group{
			{IP: group4, UDPPort: 4711, TTL: 9, Version: tables.PlainUDP, MTUToRoCE: 1472, MGID: a.MGID},
			{IP: group6, UDPPort: 4711, TTL: 9, Version: tables.PlainUDP, MTUToRoCE: 1452, MGID: b.MGID},
			{IP: group4, Version: 2, MTUToRoCE: 1024, MGID: ib.MGIDRoCE(group4)},
		} {
			g := r.tables.all[want.MGID]
			want.MLID, want.ToRoCE, want.MTUToIB = g.MLID, true, g.MTUToIB
			if g != want {
				t.Errorf("in the tables: %+v, want %+v", g, want)
			}
		}
	})
	bubble(t, groups.Config{Max: 8, Version: 2, EthMTU: 9000, IBMTU: 4096}, func(t *testing.T, r *rig) {
		a := plain(toRoCE(group4), 4711)
		if r.set(t, a); r.tables.all[a.MGID].MTUToRoCE != 4096 {
			t.Errorf("the largest payload is %d", r.tables.all[a.MGID].MTUToRoCE)
		}
	})
}

// TestPlainBesideRoCE checks that groups of one address and several ports are all main groups of their own, that the
// address is reported until the last of them has ended, and that a group that becomes plain UDP is another in the
// tables.
func TestPlainBesideRoCE(t *testing.T) {
	bubble(t, groups.Config{Max: 8, Version: 2, EthMTU: 1500}, func(t *testing.T, r *rig) {
		roce, a, b := toIB(group4), plain(toIB(group4), 4711), plain(toIB(group4), 4712)
		r.set(t, roce, a, b)
		for _, g := range []groups.Group{roce, a, b} {
			if x := r.tables.all[g.MGID]; x.Inbound || !x.ToIB {
				t.Errorf("%v: %+v", g.Addr(), x)
			}
		}
		r.run(2 * time.Second)
		before := len(r.worker.sent)
		r.set(t, b)
		if r.run(2 * time.Second); len(r.worker.sent) != before || len(r.tables.all) != 1 {
			t.Errorf("%d reports although a group is left; %v", len(r.worker.sent)-before, r.tables.all)
		}
		other := b
		other.UDPPort = 4713
		if r.set(t, other); r.tables.all[b.MGID].UDPPort != 4713 || len(r.tables.all) != 1 {
			t.Errorf("after the change of the port: %v", r.tables.all)
		}
		before = len(r.worker.sent)
		r.set(t)
		if r.run(2 * time.Second); len(r.worker.sent) != before+2 {
			t.Errorf("%d reports of the end, want 2", len(r.worker.sent)-before)
		}
		same := a
		same.MGID[15]++
		if err := groups.Check([]groups.Group{a, same}); err == nil {
			t.Error("two groups of one port lead to IB")
		}
	})
}
