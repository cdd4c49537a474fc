// SPDX-License-Identifier: Apache-2.0

package gids

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/gids/assignment"
	"causeway/tables"
)

// aliasOf returns the GUID that a host may have: of its address where that is one of the subnet's GIDs, else of its MAC
// address, which also makes the default GID of RoCE interfaces. It is none that [ib] host_gids excludes.
func (g *GIDs) aliasOf(h *tables.Host) (ib.GUID, bool) {
	if len(g.own.Sources) == 0 {
		return 0, false
	}
	prefix := g.own.Sources[0].GID.Prefix()
	gid := g.OwnGID(h.IP)
	if h.IP.Is4() || gid.Prefix() != prefix {
		gid = ib.GIDFromGUID(prefix, ib.GIDFromAddr(frame.MAC(h.MAC).LinkLocal()).GUID())
	}
	return gid.GUID(), gid.GUID() != 0 && (len(g.cfg.Reserved) == 0 || g.isReserved(gid))
}

// Tick asks the port for the aliases of hosts that are known, and drops those of others.
func (g *GIDs) Tick(now time.Time) {
	port, ok := g.Port.(ibside.Aliaser)
	if !ok || !g.cfg.Aliases || !g.aliases.IsDue(now) {
		return
	}
	set, drop := g.aliases.Next(g.wantedAliases(), now)
	for _, guid := range drop {
		g.askAlias(guid, port.DropAlias, g.aliasDropped)
	}
	for _, guid := range set {
		g.askAlias(guid, port.SetAlias, g.aliasSet)
	}
}

// wantedAliases lists the aliases of all hosts that are known and here: first those of configured ones, last those of hosts that have
// never answered, for anybody can write an address.
func (g *GIDs) wantedAliases() []assignment.Wanted {
	var order []assignment.Wanted
	in := map[ib.GUID]bool{}
	for _, first := range []func(tables.Host) bool{
		func(h tables.Host) bool { return h.Static },
		func(h tables.Host) bool { return h.Confirmed },
		func(tables.Host) bool { return true },
	} {
		from := len(order)
		for h := range g.HostTables.All() {
			guid, ok := g.aliasOf(&h)
			if !first(h) || !ok || in[guid] || !g.Here(frame.MAC(h.MAC)) {
				continue
			}
			in[guid] = true
			order = append(order, assignment.Wanted{GUID: guid, Host: h.IP})
		}
		slices.SortFunc(order[from:], func(a, b assignment.Wanted) int { return cmp.Compare(a.GUID, b.GUID) })
	}
	return order
}

func (g *GIDs) askAlias(guid ib.GUID, request func(context.Context, ib.GUID) error, then func(ib.GUID, error)) {
	g.Ask.Go(func() {
		ctx, cancel := context.WithTimeout(g.Ask.Running(), ask.Timeout)
		defer cancel()
		err := request(ctx, guid)
		g.Ask.Tell(func() { then(guid, err) })
	})
}

func (g *GIDs) aliasSet(guid ib.GUID, err error) {
	now, host := time.Now(), g.aliases.Host(guid)
	switch {
	case err == nil:
		g.aliases.Set(guid)
		g.logAlias("host_alias", "host", host, "guid", guid)
	case errors.Is(err, ibside.ErrNoAlias):
		g.refused++
		g.Log.Warn("aliases_full", "aliases", g.aliases.Len(), "host", host, "error", err)
		g.aliases.Full(guid, now)
	default:
		g.aliases.Failed(guid, now)
		if g.Ask.Running().Err() == nil {
			g.logAlias("host_alias_failed", "host", host, "guid", guid, "error", err)
		}
	}
}

// aliasDropped takes the end of an alias. One that could not be dropped is not tried again; the port drops it when it
// closes.
func (g *GIDs) aliasDropped(guid ib.GUID, err error) {
	host := g.aliases.Host(guid)
	g.aliases.Dropped(guid)
	g.logAlias("host_alias_dropped", "host", host, "guid", guid, "error", err)
}

// logAlias limits the lines, because any station can cause them by claiming addresses.
func (g *GIDs) logAlias(event string, args ...any) {
	const most = 32
	if g.Log.Allow(event, most) {
		g.Log.Info(event, args...)
	}
}
