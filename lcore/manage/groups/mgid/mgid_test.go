// SPDX-License-Identifier: Apache-2.0

package mgid_test

import (
	"net/netip"
	"slices"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore/manage/groups/mgid"

	"pgregory.net/rapid"
)

func rdmaCM(group netip.Addr) ib.GID { return ib.MGIDRDMACM(group, ib.PKeyDefault, 2) }

// TestAddress checks that the address of every group is found from its MGID, and of no other MGID.
func TestAddress(t *testing.T) {
	forms := map[string]struct {
		prefix string
		mgid   func(netip.Addr) ib.GID
	}{
		"rdmacm, IPv4": {"224.0.0.0/4", rdmaCM},
		"rdmacm, IPv6": {"ff15:1:2::/48", rdmaCM},
		"ipoib, IPv6":  {"ff15::/96", func(ip netip.Addr) ib.GID { return ib.MGIDIPoIB(ip, 0x8001, 5) }},
		"the address":  {"ff15::/16", func(ip netip.Addr) ib.GID { return ib.GID(ip.As16()) }},
		"one address":  {"239.1.2.3/32", rdmaCM},
	}
	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			p := netip.MustParsePrefix(f.prefix)
			v := mgid.Of(p, f.mgid)
			rapid.Check(t, func(t *rapid.T) {
				b := p.Addr().AsSlice()
				for bit := p.Bits(); bit < len(b)*8; bit++ {
					if rapid.Bool().Draw(t, "bit") {
						b[bit/8] |= 0x80 >> (bit % 8)
					}
				}
				ip, _ := netip.AddrFromSlice(b)
				g := f.mgid(ip)
				if got, ok := v.Address(g); !ok || got != ip {
					t.Fatalf("%v has %v, which gives %v, %v", ip, g, got, ok)
				}
				at := rapid.IntRange(0, 15).Draw(t, "byte")
				other := slices.Clone(g[:])
				other[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
				if got, ok := v.Address(ib.GID(other)); ok && (f.mgid(got) != ib.GID(other) || !p.Contains(got)) {
					t.Fatalf("%x is found as %v", other, got)
				}
			})
		})
	}
}
