// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// HostsHere returns those addresses of RoCE hosts by which nodes of a partition reach these over this bridge: of a fleet, it is
// the one that has the host's shard. They are addresses on InfiniBand, as all here. It takes as long as ctx allows, and then
// returns nothing.
func HostsHere(ctx context.Context, l *Loop, pkey ib.PKey, ips []netip.Addr) (here []netip.Addr) {
	err := l.inbox.Do(ctx, func() error {
		for _, s := range l.segmentsOf(pkey) {
			for _, ip := range ips {
				if at, ok := s.sidr.Translations().ToRoCE(ip); ok && s.hasHere(at) {
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

// SearchedMost bounds the addresses of HostsSearched: for each of them the ports of all bridges join a group.
const SearchedMost = 4096

// HostsSearched returns the IPv6 addresses of RoCE hosts that are known, whichever bridge has them, and that nodes of a
// partition may look for. Of more than SearchedMost they are configured ones, then those that have shown that they exist, then the
// lowest: any station can claim addresses.
func HostsSearched(ctx context.Context, l *Loop, pkey ib.PKey) ([]netip.Addr, error) {
	var of [standings][]netip.Addr
	err := l.inbox.Do(ctx, func() error {
		for _, s := range l.segmentsOf(pkey) {
			s.searched.update(s, time.Now())
			for i := range of {
				of[i] = append(of[i], s.searched.of[i]...)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, some := range of {
		slices.SortFunc(some, netip.Addr.Compare)
		all = append(all, some...)
	}
	return all[:min(len(all), SearchedMost)], nil
}

// searched are the hosts of a segment that nodes may look for, as they were not long ago: so long that a table of a million hosts
// costs little.
type searched struct {
	until time.Time
	of    [standings][]netip.Addr
}

// What a host that nodes may look for is: first come those that others cannot forge.
const (
	hostConfigured = iota
	hostShown
	hostClaimed
	standings
)

func (x *searched) update(s *segment, now time.Time) {
	const least, most, perHost = time.Second, 30 * time.Second, 10 * time.Microsecond
	if now.Before(x.until) {
		return
	}
	x.of = [standings][]netip.Addr{}
	x.until = now.Add(min(max(time.Duration(s.tables.Hosts.Len())*perHost, least), most))
	for h := range s.tables.Hosts.All() {
		if !h.IP.Is6() || h.IP.IsLinkLocalUnicast() {
			continue
		}
		there, ok := s.sidr.Translations().ToIB(h.IP)
		if !ok {
			continue
		}
		is := hostClaimed
		if h.Static {
			is = hostConfigured
		} else if h.Confirmed {
			is = hostShown
		}
		x.of[is] = append(x.of[is], there)
	}
}

// AskForHost asks for a RoCE host that nodes of a partition want and that is not known, if it may be on RoCE. It does not wait.
func AskForHost(l *Loop, pkey ib.PKey, ip netip.Addr) {
	l.inbox.Try(func() {
		for _, s := range l.segmentsOf(pkey) {
			if at, ok := s.sidr.Translations().ToRoCE(ip); ok {
				s.askFor(at, time.Now())
			}
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
