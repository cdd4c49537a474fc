// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A Querier tracks the querier of the RoCE side, for IPv4 and IPv6 each, and is the querier where no other comes first.
type Querier struct {
	Enabled bool   // the bridge may be the querier
	Queries uint64 // sent

	port   Port
	v4, v6 presence
}

// presence is what is known of the querier of an address family.
type presence struct {
	until  time.Time  // when hosts are to have been asked again, and have answered
	by     netip.Addr // the last one that the others yield to
	first  time.Time  // until when they do
	timing timing     // its own
	next   time.Time  // when the bridge sends its next query, if it is the querier
	asked  int        // queries since the bridge became the querier
}

// NewQuerier makes a querier that knows of no other.
func NewQuerier(p Port) *Querier {
	return &Querier{port: p, v4: presence{timing: standard}, v6: presence{timing: standard}}
}

// of returns the presence of a group's address family.
func (q *Querier) of(group netip.Addr) *presence {
	if group.Is4() {
		return &q.v4
	}
	return &q.v6
}

// Heard takes another querier's query.
func (q *Querier) Heard(from netip.Addr, m *frame.Query, now time.Time) {
	p := q.of(m.Group)
	if p.comesFirst(from, now) {
		if p.by != from {
			p.by, p.timing = from, standard
		}
		if m.Group.IsUnspecified() { // others have the times of one group
			p.timing = timingOf(m)
		}
		p.first = now.Add(min(p.timing.otherPresent(), believedMost))
	}
	if m.Group.IsUnspecified() {
		p.until = now.Add(min(q.timing(m.Group, now).round(), believedMost))
	}
	if !q.IsOwn(m.Group, now) {
		p.asked = 0
	}
}

// comesFirst reports whether the others yield to a querier: that of the lowest address (RFC 3376 §6.6.2, RFC 3810 §7.6.2).
// A query without a source is a snooping switch's, which takes no part in the election.
func (p *presence) comesFirst(from netip.Addr, now time.Time) bool {
	return !now.Before(p.first) || p.by == from || p.by.IsUnspecified() || !from.IsUnspecified() && from.Less(p.by)
}

// IsPresent reports whether a querier of a group's address family, maybe the bridge, asks all hosts in its time. One that is
// late may be gone, and nobody is asked: then silence means nothing.
func (q *Querier) IsPresent(group netip.Addr, now time.Time) bool {
	return now.Before(q.of(group).until)
}

// IsOwn reports whether the bridge is the querier of a group's address family.
func (q *Querier) IsOwn(group netip.Addr, now time.Time) bool {
	own, takesPart := q.source(group)
	p := q.of(group)
	yields := now.Before(p.first) && !p.by.IsUnspecified() && p.by.Less(own)
	return takesPart && !yields
}

// timing is that of the querier of a group's address family.
func (q *Querier) timing(group netip.Addr, now time.Time) timing {
	if q.IsOwn(group, now) {
		return standard
	}
	return q.of(group).timing
}

// Tick sends general queries, where the bridge is the querier.
func (q *Querier) Tick(now time.Time) {
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		p := q.of(all)
		own, _ := q.source(all)
		if !q.IsOwn(all, now) || now.Before(p.next) || !q.ask(frame.Query{Group: all, MaxResp: standard.response}) {
			continue
		}
		p.by, p.timing, p.first, p.until = own, standard, now.Add(standard.otherPresent()), now.Add(standard.round())
		p.asked++
		if p.next = now.Add(standard.interval); p.asked < standard.robustness {
			p.next = now.Add(standard.interval / 4) // RFC 3376 §8.6, RFC 3810 §9.6
		}
	}
}

// askLast asks for a group, or for sources of it, that a host has left. suppress: others' timers stay as they are.
func (q *Querier) askLast(group netip.Addr, sources []netip.Addr, suppress bool) bool {
	return q.ask(frame.Query{Group: group, MaxResp: lastMemberInterval, Suppress: suppress, Sources: sources})
}

// source returns the source of the bridge's queries; false when it sends none.
func (q *Querier) source(group netip.Addr) (netip.Addr, bool) {
	if group.Is6() {
		return q.port.Link.MAC.LinkLocal(), q.Enabled
	}
	return q.port.IPv4, q.Enabled && q.port.IPv4.IsValid()
}

// ask sends a query.
func (q *Querier) ask(m frame.Query) bool {
	src, _ := q.source(m.Group)
	m.Robustness, m.Interval = uint8(standard.robustness), standard.interval
	build := frame.AppendMLDv2Query
	if m.Group.Is4() {
		build = frame.AppendIGMPv3Query
	}
	if !q.port.Send(0, build(nil, q.port.Link, src, m)) {
		return false
	}
	q.Queries++
	return true
}
