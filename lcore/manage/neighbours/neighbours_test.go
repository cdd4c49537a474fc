// SPDX-License-Identifier: Apache-2.0

package neighbours_test

import (
	"io"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 0xfe}
	hostMAC   = frame.MAC{2, 0, 0, 0, 0, 1}
	otherMAC  = frame.MAC{2, 0, 0, 0, 0, 2}
	bridge    = addr(254)
	node      = addr(7)
)

func addr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, n}) }

// nodes are Nodes, all of which are configured, and proxyQPs is ProxyQPs: how many each host has.
type (
	nodes    []netip.Addr
	proxyQPs map[netip.Addr]int
	worker   struct{ sent [][]byte }
)

func (n nodes) Has(ip netip.Addr) bool      { return slices.Contains(n, ip) }
func (n nodes) Addrs() iter.Seq[netip.Addr] { return slices.Values(n) }

func (p proxyQPs) Of(h netip.Addr) int                                { return p[h] }
func (p proxyQPs) LastUsed(h netip.Addr, now time.Time) (t time.Time) { return t }
func (p proxyQPs) RemoveHost(h netip.Addr, _ string)                  { delete(p, h) }

// EvictStranger evicts any host that has proxy QPs.
func (p proxyQPs) EvictStranger(time.Time) (netip.Addr, bool) {
	for h := range p {
		delete(p, h)
		return h, true
	}
	return netip.Addr{}, false
}

func (w *worker) TakePunted() []punt.Frame { return nil }

func (w *worker) Send(_ uint8, b []byte) error {
	w.sent = append(w.sent, b)
	return nil
}

// A rig is Neighbours with real tables and fakes.
type rig struct {
	*neighbours.Neighbours
	t        *testing.T
	tables   *tables.Tables
	proxyQPs proxyQPs
	worker   *worker
	now      time.Time

	wanted  []wanted
	claimed []netip.Addr
}

func newRig(t *testing.T, c neighbours.Config) *rig {
	ts, err := tables.New(tables.Config{MaxHosts: 16, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 4, MaxReaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ts.Close)
	r := &rig{t: t, tables: ts, proxyQPs: proxyQPs{}, worker: &worker{}, now: time.Now()}
	r.Neighbours = neighbours.New(c, neighbours.Deps{
		Tables: ts.Hosts, NodeTables: ts.Nodes, Nodes: nodes{node}, ProxyQPs: r.proxyQPs, Frames: punt.NewWorkers([]punt.Worker{r.worker}),
		Local: &local.Addresses{Link: frame.Link{MAC: bridgeMAC}, IPs: []netip.Prefix{netip.PrefixFrom(bridge, 24)}},
		Log:   ratelog.New(slog.New(slog.NewTextHandler(io.Discard, nil))), Ready: func() bool { return true },
		Wanted:  func(ip netip.Addr, stranger bool, _ time.Time) { r.wanted = append(r.wanted, wanted{ip, stranger}) },
		Claimed: func(ip netip.Addr, _ time.Time) { r.claimed = append(r.claimed, ip) },
	})
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// wanted is an address that a host asks for.
type wanted struct {
	ip       netip.Addr
	stranger bool
}

// arp delivers an ARP request from a host, and returns how many frames answer it.
func (r *rig) arp(mac frame.MAC, from, to netip.Addr) int {
	r.t.Helper()
	r.worker.sent = nil
	f, fault := frame.Open(frame.AppendARP(nil, frame.Link{MAC: mac}, frame.Broadcast,
		frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: from, TPA: to}))
	if fault != "" {
		r.t.Fatal(fault)
	}
	r.HandleARP(0, f, r.now)
	return len(r.worker.sent)
}

// run lets time pass, and returns how many frames were sent.
func (r *rig) run(d time.Duration) int {
	r.worker.sent = nil
	for range d / (100 * time.Millisecond) {
		r.now = r.now.Add(100 * time.Millisecond)
		r.Tick(r.now, r.now)
	}
	return len(r.worker.sent)
}

// at reports whether a host is known by a MAC address.
func (r *rig) at(ip netip.Addr, mac frame.MAC) bool {
	h, known := r.Find(ip)
	return known && h.MAC == mac
}

// TestLearn checks that a host is learned from ARP, and that there are answers for the bridge and for nodes that the
// subnet has.
func TestLearn(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2})
	if n := r.arp(hostMAC, addr(1), bridge); n != 1 || !r.at(addr(1), hostMAC) {
		t.Errorf("%d answers for the bridge; is the host known: %t", n, r.at(addr(1), hostMAC))
	}
	if n := r.arp(hostMAC, addr(1), node); n != 0 || r.Counters().NodesAbsent != 1 {
		t.Errorf("%d answers for a node that the subnet does not have", n)
	}
	if _, err := r.tables.Nodes.Put(tables.Node{IP4: node, GID: ib.GIDFromGUID(0xfe80<<48, 7), LID: 7}); err != nil {
		t.Fatal(err)
	}
	if n := r.arp(hostMAC, addr(1), node); n != 1 {
		t.Errorf("%d answers for a node", n)
	}
	if r.SetDrained(true, r.now); r.arp(hostMAC, addr(1), node) != 0 {
		t.Error("a drained bridge answers for a node")
	}
	if state, _, _ := r.State(addr(1)); state != neighbours.Reachable {
		t.Errorf("the host is %s", state)
	}
}

// TestBelieve checks that configuration wins over received claims, and that each claim that loses is rejected with a
// reason.
func TestBelieve(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 2, Version: 2, Hosts: []tables.Host{{IP: addr(3), MAC: hostMAC, Version: 2, Static: true}}})
	const data = 2
	for _, c := range []struct {
		what string
		ip   netip.Addr
		mac  frame.MAC
		why  punt.Rejection
		ok   bool
	}{
		{"the bridge's address", bridge, hostMAC, punt.RejectSource, false},
		{"a node's", node, hostMAC, punt.RejectSource, false},
		{"a static host's", addr(3), otherMAC, punt.RejectSource, false},
		{"the broadcast address", addr(255), hostMAC, punt.RejectSource, false},
		{"the bridge's MAC address", addr(4), bridgeMAC, punt.RejectSource, false},
		{"the static host", addr(3), hostMAC, 0, true},
		{"a new host", addr(1), hostMAC, 0, true},
		{"one that makes room", addr(2), otherMAC, 0, true},
	} {
		if why, err := r.Learn(c.ip, c.mac, 0, data, r.now); (err == nil) != c.ok || err != nil && why != c.why {
			t.Errorf("%s: rejection %d, %v", c.what, why, err)
		}
	}
	r.proxyQPs[addr(2)] = 1
	if why, err := r.Learn(addr(5), hostMAC, 0, data, r.now); err == nil || why != punt.RejectFull {
		t.Errorf("more than the limit: rejection %d, %v", why, err)
	}
	if n := r.Counters(); n.Spoofs != 3 || n.HostsEvicted != 1 || n.HostsRejected != 1 || n.HostsLearned != 2 {
		t.Errorf("%+v", n)
	}
}

// TestClaim checks that the holder of an address is probed when another station claims it: it keeps the address while
// it answers.
func TestClaim(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2})
	r.arp(hostMAC, addr(1), bridge)
	r.arp(otherMAC, addr(1), bridge)
	if n := r.run(100 * time.Millisecond); n < 1 || !r.at(addr(1), hostMAC) {
		t.Errorf("%d probes", n)
	}
	r.arp(hostMAC, addr(1), bridge)
	r.run(2 * time.Second)
	if !r.at(addr(1), hostMAC) || r.Counters().HostConflicts != 1 {
		t.Errorf("the holder lost its address: %+v", r.Counters())
	}
	r.run(10 * time.Second) // the claim is not rejected any more
	r.arp(otherMAC, addr(1), bridge)
	r.run(2 * time.Second)
	if !r.at(addr(1), otherMAC) || r.Counters().HostsMoved != 1 {
		t.Errorf("the address has not moved: %+v", r.Counters())
	}
}

// TestAgeing checks that a silent host is probed and removed, and one that is configured without a MAC address is
// searched for again.
func TestAgeing(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2, Resolve: []netip.Addr{addr(1)}})
	if n := r.run(4 * time.Second); n < 3 || !slices.Equal(r.Searched(), []netip.Addr{addr(1)}) {
		t.Errorf("%d requests", n)
	}
	r.arp(hostMAC, addr(1), bridge)
	if r.run(time.Second); len(r.Searched()) != 0 {
		t.Error("a known host is searched for")
	}
	r.run(12 * time.Minute)
	if _, known := r.Find(addr(1)); known || r.Counters().HostsAged != 1 || len(r.Searched()) != 1 {
		t.Errorf("the silent host is known: %t; %+v", known, r.Counters())
	}
}

// TestReaddress checks that a host whose address becomes a node's is removed, and that the address is announced once
// the subnet has the node.
func TestReaddress(t *testing.T) {
	r := newRig(t, neighbours.Config{Max: 8, Version: 2})
	r.arp(hostMAC, addr(1), bridge)
	r.proxyQPs[addr(1)] = 1
	r.Readdress([]netip.Addr{addr(1)}, nil)
	if _, known := r.Find(addr(1)); known || len(r.proxyQPs) != 0 {
		t.Errorf("it is a RoCE host, too: %t, %v", known, r.proxyQPs)
	}
	if n := r.run(time.Second); n != 0 {
		t.Errorf("%d announcements of a node that is not there", n)
	}
	if _, err := r.tables.Nodes.Put(tables.Node{IP4: addr(1), GID: ib.GIDFromGUID(0xfe80<<48, 1), LID: 1}); err != nil {
		t.Fatal(err)
	}
	if n := r.run(5 * time.Second); n != 2 || r.Counters().AddressesAnnounced != 2 {
		t.Errorf("%d announcements", n)
	}
}
