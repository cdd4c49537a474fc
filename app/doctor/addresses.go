// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"net/netip"

	"causeway/config"
)

// hostsOn returns the configured addresses of one side and IP version, translated to InfiniBand.
func hostsOn(c *config.Config, side config.Side, v6 bool) []netip.Addr {
	return addressesOf(c, v6, func(h *config.Host) bool { return h.Side == side })
}

// addressesOf returns the addresses of one IP version of some hosts, translated to InfiniBand.
func addressesOf(c *config.Config, v6 bool, some func(*config.Host) bool) []netip.Addr {
	var out []netip.Addr
	known := c.Translations()
	for i := range c.Hosts {
		h := &c.Hosts[i]
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
	for _, n := range c.RoCE.Addresses {
		if a, ok := c.Translations().ToIB(n.Addr()); ok && a.Is6() == v6 {
			out = append(out, a)
		}
	}
	return out
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
	for _, n := range c.RoCE.Addresses {
		if n.Addr().Is4() {
			there, _ := c.Translations().PrefixToIB(n)
			out = append(out, there...)
		}
	}
	return out
}
