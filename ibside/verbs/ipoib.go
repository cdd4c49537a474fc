// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// ipoibAddress returns an address of an IPoIB interface that is on the port and in the partition of a P_Key.
func (p *Port) ipoibAddress(pkey ib.PKey) (netip.Addr, bool) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, false
	}
	own := p.portInfo().GID
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || !isIPoIB(i.HardwareAddr, own) || ipoibPKey(i.Name) != pkey {
			continue
		}
		if addr, ok := joinAddress(&i); ok {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// isIPoIB reports whether a hardware address is IPoIB's at a port: flags and QPN, and the port's GID (RFC 4391 §9.1.1).
func isIPoIB(address net.HardwareAddr, port ib.GID) bool {
	const length, gid = 20, 4
	return len(address) == length && ib.GID(address[gid:]) == port
}

// ipoibPKey returns the P_Key of an IPoIB interface; 0 if that cannot be read.
func ipoibPKey(name string) ib.PKey {
	text, err := os.ReadFile(fmt.Sprintf("/sys/class/net/%s/pkey", name))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
	return ib.PKey(n)
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
