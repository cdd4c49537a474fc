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

// presence is a time without a gap in which there was a querier.
type presence struct {
	since, last time.Time
	other       time.Time // until when another querier comes before the bridge
	next        time.Time // when the bridge sends its next query, if it is the querier
	asked       int       // queries since the bridge became the querier
}

const (
	queryInterval = 125 * time.Second // RFC 3376 §8.2, RFC 3810 §9.2
	queryStart    = queryInterval / 4 // between the first two (§8.6, §9.6)
	queryMaxResp  = 10 * time.Second  // §8.3, §9.3
	// otherPresent is how long another querier comes before the bridge after its last query: 2 * 125 s + 5 s (§8.5,
	// §9.5).
	otherPresent = 255 * time.Second
)

// LastMemberInterval is between the two queries for a group that a member has left (RFC 3376 §8.8, RFC 3810 §9.8).
const LastMemberInterval = time.Second

// NewQuerier makes a querier that knows of no other.
func NewQuerier(p Port) *Querier { return &Querier{port: p} }

// of returns the presence of a group's address family.
func (q *Querier) of(group netip.Addr) *presence {
	if group.Is4() {
		return &q.v4
	}
	return &q.v6
}

// Heard takes another querier's query for a group, or for all.
func (q *Querier) Heard(from, group netip.Addr, now time.Time) {
	p := q.of(group)
	p.heard(now)
	if own, ok := q.source(group); ok {
		p.yields(from, own, now)
	}
}

// IsPresent reports whether there is a querier of a group's address family, the bridge among them.
func (q *Querier) IsPresent(group netip.Addr, now time.Time) bool { return q.of(group).isPresent(now) }

// IsOwn reports whether the bridge is the querier of a group's address family.
func (q *Querier) IsOwn(group netip.Addr, now time.Time) bool {
	_, ok := q.source(group)
	return ok && !now.Before(q.of(group).other)
}

// SilentFor returns how long ago a group was reported, counting only time with a querier. heard is the time of the last
// report.
func (q *Querier) SilentFor(group netip.Addr, heard, now time.Time) time.Duration {
	p := q.of(group)
	if !p.isPresent(now) {
		return 0
	}
	if p.since.After(heard) {
		heard = p.since
	}
	return now.Sub(heard)
}

// Tick sends general queries, where the bridge is the querier.
func (q *Querier) Tick(now time.Time) {
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		p := q.of(all)
		if !q.IsOwn(all, now) || now.Before(p.next) || !q.ask(all, queryMaxResp) {
			continue
		}
		p.heard(now)
		p.asked++
		if p.next = now.Add(queryInterval); p.asked == 1 {
			p.next = now.Add(queryStart)
		}
	}
}

// AskLast queries a group that a member has left.
func (q *Querier) AskLast(group netip.Addr) bool { return q.ask(group, LastMemberInterval) }

// source returns the source of the bridge's queries; false when it sends none.
func (q *Querier) source(group netip.Addr) (netip.Addr, bool) {
	if group.Is6() {
		return q.port.Link.MAC.LinkLocal(), q.Enabled
	}
	return q.port.IPv4, q.Enabled && q.port.IPv4.IsValid()
}

// ask sends a query for a group, or a general one.
func (q *Querier) ask(group netip.Addr, within time.Duration) bool {
	src, _ := q.source(group)
	const robustness = 2 // RFC 3376 §8.1
	m := frame.Query{Group: group, MaxResp: within, Robustness: robustness, Interval: queryInterval}
	build := frame.AppendMLDv2Query
	if group.Is4() {
		build = frame.AppendIGMPv3Query
	}
	if !q.port.Send(0, build(nil, q.port.Link, src, m)) {
		return false
	}
	q.Queries++
	return true
}

// heard records a query, also the bridge's own.
func (p *presence) heard(now time.Time) {
	if !p.isPresent(now) {
		p.since = now
	}
	p.last = now
}

func (p *presence) isPresent(now time.Time) bool {
	return !p.last.IsZero() && now.Sub(p.last) < present
}

// yields gives way to another querier, if that one comes first: the lower address wins (RFC 3376 §6.6.2, RFC 3810
// §7.6.2). A query without a source is a snooping switch's, which takes no part in the election.
func (p *presence) yields(to, own netip.Addr, now time.Time) {
	if !to.IsUnspecified() && to.Less(own) {
		p.other, p.asked = now.Add(otherPresent), 0
	}
}
