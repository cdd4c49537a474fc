// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// lladdr is that of the port fe80::2:c903:0:22, as Linux shows it.
const lladdr = "80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:22"

// TestChange checks what each message of the kernel's says.
func TestChange(t *testing.T) {
	mac, err := net.ParseMAC(lladdr)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := ib.ParseGID("fe80::2:c903:0:22")
	ip4, ip6 := netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("fd09::7")
	broadcast := append(append(net.HardwareAddr{}, mac[:gidAt]...), net.ParseIP("ff12:401b:ffff::ffff:ffff")...)
	of := func(ip string, state int, mac net.HardwareAddr) netlink.Neigh {
		n := netlink.Neigh{LinkIndex: 3, Family: unix.AF_INET, IP: net.ParseIP(ip), State: state, HardwareAddr: mac}
		if n.IP.To4() == nil {
			n.Family = unix.AF_INET6
		}
		return n
	}
	elsewhere := of("10.9.0.7", netlink.NUD_REACHABLE, mac)
	elsewhere.LinkIndex = 4
	bridges := of("10.9.0.7", netlink.NUD_REACHABLE, mac)
	bridges.Family = unix.AF_BRIDGE
	for _, c := range []struct {
		name    string
		kind    uint16
		neigh   netlink.Neigh
		want    ibside.AddressChange
		ignored bool
	}{
		{"an answer", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_REACHABLE, mac), ibside.AddressChange{IP: ip4, GID: port, Answered: true}, false},
		{"of IPv6", unix.RTM_NEWNEIGH, of("fd09::7", netlink.NUD_REACHABLE, mac), ibside.AddressChange{IP: ip6, GID: port, Answered: true}, false},
		{"by hand", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_PERMANENT, mac), ibside.AddressChange{IP: ip4, GID: port, Answered: true}, false},
		{"old", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_STALE, mac), ibside.AddressChange{IP: ip4, GID: port}, false},
		{"asked again", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_PROBE, mac), ibside.AddressChange{IP: ip4, GID: port}, false},
		{"asked", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_INCOMPLETE, nil), ibside.AddressChange{IP: ip4}, false},
		{"silent", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_FAILED, nil), ibside.AddressChange{IP: ip4, Failed: true}, false},
		{"silent, and once known", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_FAILED, mac), ibside.AddressChange{IP: ip4, Failed: true}, false},
		{"deleted", unix.RTM_DELNEIGH, of("10.9.0.7", netlink.NUD_STALE, mac), ibside.AddressChange{IP: ip4}, false},
		{"a MAC address", unix.RTM_NEWNEIGH, of("10.9.0.7", netlink.NUD_REACHABLE, mac[:6]), ibside.AddressChange{IP: ip4}, false},
		{"a group's address", unix.RTM_NEWNEIGH, of("10.9.0.255", netlink.NUD_REACHABLE, broadcast),
			ibside.AddressChange{IP: netip.MustParseAddr("10.9.0.255")}, false},
		{"a group", unix.RTM_NEWNEIGH, of("224.0.0.22", netlink.NUD_NOARP, broadcast), ibside.AddressChange{}, true},
		{"link-local", unix.RTM_NEWNEIGH, of("fe80::7", netlink.NUD_REACHABLE, mac), ibside.AddressChange{}, true},
		{"on another interface", unix.RTM_NEWNEIGH, elsewhere, ibside.AddressChange{}, true},
		{"of a bridge's table", unix.RTM_NEWNEIGH, bridges, ibside.AddressChange{}, true},
	} {
		n := &Neighbours{gidOf: gidOf}
		got, ok := n.changeOf(3, &netlink.NeighUpdate{Type: c.kind, Neigh: c.neigh})
		if got != c.want || ok == c.ignored {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, ok, c.want)
		}
	}
}
