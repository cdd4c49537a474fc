// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"strings"
	"testing"

	"causeway/ibside/ib"
)

// TestPlainGroup: a group of plain UDP shares its IP address with a RoCE group, and neither hides the other.
func TestPlainGroup(t *testing.T) {
	s := newTables(t, Config{})
	roce := someGroup
	roce.MGID[14] = 9
	plain := Group{IP: roce.IP, UDPPort: 4711, TTL: 7, Version: PlainUDP, MGID: ib.GID{0xff, 0x12, 15: 77}, MLID: 0xc009, QKey: 5, MTUToIB: 4096,
		MTUToRoCE: 1472, VLAN: 7, ToIB: true, ToRoCE: true}
	must(t)(s.Groups.Put(roce))
	id := must(t)(s.Groups.Put(plain))
	towardsIB, towardsRoCE := plain, plain
	towardsIB.TTL, towardsIB.Version, towardsIB.MTUToRoCE, towardsIB.VLAN = 0, 0, 0, 0
	towardsRoCE.MLID, towardsRoCE.QKey, towardsRoCE.MTUToIB = 0, 0, 0
	if x, got, ok := s.Groups.Lookup(plain.Addr()); !ok || got != id || x != towardsIB {
		t.Errorf("groups: %+v, id %d, %v", x, got, ok)
	}
	if x, got, ok := s.Groups.LookupMGID(plain.MGID); !ok || got != id || x != towardsRoCE {
		t.Errorf("mgids: %+v, id %d, %v", x, got, ok)
	}
	if x, _, ok := s.Groups.Lookup(roce.Addr()); !ok || x.MGID != roce.MGID {
		t.Errorf("the RoCE group: %+v, %v", x, ok)
	}
	if _, _, ok := s.Groups.Lookup(GroupAddr{roce.IP, 4712}); ok {
		t.Error("another port is found")
	}
	if err := s.Groups.DeleteMGID(plain.MGID); err != nil {
		t.Error(err)
	}
	if _, _, ok := s.Groups.Lookup(plain.Addr()); ok {
		t.Error("the group is found after its end")
	}
}

// TestPlainProxyQP: what sends a host's plain UDP has no way back, and so no entry there.
func TestPlainProxyQP(t *testing.T) {
	s := newTables(t, Config{})
	must(t)(s.Hosts.Put(someHost))
	x := ProxyQP{HostQP: HostQP{Host: someHost.IP, HostQPN: PlainQPN}, QP: 7, QPN: 0x77, Version: PlainUDP}
	id := must(t)(s.ProxyQPs.Put(x))
	if got, n, ok := s.ProxyQPs.Lookup(x.HostQP); !ok || n != id || got.QPN != x.QPN {
		t.Errorf("proxy_qps: %+v, id %d, %v", got, n, ok)
	}
	if got, _, ok := s.ProxyQPs.LookupQPN(x.QPN); ok {
		t.Errorf("proxy_qpns: %+v", got)
	}
	s.ProxyQPs.MarkUsed(x.HostQP)
	if toIB, toRoCE := s.ProxyQPs.TakeUsed(HostQP{Host: x.Host, HostQPN: PlainQPN}); !toIB || toRoCE {
		t.Error("it was not used")
	}
	if err := s.ProxyQPs.Delete(HostQP{Host: x.Host, HostQPN: PlainQPN}); err != nil || s.stats()["proxy_qps"].Entries != 0 {
		t.Errorf("%v, %+v", err, s.stats()["proxy_qps"])
	}
}

// TestPlainErrors: what contradicts itself or a RoCE group is rejected.
func TestPlainErrors(t *testing.T) {
	s := newTables(t, Config{})
	must(t)(s.Hosts.Put(someHost))
	must(t)(s.ProxyQPs.Put(someProxyQP))
	must(t)(s.Groups.Put(someGroup))
	group := func(f func(*Group)) error { g := someGroup; f(&g); _, err := s.Groups.Put(g); return err }
	proxyQP := someProxyQP
	proxyQP.HostQPN = PlainQPN
	_, err := s.ProxyQPs.Put(proxyQP)
	for _, c := range []struct {
		err  error
		want string
	}{
		{group(func(g *Group) { g.UDPPort = 4711 }), "plain UDP with TTL 0"},
		{group(func(g *Group) { g.UDPPort, g.TTL, g.RoCEQKey = 4711, 64, 0 }), "version 1 is not that of plain UDP"},
		{group(func(g *Group) { g.UDPPort, g.TTL, g.RoCEQKey, g.Version = 4711, 64, 0, PlainUDP }), "belongs to group 239.1.2.3"},
		{group(func(g *Group) { g.Version = PlainUDP }), "RoCE version 4"},
		{err, "version 1 is not that of plain UDP"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
}
