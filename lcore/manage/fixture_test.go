// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/tables"
)

// Short names for use in tests' tables.
type (
	manageConfig = manage.Config
	manageNode   = manage.Node
)

func gid(n uint64) ib.GID { return ib.GIDFromGUID(0xfe80<<48, ib.GUID(n)) }

// never is a path query whose result is never known.
func never(ctx context.Context, _ ib.GID, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// slowJoin is a join that takes a second.
func slowJoin(context.Context, ibside.Join, int) error {
	time.Sleep(time.Second)
	return nil
}

func staticHost(ip netip.Addr) tables.Host {
	return tables.Host{IP: ip, MAC: hostMAC, Version: 2, Static: true}
}
