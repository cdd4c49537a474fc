// SPDX-License-Identifier: Apache-2.0

package local_test

import (
	"net/netip"
	"testing"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
)

func TestAddresses(t *testing.T) {
	ip := netip.MustParseAddr
	l := local.Addresses{
		Link: frame.Link{MAC: frame.MAC{2, 0, 0, 0, 0, 1}},
		IPs:  []netip.Prefix{netip.MustParsePrefix("fd09::fe/64"), netip.MustParsePrefix("10.9.0.254/24"), netip.MustParsePrefix("10.8.0.254/24")},
	}
	none := netip.IPv4Unspecified()
	for _, c := range []struct {
		a           string
		has, onLink bool
		toward      netip.Addr
	}{
		{"10.9.0.254", true, true, ip("10.9.0.254")},
		{"10.9.0.1", false, true, ip("10.9.0.254")},
		{"10.8.0.1", false, true, ip("10.8.0.254")},
		{"192.0.2.1", false, false, none},
		{"fd09::1", false, true, ip("fd09::fe")},
		{"fe80::ff:fe00:1", true, true, none},
		{"fe80::1", false, true, none},
		{"2001:db8::1", false, false, none},
	} {
		a := ip(c.a)
		if l.Has(a) != c.has || l.OnLink(a) != c.onLink || l.Toward(a, none) != c.toward {
			t.Errorf("%v: own %t, on link %t, asked from %v", a, l.Has(a), l.OnLink(a), l.Toward(a, none))
		}
	}
	for a, want := range map[string]bool{"10.9.0.255": true, "10.8.0.255": true, "10.9.0.1": false, "10.9.1.255": false, "fd09::ffff:ffff:ffff:ffff": false} {
		if l.IsBroadcast(ip(a)) != want {
			t.Errorf("%s is a broadcast address: %t", a, !want)
		}
	}
	if (&local.Addresses{IPs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/31")}}).IsBroadcast(ip("10.9.0.1")) {
		t.Error("a subnet of two addresses has a broadcast address")
	}
	if l.First4() != ip("10.9.0.254") || (&local.Addresses{}).First4().IsValid() {
		t.Errorf("the first IPv4 address is %v", l.First4())
	}
	l.Link.MAC = frame.MAC{2, 0, 0, 0, 0, 1}
	if l.LinkLocal() != ip("fe80::ff:fe00:1") {
		t.Errorf("the link-local address is %v", l.LinkLocal())
	}
}
