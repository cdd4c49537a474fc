// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// specialPrefixes are the addresses that no host has, or only on one link.
var specialPrefixes = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// Translate maps the hosts of a prefix on RoCE to another prefix on InfiniBand.
type Translate struct {
	ib.Translation
	Scope
}

// readTranslate reads one [[translate]]; without prefixes when it is wrong.
func readTranslate(t *table) Translate { return Translate{readPrefixes(t), readScope(t)} }

func readPrefixes(t *table) ib.Translation {
	x := ib.Translation{RoCE: readHostPrefix(t, "roce"), IB: readHostPrefix(t, "ib")}
	switch {
	case !x.RoCE.IsValid() || !x.IB.IsValid():
	case x.RoCE.Addr().Is4() != x.IB.Addr().Is4():
		t.fail("ib", "ib %v and roce %v are of different versions of IP; write two of one", x.IB, x.RoCE)
	case x.RoCE.Bits() != x.IB.Bits():
		t.fail("ib", "ib %v is not as long as roce %v; write %q", x.IB, x.RoCE, netip.PrefixFrom(x.IB.Addr(), x.RoCE.Bits()).Masked().String())
	case x.RoCE == x.IB:
		t.fail("ib", "ib %v is the same as roce, so nothing would change; write the IPoIB side's prefix, or remove the entry", x.IB)
	default:
		return x
	}
	return ib.Translation{}
}

// readHostPrefix reads a prefix of host addresses; the zero Prefix when it is missing or wrong.
func readHostPrefix(t *table, key string) netip.Prefix {
	s, ok := t.given(key)
	if !ok {
		return netip.Prefix{}
	}
	example := findKey(t.name, key).example
	n, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		t.fail(key, "%s %s is not a prefix; write one like %s", key, show(s), example)
	case n.Addr().Is4In6():
		t.fail(key, "%s %s is of IPv4 in IPv6 form; write one like %s", key, s, example)
	case slices.ContainsFunc(specialPrefixes, n.Overlaps):
		t.fail(key, "%s %v has addresses in it that are no host's own: multicast, loopback or link-local; write one like %s", key, n, example)
	case n != n.Masked():
		t.fail(key, "%s %v has bits set after its prefix; write %q", key, n, n.Masked().String())
	default:
		return n
	}
	return netip.Prefix{}
}

// checkTranslates reports addresses that two hosts of a segment would have on one side.
func (p *checks) checkTranslates() {
	for i, x := range p.cfg.Translates {
		t := p.tables["translate"][i]
		alone := x.Translation != (ib.Translation{}) // otherwise it has been reported
		for j, o := range p.cfg.Translates[:i] {
			if x.meets(o.Scope) {
				alone = isApart(t, p.tables["translate"][j], "roce", x.RoCE, o.RoCE) && alone
				alone = isApart(t, p.tables["translate"][j], "ib", x.IB, o.IB) && alone
			}
		}
		for _, r := range p.cfg.Segments() {
			alone = alone && (!x.Has(&r) || isFree(t, x, &r))
		}
	}
}

// isApart reports whether two entries' prefixes are disjoint; it adds a problem when they are not.
func isApart(t, before *table, key string, a, b netip.Prefix) bool {
	if !a.Overlaps(b) { // zero ones never do
		return true
	}
	t.fail(key, "%s %v shares addresses with %s%s; each needs its own", key, a, before.who, before.inLine(key))
	return false
}

// isFree reports whether no address that is in use in a segment is in an entry's IB prefix: on InfiniBand it would be the
// address of two hosts. An address that another entry translates is not in use there.
func isFree(t *table, x Translate, in *RoCE) bool {
	p := t.p
	const instead = "so on InfiniBand it would be two hosts'; translate it, too, or choose another prefix"
	all := p.cfg.TranslationsIn(in)
	for i, h := range p.cfg.Hosts {
		if !slices.ContainsFunc(p.cfg.SegmentsOf(h), func(r RoCE) bool { return r.Place() == in.Place() }) {
			continue
		}
		for _, a := range h.Addrs() {
			if _, ok := all.ToIB(a); !ok && x.IB.Contains(a) {
				o := p.tables["host"][i]
				t.fail("ib", "ib %v has the address of %s%s in it, %s", x.IB, o.who, o.inLine(o.keyOf(h, a)), instead)
				return false
			}
		}
	}
	for _, n := range in.Addresses {
		_, lost := all.PrefixToIB(n)
		if i := slices.IndexFunc(lost, x.IB.Overlaps); i >= 0 {
			t.fail("ib", "ib %v has %v of [roce] addresses in it, %s", x.IB, lost[i], instead)
			return false
		}
	}
	return true
}

// named implements entry.
func (x Translate) named() (string, []string) {
	return x.RoCE.String(), []string{fmt.Sprint("roce ", x.RoCE, x.Scope), fmt.Sprint("ib ", x.IB, x.Scope), fmt.Sprint("roce ", x.RoCE)}
}

// fields implements entry.
func (x Translate) fields() []field {
	return append([]field{{"roce", x.RoCE.String()}, {"ib", x.IB.String()}}, x.Scope.fields()...)
}
