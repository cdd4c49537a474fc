// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"testing"

	"causeway/ibside/ib"
)

// TestLIDs: each of a port's LIDs names its node, as long as they are known to be its; and none of them when it is
// behind a router.
func TestLIDs(t *testing.T) {
	s := newTables(t, Config{MaxNodes: 2})
	names := func(want string) {
		t.Helper()
		got := ""
		for lid := range ib.LID(20) {
			n, _, ok := s.Nodes.LookupSourceLID(lid)
			got += map[bool]string{true: n.IP4.String()[len("10.9.0."):], false: "-"}[ok]
		}
		if got != want {
			t.Errorf("LIDs 0 to 19 name %s, want %s", got, want)
		}
	}
	a, b := Node{IP4: addr("10.9.0.1"), GID: gidOf(1), LID: 6, LMC: 2}, Node{IP4: addr("10.9.0.2"), GID: gidOf(2), LID: 12}
	put := func(n Node) { must(t)(s.Nodes.Put(n)) }
	put(a)
	put(b)
	names("----1111----2-------")
	s.Nodes.MarkLIDs(a.GID, LIDsStale)
	names("------------2-------")
	b.LID = 5 // a's, as far as is known
	put(b)
	names("--------------------")
	s.Nodes.MarkLIDs(a.GID, LIDsLost)
	names("-----2--------------")
	if _, _, ok := s.Nodes.LookupSource(a.GID); !ok {
		t.Error("a node whose LIDs are lost has no GID")
	}
	a.LID, a.LMC = 16, 1
	put(a)
	names("-----2----------11--")
	a.HopLimit = 64
	put(a)
	names("-----2--------------")
	if err := s.Nodes.SetOwn(Own{LID: 4, LMC: 1}); err != nil {
		t.Error(err)
	}
	names("--------------------")
	if !s.Nodes.LookupOwnLID(4) || !s.Nodes.LookupOwnLID(5) || s.Nodes.LookupOwnLID(6) {
		t.Error("the bridge's LIDs are not 4 and 5")
	}
	if err := s.Nodes.SetOwn(Own{LID: 4}); err != nil {
		t.Error(err)
	}
	names("-----2--------------")
}

// TestManyLIDs: there is room for the LIDs of all nodes, also when all change at once.
func TestManyLIDs(t *testing.T) {
	const most = 512
	s := newTables(t, Config{MaxNodes: most})
	if err := s.Nodes.SetOwn(Own{LID: 0x80, LMC: 7, GIDs: []ib.GID{{0xfe, 0x80, 8: 1}}}); err != nil {
		t.Fatal(err)
	}
	const ports = 0xc000/0x80 - 2 // all of the subnet's, but the bridge's, and LIDs 0 to 127
	for _, ip := range []string{"10.9.0.0", "10.8.0.0"} {
		at := addr(ip).As4()
		for i := range ports {
			at[2], at[3] = byte(i>>8), byte(i)
			six := [16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)}
			must(t)(s.Nodes.Put(Node{
				IP4: netip.AddrFrom4(at), IP6: netip.AddrFrom16(six), GID: ib.GID{0xfe, 0x80, 14: byte(i >> 8), 15: byte(i)},
				LID: ib.LID(0x80 * (i + 2)), LMC: 7,
			}))
			s.Reclaim()
		}
	}
	for lid := ib.LID(0x100); lid <= ib.LIDLast; lid++ {
		if n, _, ok := s.Nodes.LookupSourceLID(lid); !ok || n.IP4.As4()[1] != 8 {
			t.Fatalf("LID %v: %v, %v", lid, n.IP4, ok)
		}
	}
}

// TestSharedLID: a LID of several nodes is found as none of them, and as the last one again when the others have gone.
func TestSharedLID(t *testing.T) {
	s := newTables(t, Config{})
	a, b, c := someNode, someNode, someNode
	b.IP4, b.IP6, b.GID = addr("10.9.0.8"), netip.Addr{}, ib.GID{0xfe, 0x80, 15: 8}
	c.IP4, c.IP6, c.GID = addr("10.9.0.9"), netip.Addr{}, ib.GID{0xfe, 0x80, 15: 9}
	want := func(ip netip.Addr) {
		t.Helper()
		if n, _, _ := s.Nodes.LookupSourceLID(someNode.LID); n.IP4 != ip {
			t.Errorf("LID %v is found as %v, want %v", someNode.LID, n.IP4, ip)
		}
	}
	must(t)(s.Nodes.Put(a))
	want(a.IP4)
	must(t)(s.Nodes.Put(b))
	must(t)(s.Nodes.Put(c))
	want(netip.Addr{})
	a.LID = 5
	must(t)(s.Nodes.Put(a))
	want(netip.Addr{})
	if err := s.Nodes.Delete(c.IP4); err != nil {
		t.Fatal(err)
	}
	want(b.IP4)
	if err := s.Nodes.Delete(b.IP4); err != nil {
		t.Fatal(err)
	}
	want(netip.Addr{})
	if n, _, _ := s.Nodes.LookupSourceLID(5); n.IP4 != a.IP4 {
		t.Errorf("LID 5 names %v", n.IP4)
	}
}
