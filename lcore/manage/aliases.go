// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// An Aliaser is an IB door that can give its port further GUIDs: the subnet administrator then resolves the GIDs made of them
// to the port, for as long as the door lives.
type Aliaser interface {
	SetAlias(ctx context.Context, guid ib.GUID) error
	DropAlias(ctx context.Context, guid ib.GUID) error
}

// ErrNoAlias is what SetAlias returns when the port has no room for another.
var ErrNoAlias = errors.New("the port has no room for another alias GUID")

// aliases are the RoCE hosts' GUIDs that are the port's, or are to be.
type aliases struct {
	of     map[ib.GUID]*alias
	set    int
	asking int
	lookAt time.Time // when hosts are looked at next
	full   time.Time // until when none is asked for
}

type alias struct {
	host   netip.Addr // the first that was seen with it
	set    bool
	asking bool
	at     time.Time // when it is asked for next
	wait   time.Duration
}

const (
	aliasEvery  = time.Second
	aliasAtOnce = 4           // questions about aliases at a time
	aliasLast   = time.Minute // between two tries for one that is refused, and before there may be room again
)

// aliasOf returns the GUID that a host may be known by: of its address where that is one of the subnet's GIDs, else of its MAC
// address, which also makes the default GID of RoCE interfaces. None are those that [ib] host_gids leaves out.
func (l *Loop) aliasOf(h *tables.Host) (ib.GUID, bool) {
	if len(l.ids.own.Sources) == 0 {
		return 0, false
	}
	prefix := l.ids.own.Sources[0].GID.Prefix()
	gid := ib.GIDFromAddr(h.IP)
	if h.IP.Is4() || gid.Prefix() != prefix {
		gid = ib.GIDFromGUID(prefix, ib.GIDFromAddr(frame.MAC(h.MAC).LinkLocal()).GUID())
	}
	return gid.GUID(), gid.GUID() != 0 && (len(l.cfg.HostGIDs) == 0 || l.isSetAside(gid))
}

// tendAliases asks for the aliases of hosts that are known, and gives back those of others.
func (l *Loop) tendAliases(now time.Time) {
	door, ok := l.door.(Aliaser)
	if !ok || !l.cfg.AliasGIDs || now.Before(l.aliases.lookAt) {
		return
	}
	l.aliases.lookAt = now.Add(aliasEvery)
	wanted, order := l.wantedAliases()
	for guid, a := range l.aliases.of {
		switch {
		case wanted[guid].IsValid() || a.asking:
		case !a.set:
			delete(l.aliases.of, guid)
		case l.aliases.asking < aliasAtOnce:
			l.askAlias(guid, a, door.DropAlias, l.aliasDropped)
		}
	}
	for _, guid := range order {
		a := l.aliases.of[guid]
		if a == nil {
			a = &alias{host: wanted[guid], wait: aliasEvery}
			l.aliases.of[guid] = a
		}
		if !a.set && !a.asking && l.aliases.asking < aliasAtOnce && !now.Before(a.at) && !now.Before(l.aliases.full) {
			l.askAlias(guid, a, door.SetAlias, l.aliasSet)
		}
	}
}

// wantedAliases lists the aliases of all hosts that are known, those of configured ones first.
func (l *Loop) wantedAliases() (map[ib.GUID]netip.Addr, []ib.GUID) {
	of := map[ib.GUID]netip.Addr{}
	var order []ib.GUID
	for _, static := range []bool{true, false} {
		from := len(order)
		for h := range l.tables.AllHosts() {
			guid, ok := l.aliasOf(&h)
			if h.Static != static || !ok || of[guid].IsValid() {
				continue
			}
			of[guid] = h.IP
			order = append(order, guid)
		}
		slices.Sort(order[from:])
	}
	return of, order
}

func (l *Loop) askAlias(guid ib.GUID, a *alias, ask func(context.Context, ib.GUID) error, then func(ib.GUID, *alias, error)) {
	a.asking = true
	l.aliases.asking++
	l.asking.Go(func() {
		ctx, cancel := context.WithTimeout(l.running, askTimeout)
		defer cancel()
		err := ask(ctx, guid)
		l.tell(func() {
			a.asking = false
			l.aliases.asking--
			then(guid, a, err)
			l.aliases.lookAt = time.Time{}
		})
	})
}

func (l *Loop) aliasSet(guid ib.GUID, a *alias, err error) {
	now := time.Now()
	switch {
	case err == nil:
		a.set = true
		l.aliases.set++
		l.aliasLog("host_alias", "host", a.host, "guid", guid)
	case errors.Is(err, ErrNoAlias):
		l.log.Warn("aliases_full", "aliases", l.aliases.set, "host", a.host, "error", err)
		l.aliases.full = now.Add(aliasLast)
	case l.running.Err() == nil:
		l.aliasLog("host_alias_failed", "host", a.host, "guid", guid, "error", err)
		a.at, a.wait = now.Add(a.wait), min(2*a.wait, aliasLast)
	}
}

// aliasDropped: one that could not be given back is forgotten all the same; the door ends it with itself.
func (l *Loop) aliasDropped(guid ib.GUID, a *alias, err error) {
	delete(l.aliases.of, guid)
	l.aliases.set--
	l.aliases.full = time.Time{}
	l.aliasLog("host_alias_dropped", "host", a.host, "guid", guid, "error", err)
}

// aliasLog writes what anybody on the wire can cause, by claiming addresses.
func (l *Loop) aliasLog(event string, args ...any) {
	const most = 32
	if l.mayLog(event, most) {
		l.log.Info(event, args...)
	}
}

// mayHave reports whether a host may be seen under a GID: one that is an alias is its host's alone.
func (l *Loop) mayHave(host netip.Addr, gid ib.GID) bool {
	if l.aliases.of[gid.GUID()] == nil {
		return true
	}
	h, _, known := l.tables.FindHost(host)
	guid, ok := l.aliasOf(&h)
	return known && ok && guid == gid.GUID()
}
