// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net/netip"
	"strings"
	"testing"

	"causeway/ibside/ib"
)

func gid(s string) ib.GID { return ib.GIDFromAddr(netip.MustParseAddr(s)) }

// roceGIDs is the GID table of a RoCE port with two IPv4 addresses and an IPv6 one, each in both versions, as the
// kernel fills it.
var roceGIDs = []GIDEntry{
	{gid("fe80::5054:ff:fe00:1"), 0, GIDTypeRoCEv1, 2}, {gid("fe80::5054:ff:fe00:1"), 1, GIDTypeRoCEv2, 2},
	{gid("10.8.0.3"), 2, GIDTypeRoCEv1, 2}, {gid("10.8.0.3"), 3, GIDTypeRoCEv2, 2},
	{gid("fd08::3"), 4, GIDTypeRoCEv1, 2}, {gid("fd08::3"), 5, GIDTypeRoCEv2, 2},
	{gid("10.9.0.3"), 6, GIDTypeRoCEv1, 2}, {gid("10.9.0.3"), 7, GIDTypeRoCEv2, 2},
	{gid("10.7.0.3"), 256, GIDTypeRoCEv2, 2},
}

var infiniBandGIDs = []GIDEntry{{gid("fe80::2:c903:0:7"), 0, GIDTypeIB, 0}, {gid("fe80::2:c903:0:8"), 1, GIDTypeIB, 0}}

func TestOwnGID(t *testing.T) {
	for _, c := range []struct {
		name     string
		gids     []GIDEntry
		ethernet bool
		want     ib.GID // configured
		own      string
		err      string
	}{
		{"the first IPv4 address", roceGIDs, true, ib.GID{}, "10.8.0.3", ""},
		{"configured", roceGIDs, true, gid("fd08::3"), "fd08::3", ""},
		{"configured, but not there", roceGIDs, true, gid("10.8.0.4"), "", "no GID ::ffff:10.8.0.4"},
		{"configured, but beyond what verbs can name", roceGIDs, true, gid("10.7.0.3"), "", "no GID ::ffff:10.7.0.3"},
		{"no IPv4: not the link-local one", roceGIDs[:6:6][4:], true, ib.GID{}, "fd08::3", ""},
		{"link-local only", roceGIDs[:2], true, ib.GID{}, "fe80::5054:ff:fe00:1", ""},
		{"RoCE v1 only", roceGIDs[:1], true, ib.GID{}, "", "give its network interface an IP address"},
		{"InfiniBand", infiniBandGIDs, false, ib.GID{}, "fe80::2:c903:0:7", ""},
		{"none", nil, false, ib.GID{}, "", "no GID to send from"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ownGID(c.gids, c.ethernet, c.want)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || got != gid(c.own) {
				t.Errorf("%v, %v, want %s", got, err, c.own)
			}
		})
	}
}

func TestSourceIndex(t *testing.T) {
	for _, c := range []struct {
		name     string
		gids     []GIDEntry
		ethernet bool
		want     string
		dgid     string
		index    int
		ok       bool
	}{
		{"own", roceGIDs, true, "10.8.0.3", "10.8.0.200", 3, true},
		{"own, though another is nearer", roceGIDs, true, "10.8.0.3", "10.9.0.200", 3, true},
		{"IPv6", roceGIDs, true, "10.8.0.3", "fd08::200", 5, true},
		{"link-local", roceGIDs, true, "10.8.0.3", "fe80::1", 1, true},
		{"IPv4 group", roceGIDs, true, "10.8.0.3", "239.1.2.3", 3, true},
		{"no IPv4 address", roceGIDs[4:6], true, "10.8.0.3", "10.8.0.200", 0, false},
		{"nearest, own gone", roceGIDs[4:], true, "10.8.0.3", "10.9.0.200", 7, true},
		{"none below 256", roceGIDs[8:], true, "10.8.0.3", "10.7.0.200", 0, false},
		{"a source of one's own", roceGIDs, true, "10.9.0.3", "10.8.0.200", 7, true},
		{"a source of one's own, of another version", roceGIDs, true, "fd08::3", "10.8.0.200", 3, true},
		{"a source of one's own, beyond what verbs can name", roceGIDs, true, "10.7.0.3", "10.8.0.200", 3, true},
		{"InfiniBand", infiniBandGIDs, false, "fe80::2:c903:0:7", "fe80::9", 0, true},
		{"InfiniBand alias", infiniBandGIDs, false, "fe80::2:c903:0:8", "fe80::9", 1, true},
		{"InfiniBand group", infiniBandGIDs, false, "fe80::2:c903:0:7", "ff12:401b:ffff::1", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := gid("10.8.0.3")
			if !c.ethernet {
				own = infiniBandGIDs[0].GID
			}
			index, ok := sourceIndex(c.gids, c.ethernet, gid(c.want), own, gid(c.dgid))
			if ok != c.ok || ok && index != c.index {
				t.Errorf("%d, %v, want %d, %v", index, ok, c.index, c.ok)
			}
		})
	}
}

func TestLinkMbps(t *testing.T) {
	for _, c := range []struct {
		width, speed uint8
		want         int
	}{{2, 1, 10000}, {2, 4, 40000}, {2, 16, 56000}, {2, 32, 100000}, {2, 64, 200000}, {2, 128, 400000}, {16, 128, 200000}, {8, 32, 300000}, {2, 0, 0}, {3, 1, 0}} {
		if got := linkMbps(c.width, c.speed); got != c.want {
			t.Errorf("width %d, speed %d: %d Mb/s, want %d", c.width, c.speed, got, c.want)
		}
	}
}
