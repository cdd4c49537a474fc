// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"causeway/ibside/ib"
	"causeway/lcore/manage/identity"
	"causeway/tables"
)

// portBooks is what the loop knows of the IB port's GIDs, and of the hosts that have them.
type portBooks struct {
	own     Own
	refused Own // what the tables did not take: said once
	sources *identity.Book
	aliases *identity.Aliases
}

// followOwn learns what the IB port goes by, and lets all hosts' identities follow.
func (l *Loop) followOwn() {
	own := l.door.Own()
	if reflect.DeepEqual(own, l.port.own) || reflect.DeepEqual(own, l.port.refused) {
		l.giveFreed()
		return
	}
	if own.Beyond != l.port.own.Beyond {
		l.log.Warn("gids_beyond", "gids", own.Beyond, "note", "the port has more GIDs than messages can be sent from; these are not used")
	}
	if err := l.tables.SetOwn(tables.Own{LID: own.LID, GIDs: own.GIDs}); err != nil {
		l.log.Error("own_gids", "error", err)
		l.port.refused = own
		return
	}
	l.port.own = own
	for _, lost := range l.port.sources.Follow(own.Sources) {
		l.log.Warn("host_gid_lost", "host", lost.Host, "gid", lost.GID, "note", "the host is seen under the bridge's own GID now")
		l.sendFrom(lost.Host, 0)
	}
	l.giveFreed()
}

// giveFreed gives GIDs that have become free to hosts with stand-ins that have none of their own.
func (l *Loop) giveFreed() { l.port.sources.GiveFreed(maps.Keys(l.perHost)) }

// refit has the hosts' GIDs follow a change of what their addresses are on IB.
func (l *Loop) refit(change func()) {
	owners := l.port.sources.Owners()
	change()
	for _, lost := range l.port.sources.Refit(owners) {
		l.sendFrom(lost.Host, 0)
	}
	l.giveFreed()
}

// fits says how well a GID of the port's fits a host whose address it is not. One that is an alias is its host's alone.
func (l *Loop) fits(host netip.Addr, gid ib.GID) identity.Fit {
	switch guid := gid.GUID(); {
	case l.port.aliases.Has(guid):
		h, _, known := l.tables.FindHost(host)
		if its, ok := l.aliasOf(&h); known && ok && its == guid {
			return identity.Made
		}
	case l.isSetAside(gid):
		return identity.Spare
	}
	return identity.Unfit
}

func (l *Loop) isSetAside(g ib.GID) bool {
	return slices.ContainsFunc(l.cfg.HostGIDs, func(p netip.Prefix) bool { return p.Contains(g.Addr()) })
}

// given lets a host's stand-ins send from a source that it has been given, or from the bridge's own.
func (l *Loop) given(host netip.Addr, s identity.Source) {
	l.sendFrom(host, s.Number)
	const most = 32
	if s != (identity.Source{}) && l.mayLog("host_gid", most) {
		l.log.Info("host_gid", "host", host, "gid", s.GID)
	}
}

// sendFrom lets all stand-ins of a host send from a source.
func (l *Loop) sendFrom(host netip.Addr, number uint8) {
	for s := range l.tables.StandInsOf(host) {
		if s.Source == number {
			continue
		}
		s.Source = number
		if _, err := l.tables.PutStandIn(s); err != nil { // the old entry stays, and the door sends from the bridge's own
			l.log.Warn("standin_source", "host", host, "host_qpn", s.HostQPN, "error", err)
		}
	}
}
