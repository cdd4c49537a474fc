// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/ibside/ipoib"
)

// ipoibAddress returns an address of an IPoIB interface that is on the port and in the partition of a P_Key.
func (a *attributes) ipoibAddress(pkey ib.PKey) (netip.Addr, bool) {
	interfaces, err := ipoib.InterfacesOf(a.Own().GIDs, pkey)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, i := range interfaces {
		if addr, ok := joinAddress(&i); ok {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// joinAddress returns an address of an interface that rdma_cm can join from.
func joinAddress(i *net.Interface) (netip.Addr, bool) {
	addresses, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLinkLocalUnicast() { // a link-local address needs the interface, too
			return prefix.Addr(), true
		}
	}
	return netip.Addr{}, false
}
