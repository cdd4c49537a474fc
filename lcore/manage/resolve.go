// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A question is a configured RoCE host without a MAC address, which is asked for until it speaks.
type question struct {
	ip   netip.Addr
	at   time.Time     // when it is asked next
	wait time.Duration // and how long after that again
}

const (
	firstAsk = time.Second // between the first two questions (RFC 4861 §10, RETRANS_TIMER)
	lastAsk  = time.Minute // between all later ones: a host may be off for long
	askMost  = 64          // questions at a time, not to overrun the worker's ring
)

// askForHosts begins to ask for the hosts whose MAC address is not configured. The bridge does not wait for them
// to get ready: a host that is off makes no bridge useless.
func (l *Loop) askForHosts() {
	for _, ip := range l.cfg.Resolve {
		if !l.onLink(ip) {
			l.log.Warn("host_off_link", "ip", ip, "note", "it becomes known when it sends data, by way of its router")
			continue
		}
		l.questions = append(l.questions, question{ip: ip, wait: firstAsk})
	}
}

// askAgain puts the questions that are due, and forgets those that are answered.
func (l *Loop) askAgain(now time.Time) {
	asked, open := 0, l.questions[:0]
	for _, q := range l.questions {
		if _, _, known := l.tables.FindHost(q.ip); known {
			continue
		}
		if asked < askMost && !q.at.After(now) && l.askFor(q.ip) {
			asked++
			q.at, q.wait = now.Add(q.wait), min(2*q.wait, lastAsk)
		}
		open = append(open, q)
	}
	l.questions = open
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
