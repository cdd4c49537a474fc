// SPDX-License-Identifier: Apache-2.0

package ib

import "net/netip"

// A Translation is hosts that InfiniBand knows by other IP addresses than RoCE does: the same host bits behind another
// prefix. Both prefixes are of one family and one length, and have no host bits set.
type Translation struct{ RoCE, IB netip.Prefix }

// Translations are one mapping of addresses, there and back. No two of their RoCE prefixes overlap, and no two of their IB
// prefixes do; one's RoCE prefix may be another's IB prefix. An address in none of the prefixes is the same on both sides.
// One that is in a prefix of its own side is another on the other side; one that is only in a prefix of the other side is
// nobody's, because there it means somebody else.
type Translations []Translation

// ToIB returns what InfiniBand knows a RoCE side's address by; false when no host can have it.
func (ts Translations) ToIB(a netip.Addr) (netip.Addr, bool) {
	return translate(a, ts, func(t Translation) (from, to netip.Prefix) { return t.RoCE, t.IB })
}

// ToRoCE returns what the RoCE side knows an address on InfiniBand by; false when no host can have it.
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

// withPrefix returns the host bits of an address behind another prefix of its family.
func withPrefix(n netip.Prefix, a netip.Addr) netip.Addr {
	head, b := n.Addr().AsSlice(), a.AsSlice()
	for i := range b {
		mask := byte(0xff) << (8 - min(max(n.Bits()-8*i, 0), 8)) // of the bits that are the prefix's
		b[i] = head[i]&mask | b[i]&^mask
	}
	out, _ := netip.AddrFromSlice(b) // as long as it was
	return out
}

// PrefixToIB returns what InfiniBand knows the addresses of a RoCE side's prefix by, in as few prefixes as there are; and the
// parts of it that no host can have.
func (ts Translations) PrefixToIB(n netip.Prefix) (image, nobodys []netip.Prefix) {
	for _, t := range ts {
		for _, p := range []netip.Prefix{t.RoCE, t.IB} {
			if p.Overlaps(n) && p.Bits() > n.Bits() { // only a part of n is in it
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

// halves splits a prefix of more than one address.
func halves(n netip.Prefix) (lower, upper netip.Prefix) {
	n = n.Masked()
	b := n.Addr().AsSlice()
	b[n.Bits()/8] |= 0x80 >> (n.Bits() % 8)
	a, _ := netip.AddrFromSlice(b) // as long as it was
	return netip.PrefixFrom(n.Addr(), n.Bits()+1), netip.PrefixFrom(a, n.Bits()+1)
}
