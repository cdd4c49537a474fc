// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"causeway/ibside/ib"
)

// mgidForms are the values of the key mgid, for messages.
const mgidForms = "rdmacm, ipoib, port, ib, or a literal MGID"

// An mgidForm derives MGIDs from group addresses.
type mgidForm struct {
	form  string
	pkey  ib.PKey
	scope uint8
	port  uint16
}

// readMGID returns the MGID of the group ip. It returns the zero GID after reporting a problem, and when ip is not
// valid, which has been reported.
func readMGID(t *table, ip netip.Addr, pkey ib.PKey) ib.GID {
	f, ok := readMGIDForm(t, pkey)
	if !ok {
		return ib.GID{}
	}
	g, err := f.of(ip)
	if err != nil {
		t.fail("mgid", "%v", err)
	}
	return g
}

// readMGIDForm reads the form that a table has, and reports keys that the form does not use.
func readMGIDForm(t *table, pkey ib.PKey) (f mgidForm, ok bool) {
	f = mgidForm{form: t.text("mgid"), pkey: pkey, scope: uint8(t.number("scope")), port: uint16(t.number("port"))}
	if _, ok := t.given("mgid"); !ok && t.has("mgid") {
		return f, false
	}
	switch {
	case f.form == "rdmacm" || f.form == "ipoib":
		rejectUnused(t, f.form, "port")
	case f.form == "port" && !t.has("port"):
		t.fail("mgid", `mgid "port" needs the UDP port that the group's applications use; write port = 4711`)
		return f, false
	case f.form == "port":
		rejectUnused(t, f.form, "scope")
	case f.form == "ib":
		rejectUnused(t, f.form, "scope")
		rejectUnused(t, f.form, "port")
	case strings.Contains(f.form, "{port}") && !t.has("port"):
		t.fail("mgid", "mgid %s has {port}, but there is no port; write port = 4711", show(f.form))
		return f, false
	case strings.Contains(f.form, "{"):
		for _, key := range []string{"port", "scope"} {
			if !strings.Contains(f.form, "{"+key+"}") {
				rejectUnused(t, "a template without {"+key+"}", key)
			}
		}
	default:
		rejectUnused(t, "a literal MGID", "scope")
		rejectUnused(t, "a literal MGID", "port")
	}
	return f, true
}

// rejectUnused reports a key that the form of MGID does not use.
func rejectUnused(t *table, form, name string) {
	if t.has(name) {
		t.fail(name, "%s has no part in the MGID when mgid is %s; remove it", name, form)
	}
}

// isFixed reports whether the form is the same MGID for every group.
func (f mgidForm) isFixed() bool {
	return !strings.Contains(f.form, "{ip") && !slices.Contains([]string{"rdmacm", "ipoib", "port", "ib"}, f.form)
}

// of returns the MGID of a group; the zero GID if ip is not valid. An error says what is wrong with the form.
func (f mgidForm) of(ip netip.Addr) (ib.GID, error) {
	switch {
	case strings.Contains(f.form, "{"):
		return f.fill(ip)
	case f.isFixed():
		return literalMGID(f.form, f.form)
	case !ip.IsValid():
		return ib.GID{}, nil
	case f.form == "rdmacm":
		return ib.MGIDRDMACM(ip, f.pkey, f.scope), nil
	case f.form == "ipoib":
		return ib.MGIDIPoIB(ip, f.pkey, f.scope), nil
	}
	return f.site(ip)
}

// MGID returns the MGID of a group in a form of the key [[group]] mgid.
func MGID(form string, ip netip.Addr, pkey ib.PKey, scope uint8, port uint16) (ib.GID, error) {
	return mgidForm{form: form, pkey: pkey, scope: scope, port: port}.of(ip)
}

// site returns one of the two site-local forms that carry an IPv4 group and no P_Key:
//
//	port  ff15:a01b:0:0:0:PPPP:gggg:gggg   UDP port, all 32 bits of the group
//	ib    ff15:4001:0:0:0:0:0ggg:gggg      the low 28 bits
func (f mgidForm) site(ip netip.Addr) (ib.GID, error) {
	if !ip.Is4() {
		return ib.GID{}, fmt.Errorf("mgid %q has room for an IPv4 group only; use rdmacm, ipoib, or a literal MGID", f.form)
	}
	g, a := ib.GID{0xff, 0x15}, ip.As4()
	copy(g[12:], a[:])
	if f.form == "port" {
		binary.BigEndian.PutUint16(g[2:], 0xa01b)
		binary.BigEndian.PutUint16(g[10:], f.port)
		return g, nil
	}
	binary.BigEndian.PutUint16(g[2:], 0x4001)
	g[12] &= 0x0f
	return g, nil
}

// fill replaces the placeholders of a template, each by hexadecimal digits of an IPv6 address.
func (f mgidForm) fill(ip netip.Addr) (ib.GID, error) {
	a := ip
	if !ip.IsValid() {
		a = netip.IPv6Unspecified() // the template is still checked
	}
	b := a.As16()
	low := binary.BigEndian.Uint32(b[12:])
	words := func(n uint32) string { return fmt.Sprintf("%x:%x", n>>16, n&0xffff) }
	filled := strings.NewReplacer(
		"{scope}", fmt.Sprintf("%x", f.scope),
		"{pkey}", fmt.Sprintf("%04x", uint16(f.pkey|0x8000)), // an MGID has the P_Key of a full member, even if a limited member joins
		"{port}", fmt.Sprintf("%04x", f.port),
		"{ip28}", words(low&0x0fffffff),
		"{ip32}", words(low),
		"{ip80}", fmt.Sprintf("%x:%x:%x:%s", b[6:8], b[8:10], b[10:12], words(low)),
	).Replace(f.form)
	if _, rest, bad := strings.Cut(filled, "{"); bad {
		name, _, _ := strings.Cut(rest, "}")
		return ib.GID{}, fmt.Errorf("mgid %s: the placeholder {%s} is not known; use {scope}, {pkey}, {port}, {ip28}, {ip32} or {ip80}",
			show(f.form), printable(name))
	}
	g, err := literalMGID(f.form, filled)
	if !ip.IsValid() {
		g = ib.GID{}
	}
	return g, err
}

// literalMGID parses an MGID. form is the value in the file, text the same with its placeholders replaced.
func literalMGID(form, text string) (ib.GID, error) {
	shown := show(form)
	if form != text {
		shown += ", which is " + printable(text) + " here,"
	}
	g, err := ib.ParseGID(text)
	switch {
	case err != nil && form == text && !strings.Contains(form, ":"):
		return ib.GID{}, fmt.Errorf("mgid %s is not known; use %s", shown, mgidForms)
	case err != nil:
		return ib.GID{}, fmt.Errorf("mgid %s is not a GID; use %s", shown, mgidForms)
	case !g.IsIBMulticast():
		return ib.GID{}, fmt.Errorf("mgid %s is not a multicast GID; InfiniBand's begin with ff, such as ff12:4001:ffff::f01:203", shown)
	case isBroadcastMGID(g):
		return ib.GID{}, fmt.Errorf("mgid %s is IPoIB's broadcast group, which never crosses; use that of a group of your own", shown)
	case isIPoIBControl(g):
		return ib.GID{}, fmt.Errorf("mgid %s is IPoIB's form of a link-local control group, which never crosses; use that of a group of your own", shown)
	}
	return g, nil
}

// isIPoIBControl reports whether g is IPoIB's form (RFC 4391 §4) of 224.0.0.0/24, or of the IPv6 groups of all nodes, all routers,
// all MLDv2 routers, or those that are solicited (RFC 4291 §2.7.1).
func isIPoIBControl(g ib.GID) bool {
	switch {
	case g[1]&0xf0 != 0x10:
		return false
	case g[2] == 0x40 && g[3] == 0x1b:
		return [9]byte(g[6:15]) == [9]byte{}
	case g[2] == 0x60 && g[3] == 0x1b:
		wellKnown := [9]byte(g[6:15]) == [9]byte{} && (g[15] <= 2 || g[15] == 0x16)
		return wellKnown || [7]byte(g[6:13]) == [7]byte{5: 1, 6: 0xff}
	}
	return false
}

// isBroadcastMGID reports whether g is ff1S:401b:PPPP::ffff:ffff (RFC 4391 §4).
func isBroadcastMGID(g ib.GID) bool {
	return g[1]&0xf0 == 0x10 && g[2] == 0x40 && g[3] == 0x1b && [10]byte(g[6:]) == [10]byte{6: 0xff, 0xff, 0xff, 0xff}
}
