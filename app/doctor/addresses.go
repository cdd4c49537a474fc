// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/netip"
	"slices"

	"causeway/config"
)

// hostsOn returns the configured addresses of one side and IP version, translated to InfiniBand.
func hostsOn(c *config.Config, side config.Side, v6 bool) []netip.Addr {
	return addressesOf(c, v6, func(h *config.Host) bool { return h.Side == side })
}

// addressesOf returns the addresses of one IP version of some hosts, translated to InfiniBand.
func addressesOf(c *config.Config, v6 bool, some func(*config.Host) bool) []netip.Addr {
	var out []netip.Addr
	for i := range c.Hosts {
		h := &c.Hosts[i]
		known := c.TranslationsOf(*h)
		for _, a := range h.Addrs() {
			if there, ok := known.ToIB(a); ok && some(h) && a.Is6() == v6 {
				out = append(out, there)
			}
		}
	}
	return out
}

// bridgeAddrs returns the bridge's addresses of one IP version, translated to InfiniBand.
func bridgeAddrs(c *config.Config, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, r := range c.Segments() {
		known := c.TranslationsIn(&r)
		for _, n := range r.Addresses {
			if a, ok := known.ToIB(n.Addr()); ok && a.Is6() == v6 {
				out = append(out, a)
			}
		}
	}
	return unique(out)
}

// isTranslated reports whether an address on InfiniBand is another on RoCE, in any segment.
func isTranslated(c *config.Config, a netip.Addr) bool {
	return slices.ContainsFunc(c.Segments(), func(r config.RoCE) bool {
		onRoCE, _ := c.TranslationsIn(&r).ToRoCE(a)
		return onRoCE != a
	})
}

// members returns the addresses of one IP version of the partition's nodes, translated to InfiniBand.
func (p *ipoibProbe) members(v6 bool) []netip.Addr {
	return addressesOf(p.cfg, v6, func(h *config.Host) bool { return h.Side == nodes && pkeyOf(p.cfg, h) == number(p.pkey) })
}

// hasNodes reports whether nodes of the partition have addresses of one IP version, or may have.
func (p *ipoibProbe) hasNodes(v6 bool) bool {
	return len(p.members(v6)) > 0 || len(p.mayLearn(v6)) > 0
}

// roceSubnets returns the IPv4 subnets of the RoCE side, translated to InfiniBand.
func roceSubnets(c *config.Config) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range c.Segments() {
		known := c.TranslationsIn(&r)
		for _, n := range r.Addresses {
			if n.Addr().Is4() {
				there, _ := known.PrefixToIB(n)
				out = append(out, there...)
			}
		}
	}
	return unique(out)
}

// unique returns a list without what is in it twice: segments may have the same subnets.
func unique[T comparable](list []T) (out []T) {
	for _, x := range list {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
