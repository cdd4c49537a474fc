// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"testing"

	"causeway/ibside/ib"
)

// On an Ethernet link layer nodes and groups have no LID: their GIDs, which are their IP addresses, are enough.
func TestWithoutLIDs(t *testing.T) {
	tb, err := New(Config{MaxHosts: 8, MaxProxyQPs: 8, MaxNodes: 8, MaxGroups: 8, MaxReaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	var ips []netip.Addr
	for i := range byte(3) {
		ip := netip.AddrFrom4([4]byte{10, 9, 0, 7 + i})
		if _, err := tb.Nodes.Put(Node{IP4: ip, GID: ib.GIDFromAddr(ip), GRH: true}); err != nil {
			t.Fatal(err)
		}
		ips = append(ips, ip)
	}
	if _, _, ok := tb.Nodes.LookupSourceLID(0); ok {
		t.Error("LID 0 names a node")
	}
	for _, ip := range ips {
		if n, _, ok := tb.Nodes.LookupSource(ib.GIDFromAddr(ip)); !ok || n.IP4 != ip {
			t.Errorf("the node %v is found as %v, %v", ip, n, ok)
		}
		if err := tb.Nodes.Delete(ip); err != nil {
			t.Error(err)
		}
	}
	if _, err := tb.Nodes.Put(Node{IP4: ips[0], GID: ib.GIDFromAddr(ips[0])}); err == nil {
		t.Error("a node with neither LID nor GRH was accepted")
	}
	group := netip.MustParseAddr("239.1.2.3")
	if _, err := tb.Groups.Put(Group{IP: group, MGID: ib.GIDFromAddr(group), Version: 2, ToIB: true, MTUToIB: 1024}); err != nil {
		t.Error(err)
	}
	if _, err := tb.Groups.Put(Group{IP: group, MGID: ib.MGIDRDMACM(group, ib.PKeyDefault, 2), Version: 2}); err == nil {
		t.Error("a group of InfiniBand without an MLID was accepted")
	}
}
