// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"causeway/ibside/ib"
)

// mgidForms are the words that stand for an MGID made from the group's address.
const mgidForms = "rdmacm, ipoib, port, ib, or a literal MGID"

// mgid returns the MGID of the group ip. It returns the zero GID when that cannot be told, after
// reporting why, or silently when ip is not valid: that has been reported.
func (t *table) mgid(ip netip.Addr, pkey ib.PKey) ib.GID {
	form, scope := t.text("mgid"), uint8(t.number("scope"))
	if t.mistypedText("mgid") {
		return ib.GID{}
	}
	switch form {
	case "rdmacm", "ipoib":
		t.unused(form, "port")
		if !ip.IsValid() {
			return ib.GID{}
		}
		if form == "rdmacm" {
			return ib.MGIDRDMACM(ip, pkey, scope)
		}
		return ib.MGIDIPoIB(ip, pkey, scope)
	case "port", "ib":
		t.unused(form, "scope")
		if form == "ib" {
			t.unused(form, "port")
		}
		return t.siteMGID(form, ip)
	}
	if strings.Contains(form, "{") {
		return t.templateMGID(form, ip, pkey, scope)
	}
	t.unused("a literal MGID", "scope")
	t.unused("a literal MGID", "port")
	return t.literalMGID(form, form)
}

// unused reports a key that has no part in this form of MGID.
func (t *table) unused(form, name string) {
	if t.has(name) {
		t.fail(name, "%s has no part in the MGID when mgid is %s; remove it", name, form)
	}
}

// siteMGID returns one of the two site-local forms that carry an IPv4 group and no P_Key:
//
//	port  ff15:a01b:0:0:0:PPPP:gggg:gggg   UDP port, all 32 bits of the group
//	ib    ff15:4001:0:0:0:0:0ggg:gggg      the low 28 bits
func (t *table) siteMGID(form string, ip netip.Addr) ib.GID {
	if form == "port" && !t.has("port") {
		t.fail("mgid", `mgid "port" needs the UDP port that the group's applications use; write port = 4711`)
		return ib.GID{}
	}
	if !ip.IsValid() {
		return ib.GID{}
	}
	if !ip.Is4() {
		t.fail("mgid", "mgid %q has room for an IPv4 group only; use rdmacm, ipoib, or a literal MGID", form)
		return ib.GID{}
	}
	g, a := ib.GID{0xff, 0x15}, ip.As4()
	copy(g[12:], a[:])
	if form == "port" {
		binary.BigEndian.PutUint16(g[2:], 0xa01b)
		binary.BigEndian.PutUint16(g[10:], uint16(t.number("port")))
		return g
	}
	binary.BigEndian.PutUint16(g[2:], 0x4001)
	g[12] &= 0x0f
	return g
}

// templateMGID fills in a template. Each placeholder stands for hexadecimal digits of an IPv6 address.
func (t *table) templateMGID(form string, ip netip.Addr, pkey ib.PKey, scope uint8) ib.GID {
	if strings.Contains(form, "{port}") && !t.has("port") {
		t.fail("mgid", "mgid %s has {port}, but there is no port; write port = 4711", show(form))
		return ib.GID{}
	}
	if !strings.Contains(form, "{port}") {
		t.unused("a template without {port}", "port")
	}
	if !strings.Contains(form, "{scope}") {
		t.unused("a template without {scope}", "scope")
	}
	a := ip
	if !ip.IsValid() {
		a = netip.IPv6Unspecified() // check the template all the same
	}
	b := a.As16()
	low := binary.BigEndian.Uint32(b[12:])
	words := func(n uint32) string { return fmt.Sprintf("%x:%x", n>>16, n&0xffff) }
	filled := strings.NewReplacer(
		"{scope}", fmt.Sprintf("%x", scope),
		"{pkey}", fmt.Sprintf("%04x", uint16(pkey|0x8000)), // an MGID has the full member's, whoever joins
		"{port}", fmt.Sprintf("%04x", t.number("port")),
		"{ip28}", words(low&0x0fffffff),
		"{ip32}", words(low),
		"{ip80}", fmt.Sprintf("%x:%x:%x:%s", b[6:8], b[8:10], b[10:12], words(low)),
	).Replace(form)
	if _, rest, bad := strings.Cut(filled, "{"); bad {
		name, _, _ := strings.Cut(rest, "}")
		t.fail("mgid", "mgid %s: the placeholder {%s} is not known; use {scope}, {pkey}, {port}, {ip28}, {ip32} or {ip80}",
			show(form), printable(name))
		return ib.GID{}
	}
	g := t.literalMGID(form, filled)
	if !ip.IsValid() {
		return ib.GID{}
	}
	return g
}

// literalMGID reads an MGID; form is what the file has, text the same with its placeholders filled in.
func (t *table) literalMGID(form, text string) ib.GID {
	shown := show(form)
	if form != text {
		shown += ", which is " + printable(text) + " here,"
	}
	g, err := ib.ParseGID(text)
	switch {
	case err != nil && form == text && !strings.Contains(form, ":"):
		t.fail("mgid", "mgid %s is not known; use %s", shown, mgidForms)
	case err != nil:
		t.fail("mgid", "mgid %s is not a GID; use %s", shown, mgidForms)
	case !g.IsIBMulticast():
		t.fail("mgid", "mgid %s is not a multicast GID; InfiniBand's begin with ff, such as ff12:4001:ffff::f01:203", shown)
	case isBroadcastMGID(g):
		t.fail("mgid", "mgid %s is IPoIB's broadcast group, which never crosses; use that of a group of your own", shown)
	default:
		return g
	}
	return ib.GID{}
}

// isBroadcastMGID reports whether g is ff1S:401b:PPPP::ffff:ffff (RFC 4391 §4).
func isBroadcastMGID(g ib.GID) bool {
	return g[1]&0xf0 == 0x10 && g[2] == 0x40 && g[3] == 0x1b && [10]byte(g[6:]) == [10]byte{6: 0xff, 0xff, 0xff, 0xff}
}
