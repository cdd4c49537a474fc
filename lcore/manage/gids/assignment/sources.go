// SPDX-License-Identifier: Apache-2.0

// Package assignment decides which RoCE host sends from which GID of the IB port, and which GUIDs the port shall have
// as aliases so that there are GIDs to assign.
//
//	the port's GIDs ─ Follow ─▶ Sources ─ Give ─▶ the host's own address, else a GID made for it, else a spare one
//	hosts ─ Next ─▶ Aliases ─▶ GUIDs that the port is to be given, and to give back
//
// A host without a GID sends from the bridge's own. The package makes no requests: its caller knows the hosts and the
// port. Nothing here may be called concurrently.
package assignment

import (
	"iter"
	"net/netip"
	"slices"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Rules are what Sources ask of their caller.
type Rules struct {
	// Own returns the GID that is a host's address on IB, zero when it has none there. It is always that host's.
	Own func(host netip.Addr) ib.GID
	// Fits says how well another GID fits the host.
	Fits func(host netip.Addr, gid ib.GID) Fit
	// Given is called when a host has another source than before; the zero ibside.Source: none of its own any more.
	Given func(host netip.Addr, s ibside.Source)
}

// A Fit says how well a GID fits a host whose address it is not.
type Fit int

// The fits.
const (
	Unfit Fit = iota
	Spare     // it is reserved for hosts, for any of them
	Made      // the port has it for this host
)

// Sources say which host has which source. NewSources makes them.
type Sources struct {
	rules   Rules
	sources []ibside.Source // the first is the bridge's own
	of      map[netip.Addr]ibside.Source
	holder  map[ib.GID]netip.Addr
	freed   bool // a GID has become free since GiveFreed
}

// NewSources makes Sources of a port without GIDs.
func NewSources(r Rules) *Sources {
	return &Sources{rules: r, of: map[netip.Addr]ibside.Source{}, holder: map[ib.GID]netip.Addr{}}
}

// Of returns a host's source.
func (ss *Sources) Of(host netip.Addr) (ibside.Source, bool) {
	s, has := ss.of[host]
	return s, has
}

// Len returns how many hosts have a source of their own.
func (ss *Sources) Len() int { return len(ss.of) }

// A Lost is a host that lost its source.
type Lost struct {
	Host netip.Addr
	GID  ib.GID
}

// Follow makes these the sources. It returns the hosts that have lost theirs; Given is not called for them.
func (ss *Sources) Follow(sources []ibside.Source) []Lost {
	ss.sources, ss.freed = sources, true
	var lost []Lost
	for host, s := range ss.of {
		if !slices.Contains(sources, s) {
			lost = append(lost, Lost{host, s.GID})
			ss.Drop(host)
		}
	}
	return lost
}

// GiveFreed gives sources that have become free to hosts that have none of their own. One that changes to a better
// source frees another.
func (ss *Sources) GiveFreed(hosts iter.Seq[netip.Addr]) {
	for ss.freed {
		ss.freed = false
		for host := range hosts {
			ss.Give(host)
		}
	}
}

// Give gives a host a source of its own if there is one, and returns the number to send from.
func (ss *Sources) Give(host netip.Addr) uint8 {
	own := ss.rules.Own(host)
	if s, has := ss.of[host]; has && (s.GID == own || !ss.isSource(own)) {
		return s.Number
	}
	s, ok := ss.choose(host, own)
	if !ok {
		return 0
	}
	ss.Drop(host)
	other, taken := ss.holder[s.GID] // given away before the host appeared whose address it is
	ss.Drop(other)
	ss.of[host], ss.holder[s.GID] = s, host
	ss.rules.Given(host, s)
	if taken && ss.Give(other) == 0 {
		ss.rules.Given(other, ibside.Source{})
	}
	return s.Number
}

// choose finds the source that is the host's address, own, else one that fits and is free.
func (ss *Sources) choose(host netip.Addr, own ib.GID) (ibside.Source, bool) {
	spare := -1
	for i, s := range ss.sources {
		if i == 0 { // the bridge's own
			continue
		}
		if s.GID == own {
			return s, true
		}
		if _, taken := ss.holder[s.GID]; taken {
			continue
		}
		switch fit := ss.rules.Fits(host, s.GID); {
		case fit == Made:
			return s, true
		case fit == Spare && spare < 0:
			spare = i
		}
	}
	if spare < 0 {
		return ibside.Source{}, false
	}
	return ss.sources[spare], true
}

func (ss *Sources) isSource(g ib.GID) bool {
	return slices.ContainsFunc(ss.sources, func(s ibside.Source) bool { return s.GID == g && s.Number != 0 })
}

// Owners returns the hosts whose source is their address.
func (ss *Sources) Owners() []netip.Addr {
	var hosts []netip.Addr
	for host, s := range ss.of {
		if s.GID == ss.rules.Own(host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Refit follows a change of Rules.Own. owners are the hosts whose source was their address before; those of which this
// is no longer true lose it, and are returned. Given is not called for them.
func (ss *Sources) Refit(owners []netip.Addr) []Lost {
	ss.freed = true
	var lost []Lost
	for _, host := range owners {
		if s, has := ss.of[host]; has && s.GID != ss.rules.Own(host) {
			lost = append(lost, Lost{host, s.GID})
			ss.Drop(host)
		}
	}
	return lost
}

// Drop takes a host's source back.
func (ss *Sources) Drop(host netip.Addr) {
	if s, has := ss.of[host]; has {
		delete(ss.of, host)
		delete(ss.holder, s.GID)
		ss.freed = true
	}
}
