// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"causeway/lcore/frame"
)

// solicitation is a node's, with link-layer addresses of a length.
func solicitation(of, by netip.Addr, from net.HardwareAddr) []byte {
	to := solicitedNode(of)
	m := append([]byte{ndSolicitation, 0, 0, 0, 0, 0, 0, 0}, of.AsSlice()...)
	m = append(m, 14, 1, 1, 2, 3, 4, 5, 6) // a nonce (RFC 3971), which is none of ours
	m = append(m, optionSource, byte((2+len(from)+7)/8))
	if len(from) == addressLen {
		m = append(m, 0, 0)
	}
	m = append(m, from...)
	binary.BigEndian.PutUint16(m[2:], frame.PseudoChecksum(by, to, unix.IPPROTO_ICMPV6, m))
	b := []byte{6 << 4, 0, 0, 0, 0, byte(len(m)), unix.IPPROTO_ICMPV6, ndHopLimit}
	return append(append(append(b, by.AsSlice()...), to.AsSlice()...), m...)
}

// TestSolicitation checks what is read of one, and that no packet that differs from one in a byte, or ends early, is one.
func TestSolicitation(t *testing.T) {
	of, by := netip.MustParseAddr("fd09::1"), netip.MustParseAddr("fd09::7")
	for _, hardware := range []int{macLen, addressLen} {
		from := make(net.HardwareAddr, hardware)
		from[0], from[hardware-1] = 2, 7
		b := solicitation(of, by, from)
		q, ok := parseSolicitation(append(slices.Clone(b), 0, 0), hardware)
		if !ok || q.of != of || q.by != by || !slices.Equal(q.from, from) {
			t.Errorf("%x: %+v", b, q)
		}
		for n := range b {
			if _, ok := parseSolicitation(b[:n], hardware); ok {
				t.Errorf("%d bytes of %d are a solicitation", n, len(b))
			}
		}
		for i := range b {
			if i > 0 && i < 4 { // traffic class and flow label
				continue
			}
			b[i] ^= 0x40
			if _, ok := parseSolicitation(b, hardware); ok {
				t.Errorf("a solicitation with byte %d changed is one", i)
			}
			b[i] ^= 0x40
		}
	}
}

// TestAdvertisement has frame, which knows Ethernet, read what is written; and checks the option of IPoIB.
func TestAdvertisement(t *testing.T) {
	of, by := netip.MustParseAddr("fd09::1"), netip.MustParseAddr("fd09::7")
	at := make(net.HardwareAddr, addressLen)
	for i := range at {
		at[i] = byte(0xa0 + i)
	}
	for _, to := range []netip.Addr{by, allNodes} {
		b := appendAdvertisement(nil, of, to, at)
		src, m := netip.AddrFrom16([16]byte(b[8:])), b[ipv6Header:]
		if frame.PseudoChecksum(src, to, unix.IPPROTO_ICMPV6, m) != 0 || int(b[5]) != len(m) || len(m) != ndFixed+24 {
			t.Errorf("to %v: %x", to, b)
		}
		if !slices.Equal(m[ndFixed:ndFixed+4], []byte{optionTarget, 3, 0, 0}) || !slices.Equal(m[ndFixed+4:], at) {
			t.Errorf("to %v it says %x", to, m[ndFixed:])
		}
		if solicited := m[4]&0x40 != 0; solicited == to.IsMulticast() || m[4]&0x20 == 0 {
			t.Errorf("to %v the flags are %x", to, m[4])
		}
	}
}

// TestGroupLink compares with what the kernel makes of a group (include/net/if_inet6.h, ipv6_ib_mc_map), on an interface in the
// partition 0x8001.
func TestGroupLink(t *testing.T) {
	broadcast, _ := net.ParseMAC("00:ff:ff:ff:ff:12:40:1b:80:01:00:00:00:00:00:00:ff:ff:ff:ff")
	g := solicitedNode(netip.MustParseAddr("fd09::1:ab12:3456"))
	if g != netip.MustParseAddr("ff02::1:ff12:3456") {
		t.Errorf("the group is %v", g)
	}
	if got := groupLink(g, broadcast).String(); got != "00:ff:ff:ff:ff:12:60:1b:80:01:00:00:00:00:00:01:ff:12:34:56" {
		t.Errorf("on IPoIB %s", got)
	}
	if got := groupLink(g, broadcast[:macLen]).String(); got != "33:33:ff:12:34:56" {
		t.Errorf("on Ethernet %s", got)
	}
}

// TestResponderByIPv6 is TestResponder for IPv6, for which bridges are in groups.
func TestResponderByIPv6(t *testing.T) {
	t.Parallel()
	if !ownNamespace(t) {
		return
	}
	n := newNode(t, "fd09::9/64 nodad")
	h := &hosts{at: map[netip.Addr]string{}}
	h.put("fd09::1", "ib1")
	h.put("fd09::2", "ib1")
	var said [2]strings.Builder
	one, two := h.respond(t, "ib1", &said[0]), h.respond(t, "ib2", &said[1])
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the first:\n%sthe second:\n%s", &said[0], &said[1])
		}
	})
	member := func(name, group string) bool { return strings.Contains(output(t, "ip maddress show dev "+name), group) }
	for _, name := range []string{"ib1", "ib2"} {
		soon(t, name+" is in the hosts' groups", func() bool { return member(name, "33:33:ff:00:00:01") && member(name, "33:33:ff:00:00:02") })
	}
	soon(t, "the bridge that has the host answers", func() bool { n.ask("fd09::1"); return n.knows("fd09::1", "02:00:00:00:00:01") })
	if one.Answered() == 0 || two.Answered() != 0 || !slices.Contains(h.wanted(), netip.MustParseAddr("fd09::1")) {
		t.Errorf("answered %d and %d", one.Answered(), two.Answered())
	}
	h.put("fd09::1", "ib2")
	one.Moved()
	two.Moved()
	soon(t, "the node knows where the host has gone", func() bool { return n.knows("fd09::1", "02:00:00:00:00:02") })
	soon(t, "it is announced twice", func() bool { return two.Announced() == 2 })
	h.remove("fd09::2")
	soon(t, "it is no more in the group of a host that is gone", func() bool { return !member("ib1", "33:33:ff:00:00:02") })
	sh(t, "sysctl -qw net.ipv6.conf.ib2.proxy_ndp=1; ip link set ib2 down")
	soon(t, "it is in no group on an interface that is down", func() bool { return !member("ib2", "33:33:ff:00:00:01") })
	sh(t, "ip link set ib2 up")
	soon(t, "it is in a group again", func() bool { return member("ib2", "33:33:ff:00:00:01") })
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if member("ib2", "33:33:ff:00:00:01") {
		t.Error("it is in a group though the bridge has ended")
	}
	if text := said[1].String(); !strings.Contains(text, "ipoib_kernel_answers") || !strings.Contains(text, "sysctl -w net/ipv6/conf/ib2/proxy_ndp=0") {
		t.Errorf("of the kernel, which answers on ib2 at the end, it said\n%s", text)
	}
}
