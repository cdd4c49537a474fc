// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"

	"causeway/ibside/ib"
	"causeway/tables/tablestest"

	"pgregory.net/rapid"
)

// checkTables compares all tables, as readers see them, with the expected objects: each is found by each of its keys
// under one id, and there are no other entries.
func checkTables(t rapid.TB, s *Tables, m *model) {
	t.Helper()
	want := map[string]int{"hosts": len(m.hosts), "proxy_qps": len(m.proxyQPs), "proxy_qpns": len(m.proxyQPs),
		"mgids": len(m.groups)}
	for ip, h := range m.hosts {
		if got, id, ok := s.Hosts.Lookup(ip); !ok || got != h || int(id) >= modelMax {
			t.Fatalf("host %v: %+v, id %d, %v; want %+v", ip, got, id, ok, h)
		}
	}
	for k, x := range m.proxyQPs {
		a, id, ok := s.ProxyQPs.Lookup(k)
		b, h, okB := s.ProxyQPs.LookupQPN(x.QPN)
		b.QP, b.Worker, b.Source, a.QKey, a.Version = x.QP, x.Worker, x.Source, x.QKey, x.Version
		if !ok || !okB || a != x || b != x || h.MAC != m.hosts[k.Host].MAC {
			t.Fatalf("proxy QP %v: %+v id %d, %+v to %x", &x, a, id, b, h.MAC)
		}
		from := m.hosts[k.Host].MAC
		if m.hosts[k.Host].Routed {
			from = [6]byte{}
		}
		if src := tablestest.SrcOfProxyQP(s.Pointer(), k.Host, uint64(segment(0).proxyQPKey(k).number)); src != from {
			t.Fatalf("proxy QP %v: from %x, want %x", &x, src, from)
		}
	}
	for mgid, g := range m.groups {
		b, id, ok := s.Groups.LookupMGID(mgid)
		if !ok || b.IP != g.IP || b.MTUToRoCE != g.MTUToRoCE || b.ToIB != g.ToIB {
			t.Fatalf("group %v: %+v, want %+v", mgid, b, g)
		}
		if g.Inbound {
			continue
		}
		want["groups"]++
		a, idA, ok := s.Groups.Lookup(g.Addr())
		if !ok || a.MGID != mgid || idA != id || a.MTUToIB != g.MTUToIB {
			t.Fatalf("group %v: %+v id %d; want %+v id %d", g.IP, a, idA, g, id)
		}
	}
	m.checkNodes(t, s, want)
	for name, st := range s.stats() {
		if st.Entries != want[name] || st.Entries+st.Retired+st.Free != st.Slots {
			t.Fatalf("table %s: %+v, want %d entries", name, st, want[name])
		}
	}
}

func (m *model) checkNodes(t rapid.TB, s *Tables, want map[string]int) {
	claims := map[ib.LID][]Node{}
	for _, n := range m.nodes {
		for i := ib.LID(0); n.LIDs != LIDsLost && n.HopLimit < 2 && i < 1<<n.LMC; i++ {
			claims[n.LID>>n.LMC<<n.LMC+i] = append(claims[n.LID>>n.LMC<<n.LMC+i], n)
		}
	}
	for lid := range ib.LID(16) {
		got, _, ok := s.Nodes.LookupSourceLID(lid)
		if all := claims[lid]; ok != (len(all) == 1 && all[0].LIDs == LIDsKnown) || ok && (got.IP4 != all[0].IP4 || got.IP6 != all[0].IP6) {
			t.Fatalf("LID %v of %+v: %+v, %v", lid, all, got, ok)
		} else if ok {
			want["sources"]++
		}
	}
	for _, n := range m.nodes {
		src, id, ok := s.Nodes.LookupSource(n.GID)
		if !ok || src.IP4 != n.IP4 || src.IP6 != n.IP6 || src.Bridge != n.Bridge {
			t.Fatalf("source %v: %+v, want %+v", n.GID, src, n)
		}
		for _, ip := range n.ips() {
			got, idIP, ok := s.Nodes.Lookup(ip)
			if !ok || got.GID != n.GID || got.LID != n.LID || got.HopLimit != n.HopLimit || idIP != id {
				t.Fatalf("node %v: %+v id %d, want %+v id %d", ip, got, idIP, n, id)
			}
			want["nodes"]++
		}
		want["sources"]++
	}
}

// modelMax bounds every kind of object in the model test, and so every id.
const modelMax = 3

// model is the expected content of the tables, in plain maps.
type model struct {
	hosts    map[netip.Addr]Host
	proxyQPs map[HostQP]ProxyQP
	nodes    map[ib.GID]Node
	groups   map[ib.GID]Group
}

// The draws come from few values, so that they often coincide.
func drawIP(t *rapid.T, base byte) netip.Addr {
	return netip.AddrFrom4([4]byte{base, 9, 0, byte(rapid.IntRange(1, 5).Draw(t, "ip"))})
}

func drawHostQP(t *rapid.T) HostQP {
	return HostQP{drawIP(t, 10), ib.QPN(rapid.IntRange(2, 4).Draw(t, "host qpn")), uint8(rapid.IntRange(0, 1).Draw(t, "partition"))}
}

func drawIP6(t *rapid.T) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(rapid.IntRange(1, 5).Draw(t, "ip6"))})
}

func (m *model) putHost(t *rapid.T, s *Tables) {
	h := Host{IP: drawIP(t, 10), MAC: [6]byte{2, 5: byte(rapid.IntRange(0, 3).Draw(t, "mac"))}, Version: uint8(rapid.IntRange(1, 2).Draw(t, "version")),
		Routed: rapid.Bool().Draw(t, "routed")}
	_, there := m.hosts[h.IP]
	if _, err := s.Hosts.Put(h); (err == nil) != (there || len(m.hosts) < modelMax) {
		t.Fatalf("Hosts.Put %+v: %v", h, err)
	} else if err == nil {
		m.hosts[h.IP] = h
	}
}

func (m *model) deleteHost(t *rapid.T, s *Tables) {
	ip := drawIP(t, 10)
	_, ok := m.hosts[ip]
	for k := range m.proxyQPs {
		ok = ok && k.Host != ip
	}
	if err := s.Hosts.Delete(ip); (err == nil) != ok {
		t.Fatalf("Hosts.Delete %v: %v", ip, err)
	} else if ok {
		delete(m.hosts, ip)
	}
}

func (m *model) putProxyQP(t *rapid.T, s *Tables) {
	x := ProxyQP{HostQP: drawHostQP(t), QPN: ib.QPN(rapid.IntRange(2, 6).Draw(t, "qpn")),
		QKey: 7, Worker: rapid.IntRange(0, 2).Draw(t, "worker"), Version: 2}
	_, ok := m.hosts[x.Host]
	_, there := m.proxyQPs[x.HostQP]
	ok = ok && (there || len(m.proxyQPs) < modelMax)
	for k, other := range m.proxyQPs {
		ok = ok && (other.QPN != x.QPN || k == x.HostQP)
	}
	if _, err := s.ProxyQPs.Put(x); (err == nil) != ok {
		t.Fatalf("ProxyQPs.Put %v: %v", &x, err)
	} else if ok {
		m.proxyQPs[x.HostQP] = x
	}
}

func (m *model) deleteProxyQP(t *rapid.T, s *Tables) {
	k := HostQP{Host: drawIP(t, 10), HostQPN: ib.QPN(rapid.IntRange(2, 4).Draw(t, "host qpn"))}
	_, ok := m.proxyQPs[k]
	if err := s.ProxyQPs.Delete(HostQP{Host: k.Host, HostQPN: k.HostQPN}); (err == nil) != ok {
		t.Fatalf("ProxyQPs.Delete %v: %v", k, err)
	}
	delete(m.proxyQPs, k)
}

func (m *model) putNode(t *rapid.T, s *Tables) {
	n := Node{GID: ib.GID{0xfe, 0x80, 15: byte(rapid.IntRange(1, 5).Draw(t, "gid"))}, LID: ib.LID(rapid.IntRange(4, 9).Draw(t, "lid")),
		LMC: uint8(rapid.IntRange(0, 2).Draw(t, "lmc")), LIDs: drawLIDState(t), HopLimit: uint8(rapid.IntRange(0, 2).Draw(t, "hops")),
		Bridge: rapid.Bool().Draw(t, "bridge")}
	families := rapid.IntRange(1, 3).Draw(t, "families")
	if families&1 != 0 {
		n.IP4 = drawIP(t, 10)
	}
	if families&2 != 0 {
		n.IP6 = drawIP6(t)
	}
	of := map[ib.GID]bool{} // the nodes that have an address of n
	for gid, other := range m.nodes {
		if n.IP4.IsValid() && other.IP4 == n.IP4 || n.IP6.IsValid() && other.IP6 == n.IP6 {
			of[gid] = true
		}
	}
	_, gidThere := m.nodes[n.GID]
	ok := len(of) == 1 && (!gidThere || of[n.GID]) || len(of) == 0 && !gidThere && len(m.nodes) < modelMax
	if _, err := s.Nodes.Put(n); (err == nil) != ok {
		t.Fatalf("Nodes.Put %v: %v", &n, err)
	} else if ok {
		for gid := range of {
			delete(m.nodes, gid)
		}
		m.nodes[n.GID] = n
	}
}

func drawLIDState(t *rapid.T) LIDState {
	return rapid.SampledFrom([]LIDState{LIDsKnown, LIDsKnown, LIDsStale, LIDsLost}).Draw(t, "lids")
}

func (m *model) markLIDs(t *rapid.T, s *Tables) {
	gid, state := ib.GID{0xfe, 0x80, 15: byte(rapid.IntRange(1, 5).Draw(t, "gid"))}, drawLIDState(t)
	s.Nodes.MarkLIDs(gid, state)
	if n, ok := m.nodes[gid]; ok {
		n.LIDs = state
		m.nodes[gid] = n
	}
}

func (m *model) deleteNode(t *rapid.T, s *Tables) {
	ip := drawIP(t, 10)
	if rapid.Bool().Draw(t, "by IPv6") {
		ip = drawIP6(t)
	}
	ok := false
	for gid, n := range m.nodes {
		if n.IP4 == ip || n.IP6 == ip {
			ok = true
			delete(m.nodes, gid)
		}
	}
	if err := s.Nodes.Delete(ip); (err == nil) != ok {
		t.Fatalf("Nodes.Delete %v: %v", ip, err)
	}
}

// mainGroup returns the MGID of the group of ip that is not inbound.
func (m *model) mainGroup(ip netip.Addr) (ib.GID, bool) {
	for mgid, g := range m.groups {
		if g.IP == ip && !g.Inbound {
			return mgid, true
		}
	}
	return ib.GID{}, false
}

func (m *model) putGroup(t *rapid.T, s *Tables) {
	g := Group{IP: drawIP(t, 239), MGID: ib.GID{0xff, 15: byte(rapid.IntRange(1, 5).Draw(t, "mgid"))}, MLID: 0xc000,
		MTUToIB: rapid.IntRange(1, 4).Draw(t, "mtu"), MTUToRoCE: 9, Version: 2, ToRoCE: true}
	g.Inbound = rapid.Bool().Draw(t, "inbound")
	g.ToIB = !g.Inbound
	old, there := m.groups[g.MGID]
	main, has := m.mainGroup(g.IP)
	ok := (!there && len(m.groups) < modelMax || there && old.IP == g.IP) && (g.Inbound || !has || main == g.MGID)
	if _, err := s.Groups.Put(g); (err == nil) != ok {
		t.Fatalf("Groups.Put %+v: %v", g, err)
	} else if !ok {
		return
	}
	m.groups[g.MGID] = g
}

func (m *model) deleteGroup(t *rapid.T, s *Tables) {
	mgid, ok := m.mainGroup(drawIP(t, 239))
	if ok != (s.Groups.Delete(m.groups[mgid].IP) == nil) {
		t.Fatalf("Groups.Delete %v", mgid)
	}
	delete(m.groups, mgid)
}

func (m *model) deleteMGID(t *rapid.T, s *Tables) {
	mgid := ib.GID{0xff, 15: byte(rapid.IntRange(1, 5).Draw(t, "mgid"))}
	_, ok := m.groups[mgid]
	if err := s.Groups.DeleteMGID(mgid); (err == nil) != ok {
		t.Fatalf("DeleteMGID %v: %v", mgid, err)
	}
	delete(m.groups, mgid)
}

// TestModel makes random changes to the tables and to a model of them.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(Config{MaxHosts: modelMax, MaxProxyQPs: modelMax, MaxNodes: modelMax, MaxGroups: modelMax})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := &model{map[netip.Addr]Host{}, map[HostQP]ProxyQP{}, map[ib.GID]Node{}, map[ib.GID]Group{}}
		do := func(f func(*rapid.T, *Tables)) func(*rapid.T) {
			return func(t *rapid.T) { f(t, s) }
		}
		t.Repeat(map[string]func(*rapid.T){
			"put host": do(m.putHost), "delete host": do(m.deleteHost),
			"put proxy QP": do(m.putProxyQP), "delete proxy QP": do(m.deleteProxyQP),
			"put node": do(m.putNode), "delete node": do(m.deleteNode), "mark LIDs": do(m.markLIDs),
			"put group": do(m.putGroup), "delete group": do(m.deleteGroup), "delete mgid": do(m.deleteMGID),
			"": func(t *rapid.T) { checkTables(t, s, m) },
		})
	})
}

// TestMillions compares two million changes and lookups with a Go map, while the tables grow from 16 buckets, are
// full, and run nearly empty again.
func TestMillions(t *testing.T) {
	const most, keys, ops = 30000, 50000, 2000000
	s := newTables(t, Config{MaxProxyQPs: most})
	hosts := [7]netip.Addr{}
	for i := range hosts {
		hosts[i] = netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)})
		must(t)(s.Hosts.Put(Host{IP: hosts[i], MAC: mac1, Version: 2}))
	}
	there, full, random := map[int]uint32{}, 0, rand.New(rand.NewPCG(1, 2))
	for op := range ops {
		k := random.IntN(keys)
		x := ProxyQP{HostQP: HostQP{Host: hosts[k%len(hosts)], HostQPN: ib.QPN(2 + k)}, QPN: ib.QPN(1000000 + k), QP: uint32(op), Version: 2}
		_, is := there[k]
		shrink := op/(ops/6)%2 == 1
		switch r := random.IntN(10); {
		case r < 3: // look up
			got, _, ok := s.ProxyQPs.Lookup(x.HostQP)
			if ok != is || ok && got.QP != there[k] {
				t.Fatalf("op %d: proxy QP %d: %+v, %v; want QP %d, %v", op, k, got, ok, there[k], is)
			}
		case r < 5 != shrink:
			if err := s.ProxyQPs.Delete(HostQP{Host: x.Host, HostQPN: x.HostQPN}); (err == nil) != is {
				t.Fatalf("op %d: delete %d: %v", op, k, err)
			}
			delete(there, k)
		default:
			_, err := s.ProxyQPs.Put(x)
			if wantFull := !is && len(there) == most; wantFull != errors.Is(err, syscall.ENOSPC) || !wantFull && err != nil {
				t.Fatalf("op %d: put %d with %d there: %v", op, k, len(there), err)
			} else if wantFull {
				full++
			} else {
				there[k] = uint32(op)
			}
		}
	}
	st := s.stats()["proxy_qps"]
	t.Logf("%d times full; at the end %+v", full, st)
	if full == 0 || st.Buckets < most/6 {
		t.Error("the tables were never full: the test does not reach the case that it is for")
	}
	checkAll(t, s, maps.All(there), hosts[:])
}

func checkAll(t *testing.T, s *Tables, there func(func(int, uint32) bool), hosts []netip.Addr) {
	n := 0
	for k, qp := range there {
		n++
		if got, _, ok := s.ProxyQPs.Lookup(HostQP{Host: hosts[k%len(hosts)], HostQPN: ib.QPN(2 + k)}); !ok || got.QP != qp {
			t.Errorf("proxy QP %d: %+v, %v", k, got, ok)
		}
		if got, _, ok := s.ProxyQPs.LookupQPN(ib.QPN(1000000 + k)); !ok || got.HostQPN != ib.QPN(2+k) {
			t.Errorf("proxy QP QPN of %d: %+v, %v", k, got, ok)
		}
	}
	if s.ProxyQPs.Len() != n || s.stats()["proxy_qps"].Entries != n || s.stats()["proxy_qpns"].Entries != n {
		t.Errorf("%d proxy QPs, %+v", s.ProxyQPs.Len(), s.stats())
	}
}
