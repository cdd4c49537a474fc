// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"strings"
	"testing"

	"causeway/ibside/ib"
)

// Other bridges are found by GID and LID as such, whether their GID is a node's or not, and follow SetBridges.
func TestBridges(t *testing.T) {
	s := newTables(t, Config{MaxNodes: 4})
	check := func(when string, bridges string, lids ...ib.LID) {
		t.Helper()
		var got strings.Builder
		for last := byte(1); last < 10; last++ {
			if n, _, _ := s.Nodes.LookupSource(gidOf(last)); n.Bridge {
				got.WriteByte('0' + last)
			}
		}
		if got.String() != bridges {
			t.Errorf("%s: the GIDs %s are bridges', want %s", when, &got, bridges)
		}
		for lid := ib.LID(1); lid < 20; lid++ {
			want := false
			for _, x := range lids {
				want = want || x == lid
			}
			if n, _, _ := s.Nodes.LookupSourceLID(lid); n.Bridge != want {
				t.Errorf("%s: LID %v is a bridge's: %v", when, lid, n.Bridge)
			}
		}
	}
	set := func(all ...Bridge) {
		t.Helper()
		if err := s.Nodes.SetBridges(all); err != nil {
			t.Fatal(err)
		}
	}
	node := Node{IP4: addr("10.9.0.7"), GID: gidOf(7), LID: 7}
	must(t)(s.Nodes.Put(node))
	check("none", "")
	set(Bridge{GID: gidOf(1), LID: 5}, Bridge{GID: gidOf(2), LID: 8, LMC: 1}, Bridge{GID: gidOf(3)})
	check("three", "123", 5, 8, 9)
	set(Bridge{GID: gidOf(2), LID: 10}, Bridge{GID: gidOf(7), LID: 7})
	check("a node is one", "27", 7, 10)
	if n, _, ok := s.Nodes.Find(addr("10.9.0.7")); !ok || !n.Bridge {
		t.Errorf("the node: %+v", n)
	}
	if err := s.Nodes.Delete(addr("10.9.0.7")); err != nil {
		t.Fatal(err)
	}
	check("the node has gone", "27", 7, 10)
	must(t)(s.Nodes.Put(node))
	check("the node comes", "27", 7, 10)
	moved := node
	moved.GID, moved.LID = gidOf(8), 11
	must(t)(s.Nodes.Put(moved))
	check("the node has another GID", "27", 7, 10)
	must(t)(s.Nodes.Put(Node{IP4: addr("10.9.0.9"), GID: gidOf(9), LID: 10}))
	check("another node has the LID of a bridge", "27", 7, 10)
	set()
	check("all are gone", "")
	if n, _, ok := s.Nodes.LookupSourceLID(10); !ok || n.IP4 != addr("10.9.0.9") {
		t.Errorf("the LID is the node's: %+v", n)
	}
	if err := s.Nodes.SetBridges(make([]Bridge, maxBridges+1)); err == nil || !strings.Contains(err.Error(), "65 other bridges; there can be 64") {
		t.Errorf("too many: %v", err)
	}
}
