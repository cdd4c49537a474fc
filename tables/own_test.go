// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"strings"
	"testing"

	"causeway/ibside/ib"
)

func gidOf(last byte) ib.GID { return ib.GID{0xfe, 0x80, 15: last} }

// The bridge's own GIDs and LID are found as such, follow SetOwn, and are never taken for a node's.
func TestOwn(t *testing.T) {
	s := newTables(t, Config{MaxNodes: 4})
	set := func(lid ib.LID, last ...byte) error { return s.Nodes.SetOwn(ownOf(lid, last...)) }
	check := func(lid ib.LID, own string) {
		t.Helper()
		checkOwn(t, s, lid, own)
	}
	for _, step := range []struct {
		lid  ib.LID
		gids []byte
		own  string
	}{{4, []byte{1, 2}, "12"}, {5, []byte{2, 3}, "23"}, {0, nil, ""}, {5, []byte{1}, "1"}} {
		if err := set(step.lid, step.gids...); err != nil {
			t.Fatal(err)
		}
		check(step.lid, step.own)
	}
	if _, err := s.Nodes.Put(Node{IP4: addr("10.9.0.1"), GID: gidOf(1), LID: 7}); err == nil || !strings.Contains(err.Error(), "the bridge's own port has this gid") {
		t.Errorf("a node with the bridge's GID: %v", err)
	}
	must(t)(s.Nodes.Put(Node{IP4: addr("10.9.0.7"), GID: gidOf(7), LID: 5}))
	check(5, "1")
	if err := set(5, 1, 7); err == nil || !strings.Contains(err.Error(), "the node's of [10.9.0.7]") {
		t.Errorf("a node's GID as the bridge's own: %v", err)
	}
	check(5, "1")
	if err := set(6, 1); err != nil {
		t.Fatal(err)
	}
	check(6, "1")
	if n, _, ok := s.Nodes.LookupSourceLID(5); !ok || n.IP4 != addr("10.9.0.7") {
		t.Errorf("the node's LID is no longer the bridge's, but is found as %v, %v", n, ok)
	}
	if err := s.Nodes.Delete(addr("10.9.0.7")); err != nil {
		t.Error(err)
	}
}

func ownOf(lid ib.LID, last ...byte) Own {
	o := Own{LID: lid}
	for _, x := range last {
		o.GIDs = append(o.GIDs, gidOf(x))
	}
	return o
}

// checkOwn checks that the LID, and the GIDs that end in the digits of own, are the bridge's, and no others.
func checkOwn(t *testing.T, s *Tables, lid ib.LID, own string) {
	t.Helper()
	for x := byte(1); x < 9; x++ {
		if want := strings.ContainsRune(own, rune('0'+x)); s.Nodes.LookupOwn(gidOf(x)) != want {
			t.Errorf("gid …:%x is the bridge's own: %v, want %v", x, !want, want)
		}
	}
	for l := ib.LID(0); l < 9; l++ {
		if want := l != 0 && l == lid; s.Nodes.LookupOwnLID(l) != want {
			t.Errorf("lid %v is the bridge's own: %v, want %v", l, !want, want)
		}
	}
}

// A million entries of a table take 128 MiB at most, tags and what the writer needs included.
func TestBytes(t *testing.T) {
	const million = 1_000_000
	one := newTables(t, Config{MaxHosts: 1, MaxProxyQPs: 1, MaxNodes: 1, MaxGroups: 1}).Bytes()
	many := newTables(t, Config{MaxHosts: million, MaxProxyQPs: 1, MaxNodes: 1, MaxGroups: 1}).Bytes()
	t.Logf("a table of a million: %.1f MiB", float64(many-one)/(1<<20))
	if many-one > 128<<20 || many-one < million*64 {
		t.Errorf("%d bytes for a million entries", many-one)
	}
}

// There is room for as many as verbs can name, besides all nodes.
func TestManyOwn(t *testing.T) {
	s := newTables(t, Config{MaxNodes: 4})
	many := Own{GIDs: make([]ib.GID, maxOwnGIDs+1)}
	if err := s.Nodes.SetOwn(many); err == nil {
		t.Error("more own GIDs were taken than there is room for")
	}
	for i := range many.GIDs {
		many.GIDs[i] = ib.GID{0xfe, 0x80, 14: byte(i >> 8), 15: byte(i)}
	}
	if err := s.Nodes.SetOwn(Own{LID: 3, GIDs: many.GIDs[:maxOwnGIDs]}); err != nil {
		t.Error(err)
	}
}

// A proxy QP counts as used when it is made, and then whenever a worker has marked one of its entries.
func TestTakeUsed(t *testing.T) {
	s := newTables(t, Config{})
	must(t)(s.Hosts.Put(someHost))
	must(t)(s.ProxyQPs.Put(someProxyQP))
	take := func() [2]bool {
		toIB, toRoCE := s.ProxyQPs.TakeUsed(HostQP{Host: someProxyQP.Host, HostQPN: someProxyQP.HostQPN})
		return [2]bool{toIB, toRoCE}
	}
	for i, step := range []struct {
		mark func()
		want [2]bool // to IB, to RoCE
	}{
		{func() {}, [2]bool{true, false}}, {func() {}, [2]bool{}},
		{func() { s.ProxyQPs.MarkUsed(someProxyQP.HostQP) }, [2]bool{true, false}}, {func() {}, [2]bool{}},
		{func() { s.ProxyQPs.MarkUsedQP(someProxyQP.QPN) }, [2]bool{false, true}}, {func() {}, [2]bool{}},
	} {
		step.mark()
		if got := take(); got != step.want {
			t.Errorf("step %d: used: %v, want %v", i, got, step.want)
		}
	}
	if toIB, toRoCE := s.ProxyQPs.TakeUsed(HostQP{Host: someProxyQP.Host, HostQPN: 2}); toIB || toRoCE {
		t.Error("a proxy QP that does not exist was used")
	}
}
