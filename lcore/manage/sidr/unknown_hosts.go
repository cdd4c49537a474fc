// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"iter"
	"maps"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// An unknownHost is a RoCE host whose MAC address questions wait for.
type unknownHost struct {
	questions []uint32
	at        time.Time // when it is asked for again
	left      int       // how often still
}

// A RoCE host is asked asksForHost times for its MAC address, one each askEvery, before it counts as unreachable (RFC
// 4861 §10, MAX_MULTICAST_SOLICIT and RETRANS_TIMER; Linux does the same with ARP).
const (
	asksForHost = 3
	askEvery    = time.Second
)

// UnknownHosts yields the RoCE hosts whose MAC address requests wait for.
func (s *SIDR) UnknownHosts() iter.Seq[netip.Addr] { return maps.Keys(s.questions.unknown) }

// HostsLearned says that hosts may have been learned. FindHosts looks.
func (s *SIDR) HostsLearned() { s.questions.learning = true }

// FindHosts sends the questions whose hosts have become known.
func (s *SIDR) FindHosts(now time.Time) { s.questions.findHosts(now) }

// await keeps a question until its host's MAC address is known. A host behind a router cannot be asked for it.
func (q *questions) await(x *question, now time.Time) {
	if !q.Local.OnLink(x.To) {
		q.end(x, Unreachable, rejection(ib.SIDRStatusUnsupported))
		return
	}
	x.due = time.Time{}
	u := q.unknown[x.To]
	if u == nil {
		u = &unknownHost{left: asksForHost}
		q.unknown[x.To] = u
	}
	u.questions = append(u.questions, x.id)
	q.askFor(x.To, u, now)
}

func (q *questions) tickUnknown(now time.Time) {
	for ip, u := range q.unknown {
		q.askFor(ip, u, now)
	}
}

// askFor asks for a host when it is due, and ends its questions after the last time.
func (q *questions) askFor(ip netip.Addr, u *unknownHost, now time.Time) {
	switch {
	case now.Before(u.at):
	case u.left > 0:
		if q.Hosts.Ask(ip) {
			u.left--
			u.at = now.Add(askEvery)
		}
	default:
		q.take(ip, func(x *question) { q.end(x, Unreachable, rejection(ib.SIDRStatusUnsupported)) })
	}
}

// findHosts sends the questions whose hosts have become known, if any may have been.
func (q *questions) findHosts(now time.Time) {
	if !q.learning {
		return
	}
	q.learning = false
	for ip := range q.unknown {
		if h, known := q.Hosts.Find(ip); known {
			q.take(ip, func(x *question) { q.send(x, frame.MAC(h.MAC), h.Version, now) })
		}
	}
}

// take removes an unknown host, and calls do for its questions.
func (q *questions) take(ip netip.Addr, do func(*question)) {
	u := q.unknown[ip]
	delete(q.unknown, ip)
	for _, id := range u.questions {
		if x := q.all[id]; x != nil {
			do(x)
		}
	}
}
