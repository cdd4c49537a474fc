// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"

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
	// A probe asks whether an address is free: for the ones answered here it is not.
	if a.Op != frame.ARPRequest || a.IsGratuitous() || !l.answersFor(a.TPA) {
		l.count.NotForUs++
		return
	}
	l.count.ARPAnswered++
	l.send(w, frame.AppendARPReply(nil, l.link, a))
}

// handleICMPv6 serves neighbour discovery and echo requests.
func (l *Loop) handleICMPv6(w Worker, f frame.Frame) {
	if len(f.Payload) > 0 && f.Payload[0] == echoRequest6 {
		l.handleEcho(w, f)
		return
	}
	nd, fault := frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload)
	if fault != "" {
		l.malformed(fault.Counter())
		return
	}
	switch nd.Type {
	case frame.NDSolicitation:
		if !f.Src().IsUnspecified() && !nd.LinkLayer.IsZero() {
			l.learn(f.Src(), nd.LinkLayer, vlanOf(f), 0)
		}
		if !l.answersFor(nd.Target) {
			l.count.NotForUs++
			return
		}
		l.count.NDAnswered++
		l.send(w, frame.AppendNA(nil, l.link, f.Eth.Src(), f.Src(), nd.Target))
	case frame.NDAdvertisement:
		if !nd.LinkLayer.IsZero() {
			l.learn(nd.Target, nd.LinkLayer, vlanOf(f), 0)
		}
	}
}

func vlanOf(f frame.Frame) uint16 {
	if f.Tag == nil {
		return 0
	}
	return f.Tag.VID()
}

// learn notes where a RoCE host is. A static entry wins, and nobody becomes a RoCE host by claiming the
// address of the bridge or of an IB node. version 0: not known from this frame. It reports whether the
// claim stands.
func (l *Loop) learn(ip netip.Addr, mac frame.MAC, vlan uint16, version uint8) bool {
	if l.answersFor(ip) {
		if mac != l.cfg.MAC {
			l.count.Spoofs++
		}
		return false
	}
	old, _, known := l.tables.FindHost(ip)
	if known && old.Static {
		if old.MAC != mac {
			l.count.Spoofs++
			return false
		}
		mac, vlan = old.MAC, old.VLAN
	}
	if !known && version == 0 && !l.onLink(ip) { // behind a router, only data tells
		return false
	}
	if version == 0 {
		version = max(old.Version, l.defaultVersion(known))
	}
	h := tables.Host{IP: ip, MAC: mac, VLAN: vlan, Version: version, Static: old.Static}
	if known && h == old {
		return true
	}
	if _, err := l.tables.PutHost(h); err != nil {
		l.log.Warn("host_refused", "ip", ip, "mac", mac, "error", err)
		return false
	}
	l.countLearned(h, old, known)
	return true
}

func (l *Loop) defaultVersion(known bool) uint8 {
	if known {
		return 0
	}
	return l.cfg.Version
}

func (l *Loop) countLearned(h, old tables.Host, known bool) {
	switch {
	case !known:
		l.count.HostsLearned++
		l.log.Info("host_learned", "ip", h.IP, "mac", frame.MAC(h.MAC), "vlan", h.VLAN, "roce_version", h.Version)
	case h.MAC != old.MAC:
		l.count.HostsMoved++
		l.log.Info("host_moved", "ip", h.IP, "from", frame.MAC(old.MAC), "to", frame.MAC(h.MAC))
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
