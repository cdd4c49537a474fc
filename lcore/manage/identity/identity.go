// SPDX-License-Identifier: Apache-2.0

// Package identity keeps who of the RoCE hosts is seen on IB under which GID, and which of their GUIDs the IB port has as
// aliases, so that it has GIDs to give.
//
//	the port's GIDs ─ Follow ─▶ Book ─ Give ─▶ the host's own address, else a GID made for it, else a spare one
//	hosts ─ Next ─▶ Aliases ─▶ GUIDs that the port is to be given, and to give back
//
// Who gets none is seen under the bridge's own. The package asks nobody: its caller knows the hosts, and speaks to the port.
// Nothing here may be called concurrently.
package identity

import (
	"iter"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// A Source is a GID that messages can be sent from, by its number, which is its own for as long as the port has it.
type Source struct {
	Number uint8
	GID    ib.GID
}

// Rules are what a Book asks of its caller.
type Rules struct {
	// Own returns the GID that is a host's address on IB, zero when it has none there. Nobody keeps that one from him.
	Own func(host netip.Addr) ib.GID
	// Fits says how well another GID fits him.
	Fits func(host netip.Addr, gid ib.GID) Fit
	// Given is called when a host has another source than before; the zero Source: none of its own any more.
	Given func(host netip.Addr, s Source)
}

// A Fit says how well a GID fits a host whose address it is not.
type Fit int

// The fits.
const (
	Unfit Fit = iota
	Spare     // it is set aside for hosts, whoever comes
	Made      // it is the port's for this host's sake
)

// A Book is which host has which source. New makes one.
type Book struct {
	rules   Rules
	sources []Source // the first is the bridge's own
	of      map[netip.Addr]Source
	holder  map[ib.GID]netip.Addr
	freed   bool // a GID has become free since hosts were last asked for
}

// New makes a book without sources.
func New(r Rules) *Book {
	return &Book{rules: r, of: map[netip.Addr]Source{}, holder: map[ib.GID]netip.Addr{}}
}

// Of returns a host's source.
func (b *Book) Of(host netip.Addr) (Source, bool) {
	s, has := b.of[host]
	return s, has
}

// Len returns how many hosts have a source of their own.
func (b *Book) Len() int { return len(b.of) }

// A Lost is a host whose source has gone.
type Lost struct {
	Host netip.Addr
	GID  ib.GID
}

// Follow makes these the sources. It returns the hosts that have lost theirs; Given is not called for them.
func (b *Book) Follow(sources []Source) []Lost {
	b.sources, b.freed = sources, true
	var lost []Lost
	for host, s := range b.of {
		if !slices.Contains(sources, s) {
			lost = append(lost, Lost{host, s.GID})
			b.Drop(host)
		}
	}
	return lost
}

// GiveFreed gives sources that have become free to hosts that have none of their own. One that changes to a better source frees
// another.
func (b *Book) GiveFreed(hosts iter.Seq[netip.Addr]) {
	for b.freed {
		b.freed = false
		for host := range hosts {
			b.Give(host)
		}
	}
}

// Give gives a host a source of its own if there is one, and returns the number to send from.
func (b *Book) Give(host netip.Addr) uint8 {
	own := b.rules.Own(host)
	if s, has := b.of[host]; has && (s.GID == own || !b.isSource(own)) {
		return s.Number
	}
	s, ok := b.choose(host, own)
	if !ok {
		return 0
	}
	b.Drop(host)
	other, taken := b.holder[s.GID] // it was given away before the host came whose address it is
	b.Drop(other)
	b.of[host], b.holder[s.GID] = s, host
	b.rules.Given(host, s)
	if taken && b.Give(other) == 0 {
		b.rules.Given(other, Source{})
	}
	return s.Number
}

// choose finds the source that is the host's address, own, else one that fits and that nobody has.
func (b *Book) choose(host netip.Addr, own ib.GID) (Source, bool) {
	spare := -1
	for i, s := range b.sources {
		if i == 0 { // the bridge's own
			continue
		}
		if s.GID == own {
			return s, true
		}
		if _, taken := b.holder[s.GID]; taken {
			continue
		}
		switch fit := b.rules.Fits(host, s.GID); {
		case fit == Made:
			return s, true
		case fit == Spare && spare < 0:
			spare = i
		}
	}
	if spare < 0 {
		return Source{}, false
	}
	return b.sources[spare], true
}

func (b *Book) isSource(g ib.GID) bool {
	return slices.ContainsFunc(b.sources, func(s Source) bool { return s.GID == g && s.Number != 0 })
}

// Owners returns the hosts whose source is their address.
func (b *Book) Owners() []netip.Addr {
	var hosts []netip.Addr
	for host, s := range b.of {
		if s.GID == b.rules.Own(host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Refit has sources given anew where they fit otherwise than before. owners are who had their address as their source; those
// for whom it is that no more lose it, and are returned. Given is not called for them.
func (b *Book) Refit(owners []netip.Addr) []Lost {
	b.freed = true
	var lost []Lost
	for _, host := range owners {
		if s, has := b.of[host]; has && s.GID != b.rules.Own(host) {
			lost = append(lost, Lost{host, s.GID})
			b.Drop(host)
		}
	}
	return lost
}

// Drop takes a host's source back.
func (b *Book) Drop(host netip.Addr) {
	if s, has := b.of[host]; has {
		delete(b.of, host)
		delete(b.holder, s.GID)
		b.freed = true
	}
}
