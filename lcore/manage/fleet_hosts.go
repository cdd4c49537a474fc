// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"net/netip"
	"time"

	"causeway/ibside/ib"
)

// HostsHere returns those addresses of RoCE hosts by which nodes of a partition reach these over this bridge: of a fleet, it is
// the one that has the host's share. It takes as long as ctx allows, and then returns nothing.
func HostsHere(ctx context.Context, l *Loop, pkey ib.PKey, ips []netip.Addr) (here []netip.Addr) {
	err := l.inbox.Do(ctx, func() error {
		for _, s := range l.segmentsOf(pkey) {
			for _, ip := range ips {
				if s.hasHere(ip) {
					here = append(here, ip)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return here
}

// AskForHost asks for a RoCE host that nodes of a partition want and that is not known, if it may be on RoCE. It does not wait.
func AskForHost(l *Loop, pkey ib.PKey, ip netip.Addr) {
	l.inbox.Try(func() {
		for _, s := range l.segmentsOf(pkey) {
			s.askFor(ip, time.Now())
		}
	})
}

// segmentsOf returns the segments that nodes of a partition reach.
func (p *parts) segmentsOf(pkey ib.PKey) (of []*segment) {
	for _, s := range p.segments {
		if s.cfg.Bound == 0 || s.cfg.Bound.Matches(pkey) {
			of = append(of, s)
		}
	}
	return of
}

// hasHere reports whether a host is known, and is this bridge's.
func (s *segment) hasHere(ip netip.Addr) bool {
	h, known := s.neighbours.Find(ip)
	if !known {
		return false
	}
	_, own := s.local.NodesLink(h.MAC)
	return own
}

// wantedPerSecond bounds the requests for hosts that nodes want.
const wantedPerSecond = 512

// askFor asks for a host, unless it is known, or is none of the segment's.
func (s *segment) askFor(ip netip.Addr, now time.Time) {
	_, known := s.neighbours.Find(ip)
	if known || s.neighbours.AnswersFor(ip) || !s.local.OnLink(ip) || s.local.IsBroadcast(ip) || !s.wanted.Allows(now) {
		return
	}
	s.wanted.Take(now)
	s.neighbours.Ask(ip)
}
