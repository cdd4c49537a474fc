// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/tables"
)

// handleARP learns the sender and answers for the bridge and for IB nodes (proxy ARP, RFC 1027).
func (l *Loop) handleARP(w Worker, f frame.Frame) {
	a, fault := frame.ParseARP(f.Eth.Src(), f.Payload)
	if fault != "" {
		l.malformed(fault.Counter())
		return
	}
	if !a.IsProbe() {
		l.learn(a.SPA, a.SHA, vlanOf(f), 0)
	}
	if a.Op != frame.ARPRequest || a.IsGratuitous() || !l.mayAnswer(a.TPA) {
		l.count.NotForUs++
		return
	}
	if l.send(w, frame.AppendARPReply(nil, l.link, a)) {
		l.count.ARPAnswered++
	}
}

// isThere reports whether an address that the bridge answers for is really there: its own, or a node's that the subnet
// has, because the subnet administrator knows the path to it or because its LID is configured. For another node the
// bridge is silent: who is answered sends what would only be dropped, and does not look elsewhere; and who asks whether
// an address is free (RFC 5227 §2.1.1, RFC 4862 §5.4) gives it up. A drained bridge leaves all
// nodes to another one.
func (l *Loop) isThere(a netip.Addr) bool {
	_, _, found := l.tables.FindNode(a)
	return found && !l.drained || l.isOwn(a)
}

// mayAnswer reports whether a question for a is answered.
func (l *Loop) mayAnswer(a netip.Addr) bool {
	if !l.answersFor(a) {
		return false
	}
	there := l.isThere(a)
	if !there {
		l.count.NodesAbsent++
	}
	return there
}

// handleICMPv6 serves neighbour discovery and echo requests.
func (l *Loop) handleICMPv6(w Worker, f frame.Frame) {
	if len(f.Payload) > 0 && f.Payload[0] == frame.EchoRequest6 {
		l.handleEcho(w, f)
		return
	}
	nd, fault := frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload)
	switch {
	case fault == frame.NDType: // routers', and errors
		l.count.NotForUs++
	case fault != "":
		l.malformed(fault.Counter())
	case nd.Type == frame.NDSolicitation:
		l.solicited(w, f, nd)
	case !nd.LinkLayer.IsZero() && (nd.Override || !l.isElsewhere(nd.Target, nd.LinkLayer)):
		l.learn(nd.Target, nd.LinkLayer, vlanOf(f), 0)
	case nd.LinkLayer.IsZero() && l.isAt(nd.Target, f.Eth.Src()): // who is asked alone may leave it out (RFC 4861 §7.2.4)
		l.heard(nd.Target, time.Now())
	default:
		l.count.NotForUs++
	}
}

// solicited learns who asks, and answers for the bridge and for IB nodes (proxy ND, RFC 4861 §7.2.8).
func (l *Loop) solicited(w Worker, f frame.Frame, nd frame.NDFields) {
	if !f.Src().IsUnspecified() && !nd.LinkLayer.IsZero() {
		l.learn(f.Src(), nd.LinkLayer, vlanOf(f), 0)
	}
	if !l.mayAnswer(nd.Target) {
		l.count.NotForUs++
		return
	}
	if l.send(w, frame.AppendNA(nil, l.link, f.Eth.Src(), f.Src(), nd.Target)) {
		l.count.NDAnswered++
	}
}

// isElsewhere reports whether a host is known by another MAC address, which an advertisement without Override
// does not change (RFC 4861 §7.2.5).
func (l *Loop) isElsewhere(ip netip.Addr, mac frame.MAC) bool {
	h, _, known := l.tables.FindHost(ip)
	return known && frame.MAC(h.MAC) != mac
}

// isAt reports whether a host is known by this MAC address.
func (l *Loop) isAt(ip netip.Addr, mac frame.MAC) bool {
	h, _, known := l.tables.FindHost(ip)
	return known && frame.MAC(h.MAC) == mac
}

func vlanOf(f frame.Frame) uint16 {
	if f.Tag == nil {
		return 0
	}
	return f.Tag.VID()
}

// learn notes where a RoCE host is. A static entry wins, and nobody becomes a RoCE host by claiming the
// address of the bridge or of an IB node. A host that is known by another MAC address is asked there first. version 0:
// not known from this frame. It reports whether the claim stands, and else why not.
func (l *Loop) learn(ip netip.Addr, mac frame.MAC, vlan uint16, version uint8) (why Refusal, ok bool) {
	if mac == l.cfg.MAC { // an echo of the bridge's own
		return RefuseSource, false
	}
	data := version != 0
	if l.answersFor(ip) {
		l.spoofed(ip, mac, !data)
		return RefuseSource, false
	}
	old, _, known := l.tables.FindHost(ip)
	switch {
	case known && old.Static && old.MAC != mac:
		l.spoofed(ip, mac, false)
		return RefuseSource, false
	case known && old.Static:
		vlan = old.VLAN
	case !known && !data && !l.onLink(ip): // behind a router, only data tells
		return RefuseSource, false
	}
	if !data {
		version = max(old.Version, l.defaultVersion(known))
	}
	h, now := tables.Host{IP: ip, MAC: mac, VLAN: vlan, Version: version, Static: old.Static}, time.Now()
	switch {
	case known && old.MAC == mac:
		l.heard(ip, now)
	case known && l.onLink(ip): // routers may take turns
		l.contest(old, h, now)
		return RefuseSource, false
	}
	return l.noteHost(h, old, known, data)
}

// noteHost puts into the tables what has been learned, and counts it.
func (l *Loop) noteHost(h, old tables.Host, known, urgent bool) (why Refusal, ok bool) {
	if known && h == old {
		return 0, true
	}
	if err := l.putHost(h, known, urgent); err != nil {
		l.count.HostsRefused++
		if l.mayLog("host_refused", 1) {
			l.log.Warn("host_refused", "ip", h.IP, "mac", frame.MAC(h.MAC), "error", err)
		}
		return RefuseFull, false
	}
	now := time.Now()
	if !known {
		l.neighbours.Add(h.IP, now)
	}
	l.countLearned(h, old, known, now)
	return 0, true
}

// putHost puts a host into the tables. urgent: if there are as many as may be, one that was only heard of makes room, so
// that a flood of ARP does not keep out who has something to send. A worker may still hold the entry of the one that goes,
// so that its place is not free at once: that is what the tables' spare room is for.
func (l *Loop) putHost(h tables.Host, known, urgent bool) error {
	if !known && l.tables.LenHosts() >= l.cfg.MaxHosts && (!urgent || !l.forgetHost()) {
		return errHosts(l.cfg.MaxHosts)
	}
	_, err := l.tables.PutHost(h)
	return err
}

// forgetHost forgets a host that was only heard of, and reports whether there was one.
func (l *Loop) forgetHost() bool {
	for idle := range l.tables.AllHosts() {
		if !idle.Static && l.perHost[idle.IP] == 0 && l.dropHost(idle.IP) {
			l.count.HostsForgotten++
			return true
		}
	}
	return false
}

func (l *Loop) defaultVersion(known bool) uint8 {
	if known {
		return 0
	}
	return l.cfg.Version
}

func (l *Loop) countLearned(h, old tables.Host, known bool, now time.Time) {
	switch {
	case !known:
		l.count.HostsLearned++
		const most = 32 // a rack that is switched on
		if l.mayLog("host_learned", most) {
			l.log.Info("host_learned", "ip", h.IP, "mac", frame.MAC(h.MAC), "vlan", h.VLAN, "roce_version", h.Version)
		}
	case h.MAC != old.MAC:
		l.noteMove(h.IP, old.MAC, h.MAC, now)
	}
}

// onLink reports whether a is in a subnet of the bridge's, so that its MAC address is its own and not a
// router's. Link-local addresses are.
func (l *Loop) onLink(a netip.Addr) bool {
	if a.IsLinkLocalUnicast() {
		return true
	}
	for _, p := range l.cfg.Addresses {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
