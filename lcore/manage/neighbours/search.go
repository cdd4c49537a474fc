// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"net/netip"
	"slices"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours/schedule"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
)

// A searcher asks for the MAC addresses of hosts, and searches for those that are configured without one.
type searcher struct {
	search  schedule.Search
	resolve []netip.Addr
	tables  Tables
	local   *local.Addresses
	frames  *punt.Workers
	log     *ratelog.Logger
	asked   uint64
}

func newSearcher(resolve []netip.Addr, d *Deps) *searcher {
	return &searcher{resolve: resolve, tables: d.Tables, local: d.Local, frames: d.Frames, log: d.Log}
}

// start begins to ask for the hosts that are configured without a MAC address. The bridge gets ready without them: a
// host that is off must not keep it from bridging.
func (s *searcher) start() {
	for _, ip := range s.resolve {
		if !s.local.OnLink(ip) {
			s.log.Warn("host_off_link", "ip", ip, "note", "it becomes known when it sends data, by way of its router")
			continue
		}
		s.search.Add(ip)
	}
}

// set makes these the hosts that are searched for.
func (s *searcher) set(resolve []netip.Addr) {
	s.search.Keep(func(ip netip.Addr) bool { return slices.Contains(resolve, ip) })
	for _, ip := range resolve {
		if !s.isKnown(ip) && !slices.Contains(s.resolve, ip) && s.local.OnLink(ip) {
			s.search.Add(ip)
		}
	}
	s.resolve = slices.Clone(resolve)
}

// lost searches for a host again that is known no more.
func (s *searcher) lost(ip netip.Addr) {
	if slices.Contains(s.resolve, ip) && s.local.OnLink(ip) {
		s.search.Add(ip)
	}
}

// isSought reports whether a host is searched for.
func (s *searcher) isSought(ip netip.Addr) bool { return slices.Contains(s.search.Hosts(), ip) }

// tick asks for the hosts that are due.
func (s *searcher) tick(now time.Time) { s.search.Tick(now, askMost, s.isKnown, s.ask) }

func (s *searcher) isKnown(ip netip.Addr) bool {
	_, _, known := s.tables.Find(ip)
	return known
}

// ask asks for a host's MAC address by broadcast, on the bridge's VLAN.
func (s *searcher) ask(ip netip.Addr) bool { return s.askAt(s.local.Link, frame.Broadcast, ip) }

// askAt sends an ARP request or a neighbour solicitation to one host, or to all, from an address of the subnet that the
// host is in.
func (s *searcher) askAt(link frame.Link, to frame.MAC, ip netip.Addr) bool {
	var b []byte
	switch {
	case ip.Is4():
		f := frame.ARPFields{Op: frame.ARPRequest, SHA: link.MAC, SPA: s.local.Toward(ip, netip.IPv4Unspecified()), TPA: ip}
		b = frame.AppendARP(nil, link, to, f)
	case to == frame.Broadcast:
		b = frame.AppendNS(nil, link, s.local.Toward(ip, s.local.LinkLocal()), ip)
	default:
		f := frame.NDFields{Type: frame.NDSolicitation, Target: ip, LinkLayer: link.MAC}
		b = frame.AppendND(nil, link, to, s.local.Toward(ip, s.local.LinkLocal()), ip, f)
	}
	if !s.frames.Send(0, b) {
		return false
	}
	s.asked++
	return true
}

// Ask asks for a host's MAC address by broadcast. It reports false when the request could not be sent.
func (n *Neighbours) Ask(ip netip.Addr) bool { return n.searcher.ask(ip) }

// Searched returns the hosts that are searched for.
func (n *Neighbours) Searched() []netip.Addr { return n.searcher.search.Hosts() }
