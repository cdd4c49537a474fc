// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"reflect"
	"slices"

	"causeway/ibside/ib"
	"causeway/tables"
)

// Own is what the IB port goes by at the moment.
type Own struct {
	LID     ib.LID
	GIDs    []ib.GID // all that it can be known by, in a fixed order
	Sources []Source // those that messages can be sent from; the first is the bridge's own
	Beyond  int      // GIDs that the port has, but that messages cannot be sent from: too many for verbs
}

// A Source is a GID that messages can be sent from, by its number, which is its own for as long as the port has it.
type Source struct {
	Number uint8
	GID    ib.GID
}

// identities is which RoCE host is seen on IB under which GID. Hosts that are not here share the bridge's own.
type identities struct {
	own    Own
	refuse Own // what the tables did not take: said once
	of     map[netip.Addr]Source
	holder map[ib.GID]netip.Addr
	freed  bool // a GID has become free since hosts were last asked for
}

// followOwn learns what the IB port goes by, and lets all hosts' identities follow.
func (l *Loop) followOwn() {
	own := l.door.Own()
	if reflect.DeepEqual(own, l.ids.own) || reflect.DeepEqual(own, l.ids.refuse) {
		l.giveFreed()
		return
	}
	if own.Beyond != l.ids.own.Beyond {
		l.log.Warn("gids_beyond", "gids", own.Beyond, "note", "the port has more GIDs than messages can be sent from; these are not used")
	}
	if err := l.tables.SetOwn(tables.Own{LID: own.LID, GIDs: own.GIDs}); err != nil {
		l.log.Error("own_gids", "error", err)
		l.ids.refuse = own
		return
	}
	l.ids.own = own
	for host, s := range l.ids.of {
		if !slices.Contains(own.Sources, s) {
			l.log.Warn("host_gid_lost", "host", host, "gid", s.GID, "note", "the host is seen under the bridge's own GID now")
			l.dropIdentity(host)
			l.sendFrom(host, 0)
		}
	}
	l.ids.freed = true
	l.giveFreed()
}

// giveFreed gives GIDs that have become free to hosts that have none of their own. One that changes to a better GID frees
// another.
func (l *Loop) giveFreed() {
	for l.ids.freed {
		l.ids.freed = false
		for host := range l.perHost {
			l.identify(host)
		}
	}
}

// identify gives a host a GID of its own if the port has one to give, and reports the number to send from.
func (l *Loop) identify(host netip.Addr) uint8 {
	if s, has := l.ids.of[host]; has && (s.GID == ib.GIDFromAddr(host) || !l.isSource(ib.GIDFromAddr(host))) {
		return s.Number
	}
	s, ok := l.chooseSource(host)
	if !ok {
		return 0
	}
	l.dropIdentity(host)
	other, taken := l.ids.holder[s.GID] // it was given away before the host came whose address it is
	l.dropIdentity(other)
	l.ids.of[host], l.ids.holder[s.GID] = s, host
	l.sendFrom(host, s.Number)
	if taken {
		l.sendFrom(other, l.identify(other))
	}
	const most = 32
	if l.mayLog("host_gid", most) {
		l.log.Info("host_gid", "host", host, "gid", s.GID)
	}
	return s.Number
}

// chooseSource finds the GID that is the host's address, else one of those set aside for hosts that nobody has.
func (l *Loop) chooseSource(host netip.Addr) (Source, bool) {
	spare := -1
	for i, s := range l.ids.own.Sources {
		switch _, taken := l.ids.holder[s.GID]; {
		case i == 0: // the bridge's own
		case s.GID == ib.GIDFromAddr(host):
			return s, true
		case taken || !l.mayHave(host, s.GID):
		case l.aliases.of[s.GID.GUID()] != nil:
			return s, true
		case spare < 0 && l.isSetAside(s.GID):
			spare = i
		}
	}
	if spare < 0 {
		return Source{}, false
	}
	return l.ids.own.Sources[spare], true
}

func (l *Loop) isSource(g ib.GID) bool {
	return slices.ContainsFunc(l.ids.own.Sources, func(s Source) bool { return s.GID == g && s.Number != 0 })
}

func (l *Loop) isSetAside(g ib.GID) bool {
	return slices.ContainsFunc(l.cfg.HostGIDs, func(p netip.Prefix) bool { return p.Contains(g.Addr()) })
}

// dropIdentity takes a host's GID back.
func (l *Loop) dropIdentity(host netip.Addr) {
	if s, has := l.ids.of[host]; has {
		delete(l.ids.of, host)
		delete(l.ids.holder, s.GID)
		l.ids.freed = true
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
