// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"strings"
	"testing"

	"causeway/ibside/ib"
)

// TestSegments puts hosts, proxy QPs and groups of the same addresses into two segments: none is the other's.
func TestSegments(t *testing.T) {
	s := newTables(t, Config{MaxHosts: 4, MaxProxyQPs: 4, MaxGroups: 4})
	ip, group := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("239.1.2.3")
	for n := range uint8(2) {
		in := s.In(n)
		h := Host{IP: ip, MAC: [6]byte{2, 0, 0, 0, 0, n}, VLAN: 100 * uint16(n), Version: 2}
		x := ProxyQP{HostQP: HostQP{Host: ip, HostQPN: 5}, QP: uint32(n), QPN: 0x100 + ib.QPN(n), QKey: 7, Version: 2}
		g := Group{IP: group, MGID: ib.MGIDRDMACM(group, ib.PKey(0x8001+uint16(n)), 2), MLID: 0xc001, Version: 2, ToIB: true, ToRoCE: true, MTUToIB: 100, MTUToRoCE: 100}
		if _, err := in.ProxyQPs.Put(x); err == nil {
			t.Errorf("segment %d: a proxy QP of the other segment's host", n)
		}
		for _, err := range []error{second(in.Hosts.Put(h)), second(in.ProxyQPs.Put(x)), second(in.Groups.Put(g))} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range uint8(2) {
		in := s.In(n)
		h, _, _ := in.Hosts.Lookup(ip)
		x, _, _ := in.ProxyQPs.Lookup(HostQP{Host: ip, HostQPN: 5})
		g, _, _ := in.Groups.Lookup(GroupAddr{IP: group})
		back, _, ok := in.Groups.LookupMGID(g.MGID)
		_, to, known := in.ProxyQPs.LookupQPN(x.QPN)
		if h.VLAN != 100*uint16(n) || x.QP != uint32(n) || !ok || back.IP != group || !known || to.VLAN != h.VLAN {
			t.Errorf("segment %d: %+v, %+v, %+v", n, h, x, back)
		}
		if _, _, known := s.In(1 - n).ProxyQPs.LookupQPN(x.QPN); known {
			t.Errorf("segment %d has the other's proxy QP", 1-n)
		}
	}
	first, _, _ := s.Groups.Lookup(GroupAddr{IP: group})
	first.Version, first.MTUToRoCE = 2, 100
	if _, err := s.In(1).Groups.Put(first); err == nil || !strings.Contains(err.Error(), "segment 0") {
		t.Errorf("an MGID in two segments: %v", err)
	}
	if err := s.ProxyQPs.Delete(HostQP{Host: ip, HostQPN: 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.Hosts.Delete(ip); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := s.In(1).Hosts.Lookup(ip); !ok || s.In(1).ProxyQPs.Len() != 1 {
		t.Error("the other segment's host has gone, too")
	}
	if s.Groups.Len() != 1 || deleteAll(t, s.In(1)) != 3 {
		t.Error("wrong numbers")
	}
}

func second[T any](_ T, err error) error { return err }

// deleteAll takes out of a segment what it has, and returns how much that was.
func deleteAll(tb testing.TB, in *Segment) (n int) {
	for x := range in.ProxyQPs.All() {
		if err := in.ProxyQPs.Delete(x.HostQP); err != nil {
			tb.Error(err)
		}
		n++
	}
	for h := range in.Hosts.All() {
		if err := in.Hosts.Delete(h.IP); err != nil {
			tb.Error(err)
		}
		n++
	}
	for g := range in.Groups.All() {
		if err := in.Groups.DeleteMGID(g.MGID); err != nil {
			tb.Error(err)
		}
		n++
	}
	return n
}
