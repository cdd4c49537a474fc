// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// host reads one [[host]].
func (p *parser) host(t *table) Host {
	var h Host
	readHostAddrs(t, &h)
	h.Side = Side(slices.Index(sideNames, t.text("side")))
	switch h.Side {
	case SideIB:
		rejectKeys(t, "roce", "mac", "vlan", "segment")
		readIBNode(t, &h)
	case SideRoCE:
		rejectKeys(t, "ib", "gid", "more_gids", "lid", "sl", "pkey", "bridge")
		h.MAC, h.HasMAC = readMAC(t)
		h.Port, h.VLAN = p.hostPlace(t)
	}
	return h
}

// rejectKeys reports keys that only a host of the other side has.
func rejectKeys(t *table, side string, names ...string) {
	for _, name := range names {
		if t.has(name) {
			t.fail(name, "%s is a key of hosts with side = %q; remove it, or change the side", name, side)
		}
	}
}

// readHostAddrs reads ip and ip6.
func readHostAddrs(t *table, h *Host) {
	if !t.has("ip") && !t.has("ip6") {
		t.fail("ip", `ip is missing; write ip = "10.9.0.7", or ip6 = "fd09::7"`)
		return
	}
	a, b := readHostAddr(t, "ip"), readHostAddr(t, "ip6")
	switch {
	case b.Is4():
		t.fail("ip6", "ip6 %s is an IPv4 address; write it as ip", b)
	case a.Is6() && t.has("ip6"):
		t.fail("ip", "ip %s is an IPv6 address, and ip6 is there too; write the IPv4 address as ip, or a [[host]] for each", a)
	case a.Is6():
		h.IP6 = a
	default:
		h.IP, h.IP6 = a, b
	}
}

// readHostAddr returns the address under a key; the zero Addr when it is missing or wrong.
func readHostAddr(t *table, name string) netip.Addr {
	s, ok := t.given(name)
	if !ok {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		t.fail(name, "%s %s is not an address; write one like %s", name, show(s), findKey(t.name, name).example)
	case a.IsMulticast():
		t.fail(name, "%s %s is a multicast group; write it under [[group]]", name, printable(s))
	case a.Is4In6():
		t.fail(name, "%s %s is an IPv4 address in IPv6 form; write %q", name, printable(s), a.Unmap().WithZone("").String())
	case !isHostAddr(a):
		t.fail(name, "%s %s is not an address that a host can have", name, printable(s))
	default:
		return a
	}
	return netip.Addr{}
}

// readIBNode reads the keys that only an IB node has.
func readIBNode(t *table, h *Host) {
	h.LID = ib.LID(t.number("lid"))
	h.SL = ib.SL(t.number("sl"))
	h.Bridge = t.truth("bridge")
	if t.has("pkey") {
		h.PKey = t.pkey("pkey")
	}
	if !t.has("gid") {
		t.fail("gid", `gid is missing; write the GID of the node's port: gid = "fe80::2:c903:0:7"`)
		return
	}
	h.GID = readGID(t, "that of the node's port")
	readMoreGIDs(t, h)
}

// readGID returns a port's GID; the zero GID when it is wrong. instead says what to write.
func readGID(t *table, instead string) ib.GID {
	s, ok := t.given("gid")
	if !ok {
		return ib.GID{}
	}
	g, err := ib.ParseGID(s)
	switch {
	case err != nil:
		t.fail("gid", `gid %s is not a GID; write it like "fe80::2:c903:0:7"`, show(s))
	case g.IsMulticast():
		t.fail("gid", "gid %s is a multicast GID; write %s", g, instead)
	case g.IsZero() || g.GUID() == 0:
		t.fail("gid", "gid %s has no GUID in its low 64 bits; write %s", g, instead)
	default:
		return g
	}
	return ib.GID{}
}

// readMAC reads the MAC address of a RoCE host.
func readMAC(t *table) (mac [6]byte, ok bool) {
	s, ok := t.given("mac")
	if !ok {
		return mac, false
	}
	b, err := net.ParseMAC(s)
	switch {
	case err != nil || len(b) != len(mac):
		t.fail("mac", `mac %s is not a MAC address; write it like "02:00:00:00:00:07"`, show(s))
		return mac, false
	case b[0]&1 != 0:
		t.fail("mac", "mac %s is a multicast or broadcast address; write the host's own", s)
		return mac, false
	case [6]byte(b) == mac:
		t.fail("mac", "mac %s is no host's; write the host's own", s)
		return mac, false
	}
	return [6]byte(b), true
}
