// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"net/netip"
	"slices"
	"time"
)

// A Search is the RoCE hosts that are asked for until they answer: they are configured without a MAC address.
type Search struct{ hosts []sought }

type sought struct {
	ip   netip.Addr
	at   time.Time     // when it is asked for next
	wait time.Duration // from then to the next request
}

// askEvery is between the first two requests for an unknown host (RFC 4861 §10, RETRANS_TIMER).
const askEvery = time.Second

// lastAsk is between all later ones: a host may be off for long.
const lastAsk = time.Minute

// Add adds a host to the search.
func (s *Search) Add(ip netip.Addr) { s.hosts = append(s.hosts, sought{ip: ip, wait: askEvery}) }

// Keep ends the search for hosts that are not wanted.
func (s *Search) Keep(wanted func(netip.Addr) bool) {
	s.hosts = slices.DeleteFunc(s.hosts, func(h sought) bool { return !wanted(h.ip) })
}

// Hosts returns the hosts that are searched for.
func (s *Search) Hosts() []netip.Addr {
	var ips []netip.Addr
	for _, h := range s.hosts {
		ips = append(ips, h.ip)
	}
	return ips
}

// Tick asks for those that are due, most at a time, and ends the search for those that have become known. ask reports
// false when the request could not be sent; then it stays due.
func (s *Search) Tick(now time.Time, most int, known, ask func(netip.Addr) bool) {
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
