// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"causeway/ibside/ib"
)

func TestMGIDs(t *testing.T) {
	rdmacm := func(a netip.Addr) ib.GID { return ib.MGIDRDMACM(a, ib.PKeyDefault, ib.ScopeLinkLocal) }
	ipoib := func(a netip.Addr) ib.GID { return ib.MGIDIPoIB(a, ib.PKeyDefault, ib.ScopeLinkLocal) }
	for _, c := range []struct {
		what  string
		mgid  func(netip.Addr) ib.GID
		group string
		want  string
	}{
		{"rdmacm", rdmacm, "239.1.2.3", "ff12:4001:ffff::f01:203"},
		{"rdmacm, mapped", rdmacm, "::ffff:239.1.2.3", "ff12:4001:ffff::f01:203"},
		{"rdmacm", rdmacm, "ff15::1:2:3", "ff12:6001:ffff::1:2:3"},
		{"rdmacm, MGID as address", rdmacm, "ff15:a01b::1267:ef01:203", "ff15:a01b::1267:ef01:203"},
		{"rdmacm, not ff1x", rdmacm, "ff05:a01b::1", "ff12:6001:ffff::1"},
		{"rdmacm, unicast", rdmacm, "10.10.0.1", "::"},
		{"rdmacm, broadcast", rdmacm, "255.255.255.255", "::"},
		{"ipoib", ipoib, "239.1.2.3", "ff12:401b:ffff::f01:203"},
		{"ipoib", ipoib, "224.0.0.1", "ff12:401b:ffff::1"},
		{"ipoib, broadcast", ipoib, "255.255.255.255", "ff12:401b:ffff::ffff:ffff"},
		{"ipoib", ipoib, "ff15::1:2:3", "ff12:601b:ffff::1:2:3"},
		{"ipoib, solicited node", ipoib, "ff02::1:ff00:1895", "ff12:601b:ffff::1:ff00:1895"},
		{"ipoib, unicast", ipoib, "2001:db8::1", "::"},
		{"RoCEv2", ib.MGIDRoCE, "239.1.2.3", "::ffff:239.1.2.3"},
		{"RoCEv2", ib.MGIDRoCE, "ff15::1:2:3", "ff15::1:2:3"},
		{"RoCEv2, unicast", ib.MGIDRoCE, "10.10.0.1", "::"},
		{"RoCEv1", ib.MGIDRoCEv1, "239.1.2.3", "ff0e::ffff:ef01:203"},
		{"RoCEv1", ib.MGIDRoCEv1, "ff15::1:2:3", "ff15::1:2:3"},
		{"RoCEv1, unicast", ib.MGIDRoCEv1, "10.10.0.1", "::"},
	} {
		if got := c.mgid(netip.MustParseAddr(c.group)); got != gid(c.want) {
			t.Errorf("%s: %s gives %v, want %s", c.what, c.group, got, c.want)
		}
	}
	if got := ib.MGIDRoCE(netip.Addr{}); !got.IsZero() {
		t.Errorf("no address gives %v", got)
	}
}

func TestMGIDPartition(t *testing.T) {
	group := netip.MustParseAddr("239.1.2.3")
	for _, pkey := range []ib.PKey{0x8001, 0x0001} { // a limited member joins the full members' group
		if got := ib.MGIDRDMACM(group, pkey, 5); got != gid("ff15:4001:8001::f01:203") {
			t.Errorf("P_Key %v, scope 5: %v", pkey, got)
		}
	}
}

func TestMulticastMAC(t *testing.T) {
	for mgid, want := range map[string]string{
		"::ffff:239.1.2.3":    "01005e010203",
		"::ffff:239.129.2.3":  "01005e010203", // 32 groups, one MAC
		"ff0e::ffff:ef01:203": "3333ef010203",
		"ff15::1:2:3":         "333300020003",
	} {
		if got := fmt.Sprintf("%x", ib.MulticastMAC(gid(mgid))); got != want {
			t.Errorf("%s: %s, want %s", mgid, got, want)
		}
	}
}

// TestMGIDLossless: no two IPv4 groups may have the same MGID, because the bridge finds the group by it.
func TestMGIDLossless(t *testing.T) {
	group := rapid.Custom(func(t *rapid.T) netip.Addr {
		n := rapid.Uint32Range(0xe0000000, 0xefffffff).Draw(t, "group")
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := group.Draw(t, "a"), group.Draw(t, "b")
		pkey, scope := ib.PKey(rapid.Uint16().Draw(t, "pkey")), rapid.Uint8Range(0, 15).Draw(t, "scope")
		cm, ip := ib.MGIDRDMACM(a, pkey, scope), ib.MGIDIPoIB(a, pkey, scope)
		if (cm == ib.MGIDRDMACM(b, pkey, scope)) != (a == b) || cm == ip || !cm.IsIBMulticast() || !ip.IsIBMulticast() {
			t.Fatalf("%v and %v: %v, %v", a, b, cm, ib.MGIDRDMACM(b, pkey, scope))
		}
	})
}

func TestFlow(t *testing.T) {
	for label, want := range map[uint32]uint16{
		0: 0xc000, 1: 0xc001, 0x3fff: 0xffff, 0x4000: 0xc001, 0x12345: 0xe341, 0xfffff: 0xffc0, 0xfff00001: 0xc001,
	} {
		if got := ib.FlowLabelToSrcPort(label); got != want {
			t.Errorf("flow label %#x: port %#x, want %#x", label, got, want)
		}
	}
	for _, c := range []struct {
		a, b  ib.QPN
		label uint32
		port  uint16
	}{
		{0x123, 0x456, 0x4edc2, 0xedd1}, {0xffffff, 0x456, 0xfbef5, 0xfecb}, {0, 0x456, 0, 0xc000},
		{0xffffff, 0xffffff, 0xfff1e, 0xff21}, {0xabcdef, 0xfedcba, 0xfa443, 0xe47d},
	} {
		if x, y := ib.CalcFlowLabel(c.a, c.b), ib.CalcFlowLabel(c.b, c.a); x != c.label || y != c.label {
			t.Errorf("%v, %v: flow label %#x, swapped %#x; want %#x", c.a, c.b, x, y, c.label)
		}
		if got := ib.SrcPort(0, c.a, c.b); got != c.port {
			t.Errorf("%v, %v: port %#x, want %#x", c.a, c.b, got, c.port)
		}
	}
	if got := ib.SrcPort(0x12345, 0x123, 0x456); got != 0xe341 {
		t.Errorf("a flow label of its own: port %#x, want 0xe341", got)
	}
	if got := ib.CMFlowLabel(0xffff, 7174); got != 0xf1be7 {
		t.Errorf("rdma_cm's flow label: %#x, want 0xf1be7", got)
	}
}
