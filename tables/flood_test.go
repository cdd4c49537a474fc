// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"

	"causeway/ibside/ib"
	"causeway/tables/tablestest"
)

// address returns 16 bytes of two words, forced into 2000::/3: an IPv6 unicast address.
func address(a, b uint64) netip.Addr {
	var w [16]byte
	binary.LittleEndian.PutUint64(w[:], a)
	binary.LittleEndian.PutUint64(w[8:], b)
	w[0] = w[0]&0x1f | 0x20
	return netip.AddrFrom16(w)
}

// TestFlood fills a table with keys that collide under weaker hashes. They must be as close to their home bucket as
// random keys are.
func TestFlood(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		name string
		key  func(i uint64) netip.Addr
	}{
		{"random", func(i uint64) netip.Addr { r := rand.New(rand.NewPCG(i, 1)); return address(r.Uint64(), r.Uint64()) }},
		{"one IPv4 after the other", func(i uint64) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }},
		{"one IPv4 network after the other", func(i uint64) netip.Addr {
			return netip.AddrFrom4([4]byte{byte(1 + i>>12&63), byte(i >> 4), byte(i << 4), 0})
		}},
		{"one xor", func(i uint64) netip.Addr { x := i * 0x10001000100010; return address(x, x^0x5555) }},
		{"one sum", func(i uint64) netip.Addr { return address(i<<16, -(i << 16)) }},
		{"low half only", func(i uint64) netip.Addr { return address(0, i<<44) }},
		{"high half only", func(i uint64) netip.Addr { return address(i<<32, 0) }},
		{"multiples of 2^40", func(i uint64) netip.Addr { return address(i<<40, i<<40) }},
		{"swapped halves", func(i uint64) netip.Addr { return address(bits.RotateLeft64(i<<8, 8), i<<16) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 4 { // seeds
				s := newTables(t, Config{})
				for i := range uint64(n) {
					must(t)(s.Hosts.Put(Host{IP: c.key(i), MAC: mac1, Version: 2}))
				}
				checkSpread(t, s.stats()["hosts"], n)
			}
		})
	}
}

// checkSpread demands what holds for random keys with a margin: at three quarters full some 6 % of the keys live
// away from home, and one in thousands more than three steps.
func checkSpread(t *testing.T, st tablestest.Stats, n int) {
	t.Helper()
	away, far := n-st.At[0], 0
	for _, k := range st.At[4:] {
		far += k
	}
	if st.Entries != n || away > n/10 || far > n/500 || st.Buckets > n {
		t.Errorf("%+v: %d of %d keys away from home, %d far", st, away, n, far)
	}
}

// TestFloodWithSeed floods a table with a known seed, where the attack succeeds, and with the same keys a table with a
// seed of its own, which must not be affected. A small table cannot grow as far: it rejects some, and nothing of them stays.
func TestFloodWithSeed(t *testing.T) {
	const n = 200
	known := randomSeeds()
	open, err := newSeeded(Config{}, known)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	small, err := newSeeded(Config{MaxHosts: 2 * n}, known)
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	closed := newTables(t, Config{})
	rejected := 0
	for i, found := uint64(0), 0; found < n; i++ {
		ip := address(i*0x9e3779b97f4a7c15, i)
		if tablestest.HashOfHost(open.Pointer(), ip)>>49 != 0 { // bucket 0 of any array up to 2^15
			continue
		}
		found++
		if _, err := open.Hosts.Put(Host{IP: ip, MAC: mac1, Version: 2}); errors.Is(err, syscall.ENOSPC) {
			rejected++
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := small.Hosts.Put(Host{IP: ip, MAC: mac1, Version: 2}); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		must(t)(closed.Hosts.Put(Host{IP: ip, MAC: mac1, Version: 2}))
	}
	st := open.stats()["hosts"]
	t.Logf("known seed: %d of %d rejected, %+v", rejected, n, st)
	if st.At[0] > 4*7 {
		t.Error("the keys do not collide: there is no attack, and this test proves nothing")
	}
	checkSpread(t, closed.stats()["hosts"], n)
	if st = small.stats()["hosts"]; st.Entries == n || st.Entries+st.Retired+st.Free != st.Slots {
		t.Errorf("%+v: keys for which there is no lane are to be rejected, and their slots free", st)
	}
}

// TestHalfWay makes Puts fail on one table or the other, by a reader that is never quiescent, and checks that they
// leave no traces.
func TestHalfWay(t *testing.T) {
	s := newTables(t, Config{MaxNodes: modelMax, MaxGroups: modelMax, MaxHosts: modelMax, MaxProxyQPs: modelMax})
	r, err := s.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := &model{map[netip.Addr]Host{}, map[HostQP]ProxyQP{}, map[ib.GID]Node{}, map[ib.GID]Group{}}
	failed := map[string]int{}
	note := func(what string, err error) bool {
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: %v", what, err)
		} else if err != nil {
			failed[what]++
		}
		return err == nil
	}
	random := rand.New(rand.NewPCG(3, 4))
	h := someHost
	for i := range 600 {
		h.Static = i%2 == 0
		if _, err := s.Hosts.Put(h); note("host", err) {
			m.hosts[h.IP] = h
		}
		x := someProxyQP
		x.QP, x.QPN = uint32(i), ib.QPN(2+random.IntN(3))
		if _, err := s.ProxyQPs.Put(x); note("proxy QP", err) {
			m.proxyQPs[x.HostQP] = x
		}
		n := someNode
		n.Bridge, n.LID = i%2 == 0, ib.LID(1+random.IntN(3))
		if random.IntN(3) == 0 {
			n.IP6 = netip.Addr{}
		}
		if _, err := s.Nodes.Put(n); note("node", err) {
			m.nodes[n.GID] = n
		}
		g := someGroup
		g.MTUToIB, g.MTUToRoCE = 1+i, 1+i
		if _, err := s.Groups.Put(g); note("group", err) {
			m.groups[g.MGID] = g
		}
		if i%150 == 149 {
			tablestest.Quiescent(s.Pointer(), 0)
			s.Reclaim()
		}
		checkTables(t, s, m)
	}
	for _, what := range []string{"host", "proxy QP", "node", "group"} {
		if failed[what] < 10 || failed[what] > 590 {
			t.Errorf("%d of 600 Puts of a %s failed: this test needs some of both", failed[what], what)
		}
	}
}
