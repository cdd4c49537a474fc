// SPDX-License-Identifier: Apache-2.0

package ib

import "net/netip"

// A Translation maps a prefix of IP addresses on RoCE to a prefix on InfiniBand, with the same host bits. Both prefixes
// have the same family and length, and no host bits set.
type Translation struct{ RoCE, IB netip.Prefix }

// Translations map addresses in both directions. Their RoCE prefixes do not overlap, nor do their IB prefixes; a RoCE
// prefix of one may be an IB prefix of another. An address in a prefix of its side is translated. An address that is
// only in a prefix of the other side has no translation, because there it belongs to another host. All others are the
// same on both sides.
type Translations []Translation

// ToIB translates an address on RoCE to InfiniBand; false when no host can have it.
func (ts Translations) ToIB(a netip.Addr) (netip.Addr, bool) {
	return translate(a, ts, func(t Translation) (from, to netip.Prefix) { return t.RoCE, t.IB })
}

// ToRoCE translates an address on InfiniBand to RoCE; false when no host can have it.
func (ts Translations) ToRoCE(a netip.Addr) (netip.Addr, bool) {
	return translate(a, ts, func(t Translation) (from, to netip.Prefix) { return t.IB, t.RoCE })
}

func translate(a netip.Addr, ts Translations, way func(Translation) (from, to netip.Prefix)) (netip.Addr, bool) {
	others := false
	for _, t := range ts {
		from, to := way(t)
		if from.Contains(a) {
			return withPrefix(to, a), true
		}
		others = others || to.Contains(a)
	}
	if others {
		return netip.Addr{}, false
	}
	return a, true
}

// withPrefix returns an address with another prefix of its family.
func withPrefix(n netip.Prefix, a netip.Addr) netip.Addr {
	head, b := n.Addr().AsSlice(), a.AsSlice()
	for i := range b {
		mask := byte(0xff) << (8 - min(max(n.Bits()-8*i, 0), 8)) // the prefix's bits in this byte
		b[i] = head[i]&mask | b[i]&^mask
	}
	out, _ := netip.AddrFromSlice(b) // the length is valid
	return out
}

// PrefixToIB translates a prefix on RoCE to InfiniBand, into as few prefixes as possible, and returns the parts of it
// that have no translation.
func (ts Translations) PrefixToIB(n netip.Prefix) (image, nobodys []netip.Prefix) {
	for _, t := range ts {
		for _, p := range []netip.Prefix{t.RoCE, t.IB} {
			if p.Overlaps(n) && p.Bits() > n.Bits() { // it contains only a part of n
				lower, upper := halves(n)
				image, nobodys = ts.PrefixToIB(lower)
				a, b := ts.PrefixToIB(upper)
				return append(image, a...), append(nobodys, b...)
			}
		}
	}
	n = n.Masked()
	if a, ok := ts.ToIB(n.Addr()); ok {
		return []netip.Prefix{netip.PrefixFrom(a, n.Bits())}, nil
	}
	return nil, []netip.Prefix{n}
}

// halves splits a prefix in two.
func halves(n netip.Prefix) (lower, upper netip.Prefix) {
	n = n.Masked()
	b := n.Addr().AsSlice()
	b[n.Bits()/8] |= 0x80 >> (n.Bits() % 8)
	a, _ := netip.AddrFromSlice(b) // the length is valid
	return netip.PrefixFrom(n.Addr(), n.Bits()+1), netip.PrefixFrom(a, n.Bits()+1)
}
