// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/ibside/ipoib"
	"causeway/lcore/manage"
)

// answerNodes answers ARP and ND on IPoIB for the RoCE hosts that the bridge has the shards of, where the port has IPoIB.
func answerNodes(b *Bridge) *ipoib.Responder {
	r := ipoib.Respond(ipoib.ResponderConfig{
		Port: func() []ib.GID { return b.ibPort.Own().GIDs }, Log: b.log,
		Here: func(ctx context.Context, pkey ib.PKey, ips []netip.Addr) []netip.Addr {
			return manage.HostsHere(ctx, b.loop, pkey, ips)
		},
		Searched: func(ctx context.Context, pkey ib.PKey) ([]netip.Addr, error) {
			return manage.HostsSearched(ctx, b.loop, pkey)
		},
		Ask: func(pkey ib.PKey, ip netip.Addr) { manage.AskForHost(b.loop, pkey, ip) },
	})
	b.teardown.add(r.Close)
	return r
}
