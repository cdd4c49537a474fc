// SPDX-License-Identifier: Apache-2.0

// Package gids has RoCE hosts seen on IB under GIDs of their own: the IB port's GIDs that belong to hosts, reserved
// ones, and alias GUIDs that the port gets for them.
//
//	ibside.Port.Own ─ Follow ─▶ assignment.Sources ─▶ source numbers of hosts' proxy QPs
//	RoCE hosts ─ Tick ─▶ assignment.Aliases ─▶ ibside.Aliaser
//
// Package assignment decides; this one asks the port. All methods belong to the loop's goroutine.
package gids

import (
	"iter"
	"net/netip"
	"reflect"
	"slices"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/gids/assignment"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Tables have the port's GIDs.
type Tables interface {
	SetOwn(tables.Own) error
}

// HostTables have the RoCE hosts.
type HostTables interface {
	Find(ip netip.Addr) (h tables.Host, id uint32, ok bool)
	All() iter.Seq[tables.Host]
}

// A Port is the IB port. One that is also an ibside.Aliaser may get aliases.
type Port interface {
	Own() ibside.Own
}

// ProxyQPs send from the sources.
type ProxyQPs interface {
	Hosts() iter.Seq[netip.Addr] // that have any
	SendFrom(host netip.Addr, source uint8)
}

// Config is what GIDs need to know.
type Config struct {
	Reserved []netip.Prefix // the IB port's GIDs in there are for RoCE hosts, one each
	Aliases  bool           // RoCE hosts' GIDs become aliases of the port, where it is an Aliaser
}

// Deps are what GIDs work with.
type Deps struct {
	Tables     Tables
	HostTables HostTables
	Port       Port
	ProxyQPs   ProxyQPs
	Ask        *ask.Asker
	Log        *ratelog.Logger
	// Here reports whether this bridge has a station on RoCE: of a fleet, one has.
	Here func(mac frame.MAC) bool
	// OwnGID returns the GID that is a host's address on IB; zero when it has none there.
	OwnGID func(host netip.Addr) ib.GID
}

// GIDs are the port's GIDs, and the hosts that have them. New makes them.
type GIDs struct {
	Deps
	cfg      Config
	own      ibside.Own
	rejected ibside.Own // by the tables: logged once
	sources  *assignment.Sources
	aliases  *assignment.Aliases
	refused  uint64 // aliases that the port had no room for
}

// New makes the GIDs of a port. Follow reads them.
func New(c Config, d Deps) *GIDs {
	g := &GIDs{Deps: d, cfg: c, aliases: assignment.NewAliases()}
	g.sources = assignment.NewSources(assignment.Rules{Own: d.OwnGID, Fits: g.fits, Given: g.given})
	return g
}

// Has reports whether a GID is the port's.
func (g *GIDs) Has(gid ib.GID) bool { return slices.Contains(g.own.GIDs, gid) }

// Own returns how many GIDs the port can send from, the bridge's own among them.
func (g *GIDs) Own() int { return len(g.own.Sources) }

// Hosts returns how many hosts have a GID of their own.
func (g *GIDs) Hosts() int { return g.sources.Len() }

// Aliases returns how many GUIDs the port has as aliases.
func (g *GIDs) Aliases() int { return g.aliases.Len() }

// Refused counts the aliases that the port had no room for.
func (g *GIDs) Refused() uint64 { return g.refused }

// Of returns the GID that a host is seen under; zero: the bridge's own.
func (g *GIDs) Of(host netip.Addr) ib.GID {
	s, _ := g.sources.Of(host)
	return s.GID
}

// BySource returns the GID with that number.
func (g *GIDs) BySource(number uint8) ib.GID {
	var gid ib.GID
	for _, s := range g.own.Sources {
		if s.Number == number {
			gid = s.GID
		}
	}
	return gid
}

// Give returns the number of the source of a host's proxy QPs: one of its own if there is one for it.
func (g *GIDs) Give(host netip.Addr) uint8 { return g.sources.Give(host) }

// Drop takes a host's source back.
func (g *GIDs) Drop(host netip.Addr) { g.sources.Drop(host) }

// Follow reads the port's GIDs. Hosts get other sources when they have changed.
func (g *GIDs) Follow() {
	own := g.Port.Own()
	if reflect.DeepEqual(own, g.own) || reflect.DeepEqual(own, g.rejected) {
		g.giveFreed()
		return
	}
	if own.Beyond != g.own.Beyond {
		g.Log.Warn("gids_beyond", "gids", own.Beyond, "note", "the port has more GIDs than messages can be sent from; these are not used")
	}
	if err := g.Tables.SetOwn(tables.Own{LID: own.LID, LMC: own.LMC, GIDs: own.GIDs}); err != nil {
		g.Log.Error("own_gids", "error", err)
		g.rejected = own
		return
	}
	g.own = own
	for _, lost := range g.sources.Follow(own.Sources) {
		g.Log.Warn("host_gid_lost", "host", lost.Host, "gid", lost.GID, "note", "the host is seen under the bridge's own GID now")
		g.ProxyQPs.SendFrom(lost.Host, 0)
	}
	g.giveFreed()
}

// giveFreed gives GIDs that have become free to hosts with proxy QPs that have none of their own.
func (g *GIDs) giveFreed() { g.sources.GiveFreed(g.ProxyQPs.Hosts()) }

// Refit makes a change of what OwnGID returns, and updates the hosts' sources.
func (g *GIDs) Refit(change func()) {
	owners := g.sources.Owners()
	change()
	for _, lost := range g.sources.Refit(owners) {
		g.ProxyQPs.SendFrom(lost.Host, 0)
	}
	g.giveFreed()
}

// fits says how well a GID of the port's fits a host whose address it is not. An alias fits its host alone.
func (g *GIDs) fits(host netip.Addr, gid ib.GID) assignment.Fit {
	switch guid := gid.GUID(); {
	case g.aliases.Has(guid):
		h, _, known := g.HostTables.Find(host)
		if its, ok := g.aliasOf(&h); known && ok && its == guid {
			return assignment.Made
		}
	case g.isReserved(gid):
		return assignment.Spare
	}
	return assignment.Unfit
}

func (g *GIDs) isReserved(gid ib.GID) bool {
	return slices.ContainsFunc(g.cfg.Reserved, func(p netip.Prefix) bool { return p.Contains(gid.Addr()) })
}

// given makes a host's proxy QPs send from its new source, or from the bridge's own.
func (g *GIDs) given(host netip.Addr, s ibside.Source) {
	g.ProxyQPs.SendFrom(host, s.Number)
	const most = 32
	if s != (ibside.Source{}) && g.Log.Allow("host_gid", most) {
		g.Log.Info("host_gid", "host", host, "gid", s.GID)
	}
}
