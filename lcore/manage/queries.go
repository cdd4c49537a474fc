// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// queriers says who asks the RoCE side for listeners, by each family for itself.
type queriers struct {
	v4, v6 querier
}

// querier is a time without a gap in which there was one that asks.
type querier struct {
	since, last time.Time
	other       time.Time // until when another is there that comes before the bridge
	next        time.Time // when the bridge asks, if it does
	asked       int       // how often it has, in this turn
}

const (
	queryInterval = 125 * time.Second // RFC 3376 §8.2, RFC 3810 §9.2
	queryStart    = queryInterval / 4 // between the first two (§8.6, §9.6)
	queryMaxResp  = 10 * time.Second  // §8.3, §9.3
	queryLast     = time.Second       // §8.8, §9.8
	// otherPresent is how long another querier is believed to be there: 2 * 125 s + 5 s (§8.5, §9.5).
	otherPresent = 255 * time.Second
)

func (q *queriers) of(group netip.Addr) *querier {
	if group.Is4() {
		return &q.v4
	}
	return &q.v6
}

// heard notes a query.
func (q *querier) heard(now time.Time) {
	if !q.isThere(now) {
		q.since = now
	}
	q.last = now
}

func (q *querier) isThere(now time.Time) bool {
	return !q.last.IsZero() && now.Sub(q.last) < olderQuerierPresent
}

// silentFor returns for how long a group that was reported last at heard was not, though there was who asked.
func (q *querier) silentFor(heard, now time.Time) time.Duration {
	if !q.isThere(now) {
		return 0
	}
	if q.since.After(heard) {
		heard = q.since
	}
	return now.Sub(heard)
}

// yields gives way to another querier, if that one comes first: the lower address does (RFC 3376 §6.6.2, RFC 3810 §7.6.2).
// A query without a source is a snooping switch's, which takes no part.
func (q *querier) yields(to, own netip.Addr, now time.Time) {
	if !to.IsUnspecified() && to.Less(own) {
		q.other, q.asked = now.Add(otherPresent), 0
	}
}

// heardQuery follows the querier of the RoCE side.
func (l *Loop) heardQuery(from, group netip.Addr) {
	now, q := time.Now(), l.queriers.of(group)
	q.heard(now)
	if own, ok := l.queryFrom(group); ok {
		q.yields(from, own, now)
	}
}

// queryFrom returns the address that the bridge asks from; false when it does not.
func (l *Loop) queryFrom(group netip.Addr) (netip.Addr, bool) {
	if group.Is6() {
		return l.cfg.MAC.LinkLocal(), l.cfg.Querier
	}
	own := l.own(func(p netip.Prefix) bool { return p.Addr().Is4() }, netip.Addr{})
	return own, l.cfg.Querier && own.IsValid()
}

// sendQueries asks all listeners, if nobody else does.
func (l *Loop) sendQueries(now time.Time) {
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		q := l.queriers.of(all)
		if !l.asksFor(all, now) || now.Before(q.next) || !l.sendQuery(all, queryMaxResp) {
			continue
		}
		q.heard(now)
		q.asked++
		if q.next = now.Add(queryInterval); q.asked == 1 {
			q.next = now.Add(queryStart)
		}
	}
}

// asksFor reports whether the bridge is the querier.
func (l *Loop) asksFor(group netip.Addr, now time.Time) bool {
	_, ok := l.queryFrom(group)
	return ok && !now.Before(l.queriers.of(group).other)
}

// sendQuery asks for the listeners of a group, or of all.
func (l *Loop) sendQuery(group netip.Addr, within time.Duration) bool {
	src, _ := l.queryFrom(group)
	const robustness = 2 // RFC 3376 §8.1
	q := frame.Query{Group: group, MaxResp: within, Robustness: robustness, Interval: queryInterval}
	b := frame.AppendMLDv2Query
	if group.Is4() {
		b = frame.AppendIGMPv3Query
	}
	if !l.send(l.workers[0], b(nil, l.link, src, q)) {
		return false
	}
	l.count.GroupQueriesSent++
	return true
}
