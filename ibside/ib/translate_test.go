// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"causeway/ibside/ib"
)

// translations parses "ROCE>IB ROCE>IB".
func translations(text string) (ts ib.Translations) {
	for pair := range strings.FieldsSeq(text) {
		roce, other, _ := strings.Cut(pair, ">")
		ts = append(ts, ib.Translation{RoCE: netip.MustParsePrefix(roce), IB: netip.MustParsePrefix(other)})
	}
	return ts
}

func TestTranslate(t *testing.T) {
	const site = "10.9.0.0/24>10.10.9.0/24 10.9.4.0/23>172.16.2.0/23 10.9.1.128/27>10.10.1.64/27 192.0.2.7/32>198.51.100.1/32 " +
		"fd09::/64>fd10:0:0:9::/64 fd09:1::40/123>fd10::80/123"
	const swapped = "10.9.0.0/24>10.10.0.0/24 10.10.0.0/24>10.9.0.0/24"
	for _, c := range []struct{ by, roce, ib string }{
		{"", "10.9.0.1", "10.9.0.1"},
		{site, "10.9.0.1", "10.10.9.1"},
		{site, "10.9.0.255", "10.10.9.255"},
		{site, "10.9.5.8", "172.16.3.8"},
		{site, "10.9.1.159", "10.10.1.95"},
		{site, "10.9.1.160", "10.9.1.160"}, // behind the prefix's end
		{site, "192.0.2.7", "198.51.100.1"},
		{site, "192.0.2.8", "192.0.2.8"},
		{site, "fd09::1:2", "fd10::9:0:0:1:2"},
		{site, "fd09:1::5f", "fd10::9f"},
		{site, "fe80::1%eth0", "fe80::1%eth0"},
		{site, "::ffff:10.9.0.1", "::ffff:10.9.0.1"}, // to netip, this is no IPv4 address
		{site, "10.10.9.1", ""},                      // on InfiniBand that is 10.9.0.1
		{site, "", "10.9.0.1"},                       // no RoCE address translates to it
		{swapped, "10.9.0.1", "10.10.0.1"},
		{swapped, "10.10.0.1", "10.9.0.1"},
	} {
		ts := translations(c.by)
		if c.roce != "" {
			got, ok := ts.ToIB(netip.MustParseAddr(c.roce))
			if ok != (c.ib != "") || ok && got.String() != c.ib {
				t.Errorf("%s on InfiniBand is %v (%v), want %q", c.roce, got, ok, c.ib)
			}
		}
		if c.ib != "" {
			got, ok := ts.ToRoCE(netip.MustParseAddr(c.ib))
			if ok != (c.roce != "") || ok && got.String() != c.roce {
				t.Errorf("%s on RoCE is %v (%v), want %q", c.ib, got, ok, c.roce)
			}
		}
	}
}

func TestTranslatePrefix(t *testing.T) {
	for _, c := range []struct{ by, n, image, nobodys string }{
		{"", "10.9.0.0/24", "[10.9.0.0/24]", "[]"},
		{"10.9.0.0/24>10.10.9.0/24", "10.9.0.0/24", "[10.10.9.0/24]", "[]"},
		{"10.9.0.0/24>10.10.9.0/24", "10.9.0.64/26", "[10.10.9.64/26]", "[]"},
		{"10.9.0.0/24>10.10.9.0/24", "10.9.0.254/24", "[10.10.9.0/24]", "[]"},
		{"10.9.0.0/25>10.10.9.0/25", "10.9.0.0/24", "[10.10.9.0/25 10.9.0.128/25]", "[]"},
		{"10.9.0.3/32>10.10.9.3/32", "10.9.0.0/30", "[10.9.0.0/31 10.9.0.2/32 10.10.9.3/32]", "[]"},
		{"10.8.0.0/24>10.9.0.0/24", "10.9.0.0/23", "[10.9.1.0/24]", "[10.9.0.0/24]"},
		{"fd09::/64>fd10::/64", "fd09::/63", "[fd10::/64 fd09:0:0:1::/64]", "[]"},
	} {
		image, nobodys := translations(c.by).PrefixToIB(netip.MustParsePrefix(c.n))
		if fmt.Sprint(image) != c.image || fmt.Sprint(nobodys) != c.nobodys {
			t.Errorf("%s by %q: %v and %v, want %s and %s", c.n, c.by, image, nobodys, c.image, c.nobodys)
		}
	}
}

// anyTranslations draws a few prefixes in a small space, so that those of the two sides overlap.
func anyTranslations(t *rapid.T) (ts ib.Translations) {
	base := rapid.SampledFrom([]string{"10.9.0.0", "fd09::"}).Draw(t, "family")
	prefix := func(bits int) netip.Prefix { return nearby(t, base).prefix(bits) }
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		bits := netip.MustParseAddr(base).BitLen() - rapid.IntRange(0, 6).Draw(t, "host bits")
		n := ib.Translation{RoCE: prefix(bits), IB: prefix(bits)}
		if !slices.ContainsFunc(ts, func(o ib.Translation) bool { return o.RoCE.Overlaps(n.RoCE) || o.IB.Overlaps(n.IB) }) {
			ts = append(ts, n)
		}
	}
	return ts
}

type place netip.Addr

func (a place) prefix(bits int) netip.Prefix {
	return netip.PrefixFrom(netip.Addr(a), bits).Masked()
}

// nearby draws an address that differs from a base only in its last byte.
func nearby(t *rapid.T, base string) place {
	b := netip.MustParseAddr(base).AsSlice()
	b[len(b)-1] = rapid.Byte().Draw(t, "last byte")
	a, _ := netip.AddrFromSlice(b)
	return place(a)
}

// TestTranslateAny checks that an address translated there and back is the same, whichever way, and that no two
// addresses become one.
func TestTranslateAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := anyTranslations(t)
		for _, base := range []string{"10.9.0.0", "fd09::"} {
			a := netip.Addr(nearby(t, base))
			for name, way := range map[string][2]func(netip.Addr) (netip.Addr, bool){"to IB": {ts.ToIB, ts.ToRoCE}, "to RoCE": {ts.ToRoCE, ts.ToIB}} {
				there, ok := way[0](a)
				if !ok {
					continue
				}
				if back, ok := way[1](there); !ok || back != a {
					t.Fatalf("%v: %v %s is %v, and back %v (%v)", ts, a, name, there, back, ok)
				}
			}
			if _, ok := ts.ToIB(a); ok {
				continue
			}
			if !slices.ContainsFunc(ts, func(x ib.Translation) bool { return x.IB.Contains(a) }) {
				t.Fatalf("%v: %v is nobody's, but nobody has it on InfiniBand either", ts, a)
			}
		}
	})
}

// TestTranslatePrefixAny checks that a prefix is translated to the prefix of its translated addresses.
func TestTranslatePrefixAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := anyTranslations(t)
		n := nearby(t, "10.9.0.0").prefix(rapid.IntRange(24, 32).Draw(t, "bits"))
		image, nobodys := ts.PrefixToIB(n)
		size := 0
		for _, p := range append(slices.Clone(image), nobodys...) {
			size += 1 << (32 - p.Bits())
		}
		if want := 1 << (32 - n.Bits()); size != want {
			t.Fatalf("%v: %v, of %d addresses, became %v and %v, of %d", ts, n, want, image, nobodys, size)
		}
		for a := n.Addr(); n.Contains(a); a = a.Next() {
			b, ok := ts.ToIB(a)
			in := func(list []netip.Prefix, a netip.Addr) bool {
				return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
			}
			if ok && !in(image, b) || !ok && !in(nobodys, a) {
				t.Fatalf("%v: %v is %v (%v), but %v is %v and not %v", ts, a, b, ok, n, image, nobodys)
			}
		}
	})
}
