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
type Translate ib.Translation

// Translations returns the mapping of all entries.
func (c *Config) Translations() ib.Translations {
	ts := make(ib.Translations, len(c.Translates))
	for i, t := range c.Translates {
		ts[i] = ib.Translation(t)
	}
	return ts
}

// readTranslate reads one [[translate]]; Translate{} when it is wrong.
func readTranslate(t *table) Translate {
	x := Translate{RoCE: readHostPrefix(t, "roce"), IB: readHostPrefix(t, "ib")}
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
	return Translate{}
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

// checkTranslates reports addresses that two hosts would have on one side.
func (p *checks) checkTranslates() {
	all := p.cfg.Translations()
	for i, x := range p.cfg.Translates {
		t := p.tables["translate"][i]
		alone := x != (Translate{}) // otherwise it has been reported
		for j, o := range p.cfg.Translates[:i] {
			alone = isApart(t, p.tables["translate"][j], "roce", x.RoCE, o.RoCE) && alone
			alone = isApart(t, p.tables["translate"][j], "ib", x.IB, o.IB) && alone
		}
		if alone {
			p.checkConflict(t, x, all)
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

// checkConflict reports an address in use that an entry's IB prefix contains: on InfiniBand it would be the address of
// two hosts. An address that another entry translates is not in use there.
func (p *checks) checkConflict(t *table, x Translate, all ib.Translations) {
	const instead = "so on InfiniBand it would be two hosts'; translate it, too, or choose another prefix"
	for i, h := range p.cfg.Hosts {
		for _, a := range h.Addrs() {
			if _, ok := all.ToIB(a); !ok && x.IB.Contains(a) {
				o := p.tables["host"][i]
				t.fail("ib", "ib %v has the address of %s%s in it, %s", x.IB, o.who, o.inLine(o.keyOf(h, a)), instead)
				return
			}
		}
	}
	for _, n := range p.cfg.RoCE.Addresses {
		_, lost := all.PrefixToIB(n)
		if i := slices.IndexFunc(lost, x.IB.Overlaps); i >= 0 {
			t.fail("ib", "ib %v has %v of [roce] addresses in it, %s", x.IB, lost[i], instead)
			return
		}
	}
}

// named implements entry.
func (x Translate) named() (string, []string) {
	return x.RoCE.String(), []string{"roce " + x.RoCE.String(), fmt.Sprint("ib ", x.IB)}
}

// fields implements entry.
func (x Translate) fields() []field {
	return []field{{"roce", x.RoCE.String()}, {"ib", x.IB.String()}}
}
