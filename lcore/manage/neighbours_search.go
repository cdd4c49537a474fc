// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// askMost bounds how many questions are put at a time, not to overrun the worker's ring.
const askMost = 64

// askForHosts begins to ask for the hosts whose MAC address is not configured. The bridge does not wait for them
// to get ready: a host that is off makes no bridge useless.
func (l *Loop) askForHosts() {
	for _, ip := range l.cfg.Resolve {
		if !l.onLink(ip) {
			l.log.Warn("host_off_link", "ip", ip, "note", "it becomes known when it sends data, by way of its router")
			continue
		}
		l.search.Add(ip)
	}
}

// searchHosts asks for those that are due.
func (l *Loop) searchHosts(now time.Time) { l.search.Tend(now, askMost, l.isKnown, l.askFor) }

// isKnown reports whether a RoCE host's MAC address is known.
func (l *Loop) isKnown(ip netip.Addr) bool {
	_, _, known := l.tables.FindHost(ip)
	return known
}

// askFor asks all for a host's MAC address, on the bridge's VLAN.
func (l *Loop) askFor(ip netip.Addr) bool { return l.askAt(l.link, frame.Broadcast, ip) }

// askAt sends an ARP request or a neighbour solicitation to one host, or to all, from an address of the subnet that the
// host is in.
func (l *Loop) askAt(link frame.Link, to frame.MAC, ip netip.Addr) bool {
	same := func(p netip.Prefix) bool { return p.Contains(ip) }
	var b []byte
	switch {
	case ip.Is4():
		f := frame.ARPFields{Op: frame.ARPRequest, SHA: link.MAC, SPA: l.own(same, netip.IPv4Unspecified()), TPA: ip}
		b = frame.AppendARP(nil, link, to, f)
	case to == frame.Broadcast:
		b = frame.AppendNS(nil, link, l.own(same, l.cfg.MAC.LinkLocal()), ip)
	default:
		f := frame.NDFields{Type: frame.NDSolicitation, Target: ip, LinkLayer: link.MAC}
		b = frame.AppendND(nil, link, to, l.own(same, l.cfg.MAC.LinkLocal()), ip, f)
	}
	if !l.send(l.workers[0], b) {
		return false
	}
	l.count.HostsAsked++
	return true
}
