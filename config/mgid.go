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

// mgidForms are the words that stand for an MGID made from the group's address.
const mgidForms = "rdmacm, ipoib, port, ib, or a literal MGID"

// An mgidForm makes the MGID of any group.
type mgidForm struct {
	form  string
	pkey  ib.PKey
	scope uint8
	port  uint16
}

// mgid returns the MGID of the group ip. It returns the zero GID when that cannot be told, after
// reporting why, or silently when ip is not valid: that has been reported.
func (t *table) mgid(ip netip.Addr, pkey ib.PKey) ib.GID {
	f, ok := t.mgidForm(pkey)
	if !ok {
		return ib.GID{}
	}
	g, err := f.of(ip)
	if err != nil {
		t.fail("mgid", "%v", err)
	}
	return g
}

// mgidForm reads the form that a table names, and reports keys that have no part in it.
func (t *table) mgidForm(pkey ib.PKey) (f mgidForm, ok bool) {
	f = mgidForm{form: t.text("mgid"), pkey: pkey, scope: uint8(t.number("scope")), port: uint16(t.number("port"))}
	if t.mistypedText("mgid") {
		return f, false
	}
	switch {
	case f.form == "rdmacm" || f.form == "ipoib":
		t.unused(f.form, "port")
	case f.form == "port" && !t.has("port"):
		t.fail("mgid", `mgid "port" needs the UDP port that the group's applications use; write port = 4711`)
		return f, false
	case f.form == "port":
		t.unused(f.form, "scope")
	case f.form == "ib":
		t.unused(f.form, "scope")
		t.unused(f.form, "port")
	case strings.Contains(f.form, "{port}") && !t.has("port"):
		t.fail("mgid", "mgid %s has {port}, but there is no port; write port = 4711", show(f.form))
		return f, false
	case strings.Contains(f.form, "{"):
		for _, key := range []string{"port", "scope"} {
			if !strings.Contains(f.form, "{"+key+"}") {
				t.unused("a template without {"+key+"}", key)
			}
		}
	default:
		t.unused("a literal MGID", "scope")
		t.unused("a literal MGID", "port")
	}
	return f, true
}

// unused reports a key that has no part in this form of MGID.
func (t *table) unused(form, name string) {
	if t.has(name) {
		t.fail(name, "%s has no part in the MGID when mgid is %s; remove it", name, form)
	}
}

// isFixed reports whether the form is one MGID, whatever the group.
func (f mgidForm) isFixed() bool {
	return !strings.Contains(f.form, "{ip") && !slices.Contains([]string{"rdmacm", "ipoib", "port", "ib"}, f.form)
}

// of returns the MGID of a group; the zero GID of one that is not valid, unless the form itself is wrong.
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

// MGID returns the MGID of a group in one of the forms that [[group]] mgid knows.
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

// fill fills in a template. Each placeholder stands for hexadecimal digits of an IPv6 address.
func (f mgidForm) fill(ip netip.Addr) (ib.GID, error) {
	a := ip
	if !ip.IsValid() {
		a = netip.IPv6Unspecified() // check the template all the same
	}
	b := a.As16()
	low := binary.BigEndian.Uint32(b[12:])
	words := func(n uint32) string { return fmt.Sprintf("%x:%x", n>>16, n&0xffff) }
	filled := strings.NewReplacer(
		"{scope}", fmt.Sprintf("%x", f.scope),
		"{pkey}", fmt.Sprintf("%04x", uint16(f.pkey|0x8000)), // an MGID has the full member's, whoever joins
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

// literalMGID reads an MGID; form is what the file has, text the same with its placeholders filled in.
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
	}
	return g, nil
}

// isBroadcastMGID reports whether g is ff1S:401b:PPPP::ffff:ffff (RFC 4391 §4).
func isBroadcastMGID(g ib.GID) bool {
	return g[1]&0xf0 == 0x10 && g[2] == 0x40 && g[3] == 0x1b && [10]byte(g[6:]) == [10]byte{6: 0xff, 0xff, 0xff, 0xff}
}
