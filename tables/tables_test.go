// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"causeway/ibside/ib"
	"causeway/tables/tablestest"
)

func newTables(t testing.TB, c Config) *Tables {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// stats returns the counts of each table.
func (t *Tables) stats() map[string]tablestest.Stats { return tablestest.StatsOf(t.Pointer()) }

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

// must returns the id, or ends the test.
func must(t testing.TB) func(uint32, error) uint32 {
	return func(id uint32, err error) uint32 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
}

var (
	mac1 = [6]byte{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}
	mac2 = [6]byte{0xfe, 0xff, 0xee, 0xdd, 0xcc, 0xbb}

	someHost    = Host{IP: addr("10.9.0.1"), MAC: mac1, VLAN: 4094, Version: 2, Static: true}
	someProxyQP = ProxyQP{HostQP: HostQP{Host: addr("10.9.0.1"), HostQPN: 0x123456}, QP: 0xfedcba98, QPN: 0xfffffe, QKey: 0x89abcdef, Worker: 65535, Version: 1, Source: 255}
	someNode    = Node{IP4: addr("10.9.0.7"), IP6: addr("fd09::7"), GID: ib.GID{0xfe, 0x80, 15: 7}, LID: 0xbfff, SL: 15, MTU: 2048, Rate: 3, HopLimit: 1, GRH: true}
	someGroup   = Group{IP: addr("239.1.2.3"), MGID: ib.GID{0xff, 0x12, 0xa0, 0x1b, 15: 3}, MLID: 0xc001, SL: 14, HopLimit: 255, Rate: 3,
		QKey: 0x01234567, RoCEQKey: 0x76543210, MTUToIB: 4096, MTUToRoCE: 1024, VLAN: 7, Version: 1, ToIB: true, RewriteImm: true}
)

// TestRoundTrip puts one object of each kind and reads every table as a worker does.
func TestRoundTrip(t *testing.T) {
	s := newTables(t, Config{})
	id := must(t)(s.Hosts.Put(someHost))
	if h, got, ok := s.Hosts.Lookup(someHost.IP); !ok || h != someHost || got != id {
		t.Errorf("hosts: %+v, id %d, %v", h, got, ok)
	}
	id = must(t)(s.ProxyQPs.Put(someProxyQP))
	if x, got, ok := s.ProxyQPs.Lookup(someProxyQP.HostQP); !ok || got != id || x !=
		(ProxyQP{HostQP: HostQP{Host: someProxyQP.Host, HostQPN: 0x123456}, QP: 0xfedcba98, QPN: 0xfffffe, Worker: 65535, Source: 255}) {
		t.Errorf("proxy_qps: %+v, id %d, %v", x, got, ok)
	}
	x, h, ok := s.ProxyQPs.LookupQPN(someProxyQP.QPN)
	if !ok || x != (ProxyQP{HostQP: HostQP{Host: someProxyQP.Host, HostQPN: 0x123456}, QPN: 0xfffffe, QKey: 0x89abcdef, Version: 1}) {
		t.Errorf("proxy_qpns: %+v, %v", x, ok)
	}
	if h != (Host{IP: someHost.IP, MAC: mac1, VLAN: 4094}) {
		t.Errorf("proxy_qpns: the host is %+v", h)
	}
	testNodeRoundTrip(t, s)
	testGroupRoundTrip(t, s)
}

func testNodeRoundTrip(t *testing.T, s *Tables) {
	n := someNode
	id := must(t)(s.Nodes.Put(n))
	for _, want := range []Node{
		{IP4: n.IP4, GID: n.GID, LID: n.LID, SL: 15, MTU: 2048, Rate: 3, HopLimit: 1, GRH: true},
		{IP6: n.IP6, GID: n.GID, LID: n.LID, SL: 15, MTU: 2048, Rate: 3, HopLimit: 1, GRH: true},
	} {
		if x, got, ok := s.Nodes.Lookup(want.ips()[0]); !ok || got != id || x != want {
			t.Errorf("nodes: %+v, id %d, %v", x, got, ok)
		}
	}
	if x, got, ok := s.Nodes.LookupSource(n.GID); !ok || got != id || x != (Node{IP4: n.IP4, IP6: n.IP6, GID: n.GID, GRH: true}) {
		t.Errorf("sources by GID: %+v, id %d, %v", x, got, ok)
	}
	if x, got, ok := s.Nodes.LookupSourceLID(n.LID); !ok || got != id || x != (Node{IP4: n.IP4, IP6: n.IP6, LID: n.LID, GRH: true}) {
		t.Errorf("sources by LID: %+v, id %d, %v", x, got, ok)
	}
	n.IP6, n.GRH, n.Bridge = netip.Addr{}, false, true // keys that it no longer has are removed
	if again := must(t)(s.Nodes.Put(n)); again != id {
		t.Errorf("a changed node has id %d, had %d", again, id)
	}
	if _, _, ok := s.Nodes.Lookup(someNode.IP6); ok {
		t.Error("the node is still found by its old address")
	}
	if x, _, _ := s.Nodes.LookupSource(n.GID); x != (Node{IP4: n.IP4, GID: n.GID, Bridge: true}) {
		t.Errorf("sources by GID after the change: %+v", x)
	}
}

func testGroupRoundTrip(t *testing.T, s *Tables) {
	g := someGroup
	id := must(t)(s.Groups.Put(g))
	towardsIB := Group{IP: g.IP, MGID: g.MGID, MLID: 0xc001, SL: 14, HopLimit: 255, Rate: 3, QKey: 0x01234567, RoCEQKey: 0x76543210,
		MTUToIB: 4096, ToIB: true, RewriteImm: true}
	if x, got, ok := s.Groups.Lookup(g.Addr()); !ok || got != id || x != towardsIB {
		t.Errorf("groups: %+v, id %d, %v", x, got, ok)
	}
	towardsRoCE := Group{IP: g.IP, MGID: g.MGID, RoCEQKey: 0x76543210, MTUToRoCE: 1024, VLAN: 7, Version: 1, ToIB: true, RewriteImm: true}
	if x, got, ok := s.Groups.LookupMGID(g.MGID); !ok || got != id || x != towardsRoCE {
		t.Errorf("mgids: %+v, id %d, %v", x, got, ok)
	}
	g.ToRoCE = true
	if again := must(t)(s.Groups.Put(g)); again != id {
		t.Errorf("a changed group has id %d, had %d", again, id)
	}
	if x, _, ok := s.Groups.LookupMGID(g.MGID); !ok || !x.ToRoCE {
		t.Errorf("mgids after the change: %+v, %v", x, ok)
	}
}

// TestMappedAddress: one host has one key, however its IPv4 address was written.
func TestMappedAddress(t *testing.T) {
	s := newTables(t, Config{})
	h := someHost
	h.IP = addr("::ffff:10.9.0.1")
	must(t)(s.Hosts.Put(h))
	must(t)(s.Hosts.Put(someHost))
	if got := slices.Collect(s.Hosts.All()); len(got) != 1 || got[0] != someHost {
		t.Errorf("hosts are %+v", got)
	}
}

// TestMove: a host's new MAC reaches all its proxy QPs, and no others, in place.
func TestMove(t *testing.T) {
	s := newTables(t, Config{})
	other := Host{IP: addr("fd09::1"), MAC: mac1, Version: 2}
	must(t)(s.Hosts.Put(someHost))
	must(t)(s.Hosts.Put(other))
	for i := range ib.QPN(20) {
		host := someHost.IP
		if i%2 == 1 {
			host = other.IP
		}
		must(t)(s.ProxyQPs.Put(ProxyQP{HostQP: HostQP{Host: host, HostQPN: 0x100 + i}, QPN: 0x200 + i, Version: 2}))
	}
	moved := someHost
	moved.MAC, moved.VLAN = mac2, 3
	must(t)(s.Hosts.Put(moved))
	if h, _, _ := s.Hosts.Lookup(moved.IP); h != moved {
		t.Errorf("the host is %+v", h)
	}
	for i := range ib.QPN(20) {
		want := Host{IP: moved.IP, MAC: mac2, VLAN: 3}
		if i%2 == 1 {
			want = Host{IP: other.IP, MAC: mac1}
		}
		if _, h, _ := s.ProxyQPs.LookupQPN(0x200 + i); h != want {
			t.Errorf("proxy QP %d sends to %+v", i, h)
		}
	}
	for name, st := range s.stats() {
		if st.Retired != 0 {
			t.Errorf("%s: %d entries were replaced by a move", name, st.Retired)
		}
	}
	if err := s.Hosts.Delete(moved.IP); err == nil || !strings.Contains(err.Error(), "has 10 proxy QPs") {
		t.Errorf("deleting a host with proxy QPs: %v", err)
	}
}

// TestFull: the tables take as many objects as they were made for, return an error for more, and go on after a delete.
func TestFull(t *testing.T) {
	s := newTables(t, Config{MaxHosts: 8})
	h := someHost
	for i := range 8 {
		h.IP = netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})
		if id := must(t)(s.Hosts.Put(h)); id != uint32(i) {
			t.Errorf("host %d has id %d", i, id)
		}
	}
	h.IP = addr("10.0.1.1")
	_, err := s.Hosts.Put(h)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "MaxHosts") {
		t.Fatalf("the ninth of eight hosts: %v", err)
	}
	if _, _, ok := s.Hosts.Lookup(h.IP); ok || s.Hosts.Len() != 8 || s.stats()["hosts"].Entries != 8 {
		t.Error("the ninth host left something behind")
	}
	if err := s.Hosts.Delete(addr("10.0.0.4")); err != nil {
		t.Fatal(err)
	}
	if id := must(t)(s.Hosts.Put(h)); id != 3 {
		t.Errorf("the id of the deleted host is 3, the new one's %d", id)
	}
}

// TestReclaim: an entry that a reader may still use is not used again before the reader is quiescent, and then it is.
func TestReclaim(t *testing.T) {
	s := newTables(t, Config{MaxHosts: 1, MaxReaders: 2})
	r, err := s.Reader(1)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(s.Hosts.Put(someHost))
	if err := s.Hosts.Delete(someHost.IP); err != nil {
		t.Fatal(err)
	}
	next := Host{IP: addr("10.9.0.2"), MAC: mac2, Version: 2}
	for range 3 {
		if n := s.Reclaim(); n != 0 {
			t.Fatalf("%d entries reclaimed under a reader", n)
		}
		if _, err := s.Hosts.Put(next); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "1 of them wait for readers") {
			t.Fatalf("the id was used again under a reader: %v", err)
		}
	}
	tablestest.Quiescent(s.Pointer(), 1)
	if n := s.Reclaim(); n != 1 {
		t.Errorf("%d entries reclaimed after the reader was quiescent", n)
	}
	if id := must(t)(s.Hosts.Put(next)); id != 0 {
		t.Errorf("the only id is 0, not %d", id)
	}
	if err := s.Hosts.Delete(next.IP); err != nil {
		t.Fatal(err)
	}
	if n := s.Reclaim(); n != 0 {
		t.Errorf("%d entries reclaimed: the reader was quiescent before they were deleted", n)
	}
	r.Close()
	if n := s.Reclaim(); n != 1 {
		t.Errorf("%d entries reclaimed after the reader left", n)
	}
	if _, err := s.Reader(2); err == nil || !strings.Contains(err.Error(), "use 0 to 1") {
		t.Errorf("reader 2 of 2: %v", err)
	}
}

// inboundOf is a group that only leads to RoCE, to the address of another.
func inboundOf(g Group) Group {
	g.MGID[15], g.ToIB, g.Inbound = 4, false, true
	return g
}

// TestErrors: impossible values are rejected, with the value and what to do.
func TestErrors(t *testing.T) {
	s := newTables(t, Config{})
	must(t)(s.Hosts.Put(someHost))
	must(t)(s.ProxyQPs.Put(someProxyQP))
	must(t)(s.Nodes.Put(someNode))
	must(t)(s.Nodes.Put(Node{IP4: addr("10.9.0.8"), GID: ib.GID{0xfe, 0x80, 15: 8}, LID: 8}))
	must(t)(s.Groups.Put(someGroup))
	inbound := inboundOf(someGroup)
	must(t)(s.Groups.Put(inbound))
	host := func(f func(*Host)) error { h := someHost; f(&h); _, err := s.Hosts.Put(h); return err }
	proxyQP := func(f func(*ProxyQP)) error { x := someProxyQP; f(&x); _, err := s.ProxyQPs.Put(x); return err }
	node := func(f func(*Node)) error { n := someNode; f(&n); _, err := s.Nodes.Put(n); return err }
	group := func(f func(*Group)) error { g := someGroup; f(&g); _, err := s.Groups.Put(g); return err }
	config := func(c Config) error { _, err := New(c); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{host(func(h *Host) { h.IP = netip.Addr{} }), "ip invalid IP is not a unicast address"},
		{host(func(h *Host) { h.IP = addr("239.1.1.1") }), "ip 239.1.1.1 is not a unicast address"},
		{host(func(h *Host) { h.IP = addr("fe80::1%eth0") }), "without zone"},
		{host(func(h *Host) { h.MAC[0] = 1 }), "mac 011122334455 is not one host's"},
		{host(func(h *Host) { h.VLAN = 4095 }), "VLAN 4095"},
		{host(func(h *Host) { h.Version = 3 }), "RoCE version 3"},
		{proxyQP(func(x *ProxyQP) { x.Host = addr("10.9.0.99") }), "put the host first"},
		{proxyQP(func(x *ProxyQP) { x.HostQPN++ }), "QPN 0xfffffe stands for 10.9.0.1 QPN 0x123456"},
		{proxyQP(func(x *ProxyQP) { x.QPN = 1 }), "qpn 0x000001 cannot be"},
		{proxyQP(func(x *ProxyQP) { x.Worker = -1 }), "worker -1"},
		{node(func(n *Node) { n.IP4, n.IP6 = netip.Addr{}, netip.Addr{} }), "has no address"},
		{node(func(n *Node) { n.IP4, n.IP6 = n.IP6, n.IP4 }), "exchange them"},
		{node(func(n *Node) { n.IP4 = addr("10.9.0.8") }), "belong to two nodes"},
		{node(func(n *Node) { n.GID[15] = 8 }), "the gid belongs to the node of [10.9.0.8]"},
		{node(func(n *Node) { n.GID = ib.GID{0xff} }), "is not a node's"},
		{node(func(n *Node) { n.LID, n.GRH = 0, false }), "lid 0x0000 is not a node's"},
		{node(func(n *Node) { n.SL = 16 }), "sl 16"},
		{group(func(g *Group) { g.IP = addr("10.0.0.1") }), "ip 10.0.0.1 is not a multicast address"},
		{group(func(g *Group) { g.IP = addr("239.9.9.9") }), "belongs to group 239.1.2.3"},
		{group(func(g *Group) { g.MGID[0] = 0xfe }), "begins with ff"},
		{group(func(g *Group) { g.MLID = 7 }), "mlid 0x0007"},
		{group(func(g *Group) { g.MTUToIB = 4097 }), "MTUToIB is 4097 bytes; use 1 to 4096"},
		{group(func(g *Group) { g.ToRoCE, g.MTUToRoCE = true, 0 }), "MTUToRoCE is 0 bytes"},
		{group(func(g *Group) { g.UDPPort, g.TTL, g.RoCEQKey = 4711, 64, 0 }), "version 1 is not that of plain UDP"},
		{group(func(g *Group) { g.Inbound = true }), "an inbound group does not lead to IB"},
		{group(func(g *Group) { g.MGID[15] = 9 }), "its address belongs to mgid ff12:a01b::"},
		{group(func(g *Group) { g.MGID = inbound.MGID }), "its address belongs to mgid ff12:a01b::3"},
		{s.Groups.DeleteMGID(ib.GID{0xff}), "group ff00::: not there"},
		{s.Hosts.Delete(addr("10.9.0.99")), "host 10.9.0.99: not there"},
		{s.ProxyQPs.Delete(HostQP{Host: addr("10.9.0.1"), HostQPN: 2}), "proxy QP 10.9.0.1 QPN 0x000002: not there"},
		{s.Nodes.Delete(addr("10.9.0.99")), "node 10.9.0.99: not there"},
		{s.Groups.Delete(addr("239.9.9.9")), "group 239.9.9.9: not there"},
		{config(Config{MaxGroups: -1}), "MaxGroups is -1; use 1 to 16777216, or 0 for 4096"},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), "tables: ") || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
	if s.Hosts.Len() != 1 || s.ProxyQPs.Len() != 1 || s.Nodes.Len() != 2 || s.Groups.Len() != 2 {
		t.Error("a rejected Put left something behind")
	}
}
