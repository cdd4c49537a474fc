// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// planAnnouncements plans those of the bridge's own addresses and of its nodes'. Hosts know no old MAC address of the
// link-local one, which is made of the MAC address.
func (l *Loop) planAnnouncements(now time.Time) {
	l.announcements.Begin(now)
	for _, p := range l.cfg.Addresses {
		l.announcements.Plan(p.Addr())
	}
	for _, n := range l.cfg.Nodes {
		for _, ip := range n.addrs() {
			l.announcements.Plan(ip)
		}
	}
}

// sendAnnouncements sends what is due, once the bridge bridges. A node that the subnet does not have is announced
// when it appears: until then its address may be somebody else's.
func (l *Loop) sendAnnouncements(now time.Time) {
	l.announcements.Tend(now, l.isReady, func(ip netip.Addr) bool { return l.isThere(ip) && l.announceAddress(ip) })
}

func (l *Loop) announceAddress(ip netip.Addr) bool {
	if !l.sendAnnouncement(ip) {
		return false
	}
	l.count.AddressesAnnounced++
	return true
}

// sendAnnouncement tells all hosts that the bridge has an address.
func (l *Loop) sendAnnouncement(ip netip.Addr) bool {
	build := frame.AppendNAAnnouncement
	if ip.Is4() {
		build = frame.AppendARPAnnouncement
	}
	return l.send(l.workers[0], build(nil, l.link, ip))
}

// setDrained leaves the nodes to another bridge, or takes them back: then everybody is to hear of it once all is joined.
func (l *Loop) setDrained(drained bool) {
	if l.drained == drained {
		return
	}
	l.drained, l.wasReady = drained, false
	l.announcements.Clear()
	if !drained {
		l.planAnnouncements(time.Now())
	}
}
