// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net/netip"

	"causeway/ibside/ib"
	"causeway/ibside/ipoib"
)

// ipoibAddress returns an address of an IPoIB interface that is on the port and in the partition of a P_Key.
func (a *attributes) ipoibAddress(pkey ib.PKey) (netip.Addr, bool) {
	if all := a.ipoibAddresses(pkey); len(all) > 0 {
		return all[0].Addr(), true
	}
	return netip.Addr{}, false
}

// ipoibSource returns such an address to connect to another from.
func (a *attributes) ipoibSource(pkey ib.PKey, to netip.Addr) (netip.Addr, bool) {
	return sourceFor(a.ipoibAddresses(pkey), to)
}

// ipoibAddresses lists the addresses of the port's IPoIB interfaces in a partition, with their subnets. Link-local ones
// are left out: rdma_cm would need the interface, too.
func (a *attributes) ipoibAddresses(pkey ib.PKey) (all []netip.Prefix) {
	interfaces, err := ipoib.InterfacesOf(a.Own().GIDs, pkey)
	if err != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
				all = append(all, p)
			}
		}
	}
	return all
}

// sourceFor returns which address to connect to another from: one in the same subnet, else the first of the same IP
// version.
func sourceFor(own []netip.Prefix, to netip.Addr) (from netip.Addr, ok bool) {
	if to.IsLinkLocalUnicast() {
		return from, false
	}
	for _, p := range own {
		if p.Contains(to) {
			return p.Addr(), true
		}
		if !ok && p.Addr().Is4() == to.Is4() {
			from, ok = p.Addr(), true
		}
	}
	return from, ok
}
