// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"net/netip"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// astray returns why a connection whose address is resolved cannot go on: over another device, or in another partition
// than that of a P_Key; 0 is any partition.
func (ev *connectEvent) astray(pkey ib.PKey) *connectError {
	switch {
	case !ev.here:
		return failure(connectNoAddress, errors.New("the route leads over another RDMA device; give an address of this one to connect from"))
	case pkey != 0 && !pkey.Matches(ev.pkey):
		return failure(connectPartition, fmt.Errorf("the way there is in the partition of P_Key %v, not of %v", ev.pkey, pkey))
	}
	return nil
}

// inPartition connects from an address by try. Where that leads to another partition than r.PKey's, it connects once
// more from the port's own address in the right one, as source tells it.
func inPartition(r ibside.ServiceConnect, from netip.Addr, source func(ib.PKey, netip.Addr) (netip.Addr, bool),
	try func(from netip.Addr) (ibside.ServiceAnswer, *connectError),
) (ibside.ServiceAnswer, *connectError) {
	a, failed := try(from)
	if failed == nil || failed.Cause != connectPartition {
		return a, failed
	}
	if own, ok := source(r.PKey, r.To.Unmap()); ok && own != from {
		if a, failed = try(own); failed == nil || failed.Cause != connectPartition {
			return a, failed
		}
	}
	return a, failure(connectPartition, fmt.Errorf("%w; add an IPoIB interface of the port with P_Key %v (ip link add link ib0 type ipoib pkey %[2]v) "+
		"and an address in the IP subnet of %v", failed.Err, r.PKey, r.To))
}
