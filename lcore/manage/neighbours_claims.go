// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/neighbour"
	"causeway/tables"
)

// contest notes that a host, known by old, is claimed by another MAC address. It changes nothing yet.
func (l *Loop) contest(old, claimed tables.Host, now time.Time) {
	to := neighbour.Place{MAC: claimed.MAC, VLAN: claimed.VLAN, Version: claimed.Version}
	if l.neighbours.Contest(old.IP, to, now) {
		l.conflict(old, claimed.MAC)
	}
}

// judgeClaim asks the holder of a claimed address, and lets the address move when he has not answered. It returns how many
// questions it took.
func (l *Loop) judgeClaim(n *neighbour.Host, h tables.Host, now time.Time) int {
	step, to := l.neighbours.Judge(n, now)
	if step == neighbour.AskAlone {
		return l.askNeighbour(n, h, h.MAC, now)
	}
	l.noteHost(tables.Host{IP: h.IP, MAC: to.MAC, VLAN: to.VLAN, Version: to.Version}, h, true, true)
	return 0
}

// conflict counts that somebody wanted a living host's address.
func (l *Loop) conflict(h tables.Host, by frame.MAC) {
	l.count.HostConflicts++
	if l.mayLog("host_conflict", 1) {
		l.log.Warn("host_conflict", "ip", h.IP, "stays", frame.MAC(h.MAC), "claimed_by", by,
			"note", "two stations use one address, or one of them pretends to; the first keeps it while it answers")
	}
}

// noteMove counts that a host has moved, and whether it did so before: two stations take turns.
func (l *Loop) noteMove(ip netip.Addr, from, to frame.MAC, now time.Time) {
	l.count.HostsMoved++
	event := "host_moved"
	if l.neighbours.Moved(ip, from, to, now) {
		l.count.HostFlaps++
		event = "host_flapping"
	}
	if l.mayLog(event, 1) {
		l.log.Warn(event, "ip", ip, "from", from, "to", to)
	}
}

// spoofed counts that somebody on Ethernet claims what is not his. Where ARP or ND said so, hosts have heard it too:
// then an announcement puts it right.
func (l *Loop) spoofed(ip netip.Addr, by frame.MAC, heardByAll bool) {
	l.count.Spoofs++
	if l.mayLog("address_claimed", 1) {
		l.log.Warn("address_claimed", "ip", ip, "claimed_by", by, "note", "the configuration says whose it is")
	}
	if heardByAll && l.isThere(ip) && l.announcements.Defend(ip, time.Now(), l.sendAnnouncement) {
		l.count.AddressesDefended++
	}
}
