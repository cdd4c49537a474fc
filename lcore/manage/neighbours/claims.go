// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/neighbours/schedule"
	"causeway/tables"
)

// contest notes that a host, known by old, is claimed by another MAC address. Nothing changes yet. A claimant that sends data,
// where the holder never has, is asked, too.
func (n *Neighbours) contest(old, claimed tables.Host, data bool, now time.Time) {
	to := schedule.Place{MAC: claimed.MAC, VLAN: claimed.VLAN, Version: claimed.Version}
	if n.hosts.Contest(old.IP, to, data, now) {
		n.conflict(old, claimed.MAC)
	}
	if data && n.proxyQPs.Of(old.IP) == 0 {
		n.ask(old.IP, claimed.MAC, claimed.VLAN, true, now)
	}
}

// prefer moves a host to a MAC address that has sent data and answered, from one that has answered alone.
func (n *Neighbours) prefer(ip netip.Addr, mac frame.MAC, now time.Time) {
	h, known := n.Find(ip)
	if !known || n.proxyQPs.Of(ip) > 0 {
		return
	}
	to, claims := n.hosts.Prefer(ip, mac, now)
	if !claims {
		return
	}
	n.note(tables.Host{IP: ip, MAC: to.MAC, VLAN: to.VLAN, Version: to.Version}, h, true, true, now)
	if n.log.Allow("host_answers_twice", 1) {
		n.log.Warn("host_answers_twice", "ip", ip, "mac", mac, "also", frame.MAC(h.MAC),
			"note", "it sends from the first and answers ARP by both: a host with two ports in one subnet; on Linux set net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2 there")
	}
}

// judgeClaim probes the holder of a claimed address, and lets the address move when it has not answered. It returns how
// many requests it sent.
func (n *Neighbours) judgeClaim(x *schedule.Host, h tables.Host, now time.Time) int {
	step, to := n.hosts.Judge(x, now)
	if step == schedule.Probe {
		return n.probe(x, h, h.MAC, now)
	}
	n.note(tables.Host{IP: h.IP, MAC: to.MAC, VLAN: to.VLAN, Version: to.Version}, h, true, true, now)
	n.Confirm(h.IP, to.MAC, to.VLAN, now)
	return 0
}

// conflict counts a claim of an address whose holder answers.
func (n *Neighbours) conflict(h tables.Host, by frame.MAC) {
	n.count.HostConflicts++
	if n.log.Allow("host_conflict", 1) {
		n.log.Warn("host_conflict", "ip", h.IP, "stays", frame.MAC(h.MAC), "claimed_by", by,
			"note", "two stations use one address, or one of them pretends to; the first keeps it while it answers")
	}
}

// moved counts that a host has moved, and whether it did so before: two stations take turns.
func (n *Neighbours) moved(ip netip.Addr, from, to frame.MAC, now time.Time) {
	n.count.HostsMoved++
	event := "host_moved"
	if n.hosts.Moved(ip, from, to, now) {
		n.count.HostFlaps++
		event = "host_flapping"
	}
	if n.log.Allow(event, 1) {
		n.log.Warn(event, "ip", ip, "from", from, "to", to)
	}
}

// spoofed counts a station on Ethernet that claims a static or IB address. When it did so by ARP or ND, hosts may have
// believed it: then an announcement corrects them.
func (n *Neighbours) spoofed(ip netip.Addr, by frame.MAC, broadcast bool, now time.Time) {
	n.count.Spoofs++
	n.claimed(ip, now)
	if n.log.Allow("address_claimed", 1) {
		n.log.Warn("address_claimed", "ip", ip, "claimed_by", by, "note", "it is another's, by the configuration or on InfiniBand")
	}
	if broadcast && n.announcer.defend(ip, now) {
		n.count.AddressesDefended++
	}
}

// IsSpoofed reports whether the sender from an address is not the one that the configuration gives it to, and counts it
// if count.
func (n *Neighbours) IsSpoofed(ip netip.Addr, mac frame.MAC, count bool) bool {
	h, known := n.Find(ip)
	spoofed := n.AnswersFor(ip) || known && h.Static && h.MAC != mac
	if spoofed && count {
		n.count.Spoofs++
	}
	return spoofed
}

// A State is what is known about whether a RoCE host answers.
type State string

// The states. Those of a learned host depend on its last frame, and on probes since.
const (
	Static     State = "static"     // configured; it is not probed
	Reachable  State = "reachable"  // a frame of it came not long ago
	Probed     State = "probed"     // was asked, and has not answered yet
	Silent     State = "silent"     // does not answer, but has proxy QPs
	Contested  State = "contested"  // another MAC address claims the address
	Unresolved State = "unresolved" // has no MAC address yet
	Stranger   State = "stranger"   // was heard, but has not answered a request yet
)

// State returns the state of a host that is known, when its last frame came, and the probes since; the zero time for a
// static host.
func (n *Neighbours) State(ip netip.Addr) (state State, heard time.Time, probes int) {
	x := n.hosts.Find(ip)
	switch {
	case x == nil:
		return Static, time.Time{}, 0
	case x.IsContested():
		state = Contested
	case x.IsSilent():
		state = Silent
	case x.Asked > 0:
		state = Probed
	case n.isStranger(ip):
		state = Stranger
	default:
		state = Reachable
	}
	return state, x.Heard, x.Asked
}
