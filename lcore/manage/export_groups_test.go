// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"

	"causeway/ibside/ib"
)

// AddressOf returns what finds a range's addresses.
func AddressOf(p netip.Prefix, mgid func(netip.Addr) ib.GID) func(ib.GID) (netip.Addr, bool) {
	v := inverseOf(&Range{Prefix: p, MGID: mgid})
	return v.of
}
