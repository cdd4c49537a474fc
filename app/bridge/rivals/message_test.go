// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// samples are one message of each kind.
var samples = []message{
	{what: ask, flags: wants | allows, from: 1, to: 2, nonce: 3, came: 4, digest: 5, number: 6, macs: []frame.MAC{{2, 1}, {2, 2}}},
	{what: answer, flags: carries, from: 1 << 63, to: 2, nonce: 3, name: "one", fleet: "prod"},
	{what: answer, name: strings.Repeat("n", mostName), fleet: strings.Repeat("f", mostName)},
	{what: wish, from: 1, to: 2, digest: 5, number: 7, echo: 9},
	{what: told, number: 8, claims: slices.Repeat([]claim{{kind: group, dirs: config.Both, vlan: 7, port: 5000, bits: 128, ip: netip.MustParseAddr("239.1.2.3").As16(), mgid: ib.GID{0xff}}}, mostTold)},
}

// TestMessages: what is sealed is opened, fits, and is nothing when it is cut or longer.
func TestMessages(t *testing.T) {
	for _, m := range samples {
		b := m.seal()
		if len(b) > ib.BridgeDataLen {
			t.Errorf("%+v has %d bytes", m, len(b))
		}
		if got, ok := open(b); !ok || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v became %+v, %v", m, got, ok)
		}
		for n := range b {
			if got, ok := open(b[:n]); ok {
				t.Errorf("%d of %d bytes are %+v", n, len(b), got)
			}
		}
		if got, ok := open(append(b, 0)); ok {
			t.Errorf("one byte more is %+v", got)
		}
		b[1]++
		if _, ok := open(b); ok {
			t.Error("another version is read")
		}
	}
	for first := range 256 { // BFD's version is in the first three bits
		if IsMessage([]byte{byte(first)}) && first>>5 == 1 {
			t.Errorf("%#x is a fleet's", first)
		}
	}
}

// FuzzOpen: nothing that comes does harm, and what is taken can be said again.
func FuzzOpen(f *testing.F) {
	for _, m := range samples {
		f.Add(m.seal())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := open(b)
		if !ok {
			return
		}
		if again := m.seal(); !bytes.Equal(again, b) {
			t.Errorf("% x became % x", b, again)
		}
		for _, c := range m.claims {
			_ = fmt.Sprint(c, c.meets(&c), set{c}.overlap(m.claims))
		}
	})
}

// TestClaims: what two bridges have in common.
func TestClaims(t *testing.T) {
	both, toIB, toRoCE := config.Both, config.ToIB, config.ToRoCE
	ip := func(s string) [16]byte { return netip.MustParseAddr(s).As16() }
	g := claim{kind: group, dirs: both, bits: 128, ip: ip("239.1.2.3"), mgid: ib.GID{0xff, 1}}
	with := func(c claim, f func(*claim)) claim { f(&c); return c }
	r := claim{kind: ranged, dirs: both, bits: 96 + 16, ip: ip("239.1.0.0")}
	n := claim{kind: node, bits: 128, ip: ip("10.9.0.7")}
	for _, c := range []struct {
		name string
		a, b claim
		want bool
	}{
		{"the same group", g, g, true},
		{"another address", g, with(g, func(c *claim) { c.ip[15]++ }), false},
		{"another MGID", g, with(g, func(c *claim) { c.mgid[15]++ }), false},
		{"another VLAN", g, with(g, func(c *claim) { c.vlan = 5 }), false},
		{"another UDP port", g, with(g, func(c *claim) { c.port = 5 }), false},
		{"other directions", with(g, func(c *claim) { c.dirs = toIB }), with(g, func(c *claim) { c.dirs = toRoCE }), false},
		{"one direction of both", with(g, func(c *claim) { c.dirs = toIB }), g, true},
		{"a group of a range", g, r, true},
		{"a group beside a range", with(g, func(c *claim) { c.ip = ip("239.2.2.3") }), r, false},
		{"a range in a range", r, with(r, func(c *claim) { c.bits = 96 + 24 }), true},
		{"a range beside a range", r, with(r, func(c *claim) { c.ip = ip("239.2.0.0") }), false},
		{"a range of another VLAN", r, with(r, func(c *claim) { c.vlan = 5 }), false},
		{"a range of IPv6", claim{kind: ranged, dirs: both, bits: 16, ip: ip("ff1e::")}, claim{kind: ranged, dirs: both, bits: 32, ip: ip("ff1e:1::")}, true},
		{"the same node", n, n, true},
		{"another node", n, with(n, func(c *claim) { c.ip[15]++ }), false},
		{"a node and a group", n, with(g, func(c *claim) { c.ip = n.ip; c.mgid = n.mgid }), false},
		{"one learns nodes, and another has one", n, claim{kind: learns}, true},
		{"both learn nodes", claim{kind: learns}, claim{kind: learns}, true},
		{"both have alias GUIDs", claim{kind: aliases}, claim{kind: aliases}, true},
		{"no prefix", with(r, func(c *claim) { c.bits = 5 }), r, false},
	} {
		if c.a.meets(&c.b) != c.want || c.b.meets(&c.a) != c.want {
			t.Errorf("%s: %v and %v meet: %v", c.name, c.a, c.b, !c.want)
		}
		if got := newSet([]claim{c.a}).overlap(newSet([]claim{c.b, {kind: node}})); (len(got) == 1) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	names := set{with(g, func(c *claim) { c.vlan, c.port = 7, 5000 }), r, n, {kind: learns}, {kind: aliases}}.named(4)
	if want := []string{"group 239.1.2.3 port 5000 in VLAN 7", "range 239.1.0.0/16", "node 10.9.0.7", `nodes = "learn"`, "1 more"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
