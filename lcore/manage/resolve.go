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

// askFor sends an ARP request or a neighbour solicitation, from an address of the subnet that the host is in.
func (l *Loop) askFor(ip netip.Addr) bool {
	same := func(p netip.Prefix) bool { return p.Contains(ip) }
	var b []byte
	if ip.Is4() {
		b = frame.AppendARPRequest(nil, l.link, l.own(same, netip.IPv4Unspecified()), ip)
	} else {
		b = frame.AppendNS(nil, l.link, l.own(same, l.cfg.MAC.LinkLocal()), ip)
	}
	if !l.send(l.workers[0], b) {
		return false
	}
	l.count.HostsAsked++
	return true
}
