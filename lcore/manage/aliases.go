// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/identity"
	"causeway/tables"
)

// aliasOf returns the GUID that a host may be known by: of its address where that is one of the subnet's GIDs, else of its MAC
// address, which also makes the default GID of RoCE interfaces. None are those that [ib] host_gids leaves out.
func (l *Loop) aliasOf(h *tables.Host) (ib.GUID, bool) {
	if len(l.port.own.Sources) == 0 {
		return 0, false
	}
	prefix := l.port.own.Sources[0].GID.Prefix()
	gid := l.ownGID(h.IP)
	if h.IP.Is4() || gid.Prefix() != prefix {
		gid = ib.GIDFromGUID(prefix, ib.GIDFromAddr(frame.MAC(h.MAC).LinkLocal()).GUID())
	}
	return gid.GUID(), gid.GUID() != 0 && (len(l.cfg.HostGIDs) == 0 || l.isSetAside(gid))
}

// tendAliases asks for the aliases of hosts that are known, and gives back those of others.
func (l *Loop) tendAliases(now time.Time) {
	door, ok := l.door.(Aliaser)
	if !ok || !l.cfg.AliasGIDs || !l.port.aliases.IsDue(now) {
		return
	}
	set, drop := l.port.aliases.Next(l.wantedAliases(), now)
	for _, guid := range drop {
		l.askAlias(guid, door.DropAlias, l.aliasDropped)
	}
	for _, guid := range set {
		l.askAlias(guid, door.SetAlias, l.aliasSet)
	}
}

// wantedAliases lists the aliases of all hosts that are known, those of configured ones first.
func (l *Loop) wantedAliases() []identity.Wanted {
	var order []identity.Wanted
	in := map[ib.GUID]bool{}
	for _, static := range []bool{true, false} {
		from := len(order)
		for h := range l.tables.AllHosts() {
			guid, ok := l.aliasOf(&h)
			if h.Static != static || !ok || in[guid] {
				continue
			}
			in[guid] = true
			order = append(order, identity.Wanted{GUID: guid, Host: h.IP})
		}
		slices.SortFunc(order[from:], func(a, b identity.Wanted) int { return cmp.Compare(a.GUID, b.GUID) })
	}
	return order
}

func (l *Loop) askAlias(guid ib.GUID, ask func(context.Context, ib.GUID) error, then func(ib.GUID, error)) {
	l.asking.Go(func() {
		ctx, cancel := context.WithTimeout(l.running, askTimeout)
		defer cancel()
		err := ask(ctx, guid)
		l.work.Tell(l.running, func() { then(guid, err) })
	})
}

func (l *Loop) aliasSet(guid ib.GUID, err error) {
	now, host := time.Now(), l.port.aliases.Host(guid)
	switch {
	case err == nil:
		l.port.aliases.Set(guid)
		l.aliasLog("host_alias", "host", host, "guid", guid)
	case errors.Is(err, ErrNoAlias):
		l.log.Warn("aliases_full", "aliases", l.port.aliases.Len(), "host", host, "error", err)
		l.port.aliases.Full(guid, now)
	default:
		l.port.aliases.Failed(guid, now)
		if l.running.Err() == nil {
			l.aliasLog("host_alias_failed", "host", host, "guid", guid, "error", err)
		}
	}
}

// aliasDropped: one that could not be given back is forgotten all the same; the door ends it with itself.
func (l *Loop) aliasDropped(guid ib.GUID, err error) {
	host := l.port.aliases.Host(guid)
	l.port.aliases.Dropped(guid)
	l.aliasLog("host_alias_dropped", "host", host, "guid", guid, "error", err)
}

// aliasLog writes what anybody on the wire can cause, by claiming addresses.
func (l *Loop) aliasLog(event string, args ...any) {
	const most = 32
	if l.mayLog(event, most) {
		l.log.Info(event, args...)
	}
}
