// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"slices"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/neighbour"
	"causeway/tables"
)

// lookMost bounds how many hosts are looked at each time that house is kept.
const lookMost = 4096

// heard notes that a host has spoken for itself, from the MAC address that it is known by.
func (l *Loop) heard(ip netip.Addr, now time.Time) {
	by, refused := l.neighbours.Heard(ip, now)
	if !refused {
		return
	}
	if h, _, known := l.tables.FindHost(ip); known {
		l.conflict(h, by)
	}
}

// ageHosts looks at the hosts that are due: it asks those that have been silent for long, and forgets those that neither
// answer nor have stand-ins.
func (l *Loop) ageHosts(now time.Time) {
	asked := 0
	for range lookMost {
		n := l.neighbours.Due(now)
		if n == nil || asked >= askMost {
			return
		}
		h, _, known := l.tables.FindHost(n.IP)
		switch {
		case !known: // cannot be: they come and go together
			l.neighbours.Drop(n.IP)
		case n.IsContested():
			asked += l.judgeClaim(n, h, now)
		default:
			asked += l.age(n, h, now)
		}
	}
}

// age does what a host's silence asks for, and returns how many questions it took. Messages for one that is silent go where
// it was, meanwhile.
func (l *Loop) age(n *neighbour.Host, h tables.Host, now time.Time) int {
	use := neighbour.Use{StandIns: l.perHost[n.IP] > 0, At: l.usedAt(n.IP, now), OnLink: l.onLink(n.IP)}
	switch l.neighbours.Age(n, use, now) {
	case neighbour.AskAlone:
		return l.askNeighbour(n, h, h.MAC, now)
	case neighbour.Silent:
		l.count.HostsSilent++
		if l.mayLog("host_silent", 1) {
			l.log.Warn("host_silent", "ip", n.IP, "mac", frame.MAC(h.MAC), "heard", n.Heard,
				"note", "it has stand-ins, but answers no questions for its MAC address")
		}
		return l.askNeighbour(n, h, frame.Broadcast, now)
	case neighbour.AskAll:
		return l.askNeighbour(n, h, frame.Broadcast, now)
	case neighbour.Forget:
		l.ageOut(n)
	}
	return 0
}

// askNeighbour asks a host, or all, for its MAC address, and returns how many questions that took.
func (l *Loop) askNeighbour(n *neighbour.Host, h tables.Host, to frame.MAC, now time.Time) int {
	if !l.askAt(frame.Link{MAC: l.cfg.MAC, VID: h.VLAN}, to, n.IP) {
		l.neighbours.Postpone(n, now.Add(houseEvery))
		return askMost // the worker's ring is full: no more this time
	}
	l.neighbours.Asked(n, now)
	return 1
}

// usedAt returns when something last crossed by any of a host's stand-ins; the zero time if it has none.
func (l *Loop) usedAt(host netip.Addr, now time.Time) time.Time {
	var last time.Time
	if l.perHost[host] == 0 {
		return last
	}
	for s := range l.tables.StandInsOf(host) {
		if at := l.standInUsedAt(standInKey{s.Host, s.HostQPN}, now); at.After(last) {
			last = at
		}
	}
	return last
}

func (l *Loop) ageOut(n *neighbour.Host) {
	if l.dropHost(n.IP) {
		l.count.HostsAged++
		return
	}
	l.neighbours.Keep(n) // the tables want to
}

// dropHost takes a host from the tables. One that is configured without its MAC address is asked for again.
func (l *Loop) dropHost(ip netip.Addr) bool {
	if l.tables.DeleteHost(ip) != nil {
		return false
	}
	l.neighbours.Drop(ip)
	if slices.Contains(l.cfg.Resolve, ip) && l.onLink(ip) {
		l.search.Add(ip)
	}
	return true
}
