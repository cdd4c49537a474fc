// SPDX-License-Identifier: Apache-2.0

// Package local is the bridge's own addresses on the RoCE side.
package local

import (
	"encoding/binary"
	"net/netip"

	"causeway/lcore/frame"
)

// Addresses are the bridge's own addresses. They do not change.
type Addresses struct {
	Link  frame.Link // its MAC address and VLAN
	IPs   []netip.Prefix
	Fleet Fleet // nil: the bridge is alone
}

// A Fleet says which of several bridges a station reaches IB nodes by.
type Fleet interface {
	// MACFor returns the MAC address that nodes have for a station, and whether this bridge has it now.
	MACFor(station frame.MAC) (mac frame.MAC, own bool)
	// Has reports whether such a MAC address is one that this bridge has now.
	Has(mac frame.MAC) bool
}

// NodesLink returns the link by which a station reaches IB nodes, and whether it is this bridge's.
func (l *Addresses) NodesLink(station frame.MAC) (link frame.Link, own bool) {
	link = l.Link
	if l.Fleet == nil {
		return link, true
	}
	link.MAC, own = l.Fleet.MACFor(station)
	return link, own
}

// Has reports whether a is an address of the bridge.
func (l *Addresses) Has(a netip.Addr) bool {
	for _, p := range l.IPs {
		if p.Addr() == a {
			return true
		}
	}
	return a.IsLinkLocalUnicast() && a == l.LinkLocal()
}

// LinkLocal returns the bridge's link-local address, which is made of its MAC address.
func (l *Addresses) LinkLocal() netip.Addr { return l.Link.MAC.LinkLocal() }

// First4 returns the bridge's first IPv4 address; the zero Addr when it has none.
func (l *Addresses) First4() netip.Addr {
	for _, p := range l.IPs {
		if p.Addr().Is4() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// Toward returns the bridge's address in the subnet of a, or otherwise when it has none there.
func (l *Addresses) Toward(a, otherwise netip.Addr) netip.Addr {
	for _, p := range l.IPs {
		if p.Contains(a) {
			return p.Addr()
		}
	}
	return otherwise
}

// IsBroadcast reports whether a is the broadcast address of one of the bridge's subnets, which no host has.
func (l *Addresses) IsBroadcast(a netip.Addr) bool {
	for _, p := range l.IPs {
		if !a.Is4() || !p.Contains(a) || p.Bits() > 30 { // RFC 3021
			continue
		}
		hosts := ^uint32(0) >> p.Bits()
		if b := a.As4(); binary.BigEndian.Uint32(b[:])&hosts == hosts {
			return true
		}
	}
	return false
}

// OnLink reports whether a is link-local or in a subnet of the bridge's, so that its MAC address is its own and not a
// router's.
func (l *Addresses) OnLink(a netip.Addr) bool {
	if a.IsLinkLocalUnicast() {
		return true
	}
	for _, p := range l.IPs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
