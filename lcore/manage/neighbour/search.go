// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"net/netip"
	"slices"
	"time"
)

// A Search is the RoCE hosts that are asked for until they speak: they are configured without a MAC address.
type Search struct{ hosts []sought }

type sought struct {
	ip   netip.Addr
	at   time.Time     // when it is asked for next
	wait time.Duration // and how long after that again
}

// AskEvery is between the first two questions for a host that nobody knows (RFC 4861 §10, RETRANS_TIMER).
const AskEvery = time.Second

// lastAsk is between all later ones: a host may be off for long.
const lastAsk = time.Minute

// Add has a host searched for.
func (s *Search) Add(ip netip.Addr) { s.hosts = append(s.hosts, sought{ip: ip, wait: AskEvery}) }

// Keep gives up those that are not wanted.
func (s *Search) Keep(wanted func(netip.Addr) bool) {
	s.hosts = slices.DeleteFunc(s.hosts, func(h sought) bool { return !wanted(h.ip) })
}

// Hosts returns who is searched for.
func (s *Search) Hosts() []netip.Addr {
	var ips []netip.Addr
	for _, h := range s.hosts {
		ips = append(ips, h.ip)
	}
	return ips
}

// Tend asks for those that are due, most at a time, and gives up those that have become known. ask reports false when the
// question could not be put; then it stays due.
func (s *Search) Tend(now time.Time, most int, known, ask func(netip.Addr) bool) {
	asked, open := 0, s.hosts[:0]
	for _, h := range s.hosts {
		if known(h.ip) {
			continue
		}
		if asked < most && !h.at.After(now) && ask(h.ip) {
			asked++
			h.at, h.wait = now.Add(h.wait), min(2*h.wait, lastAsk)
		}
		open = append(open, h)
	}
	s.hosts = open
}
