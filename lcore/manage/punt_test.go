// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// ip4 and ip6 make frames to the bridge of any protocol.
func ip4(l frame.Link, proto, ttl uint8, src, dst netip.Addr, m []byte) []byte {
	b := make([]byte, frame.EthernetLen+frame.VLANLen+frame.IPv4Len+len(m))
	head := frame.EthernetLen
	if l.VID != 0 {
		frame.PutEthernet(b, frame.EthernetFields{Dst: bridgeMAC, Src: l.MAC, Type: frame.TypeVLAN})
		frame.PutVLAN(b[head:], frame.VLANFields{VID: l.VID, Type: frame.TypeIPv4})
		head += frame.VLANLen
	} else {
		frame.PutEthernet(b, frame.EthernetFields{Dst: bridgeMAC, Src: l.MAC, Type: frame.TypeIPv4})
	}
	frame.PutIPv4(b[head:], frame.IPv4Fields{TotalLen: frame.IPv4Len + len(m), TTL: ttl, Protocol: proto, Src: src, Dst: dst})
	copy(b[head+frame.IPv4Len:], m)
	return b[:head+frame.IPv4Len+len(m)]
}

func ip6(l frame.Link, next, hops uint8, src, dst netip.Addr, m []byte) []byte {
	b := make([]byte, frame.EthernetLen+frame.IPv6Len+len(m))
	frame.PutEthernet(b, frame.EthernetFields{Dst: bridgeMAC, Src: l.MAC, Type: frame.TypeIPv6})
	frame.PutIPv6(b[frame.EthernetLen:], frame.IPv6Fields{PayloadLen: len(m), NextHeader: next, HopLimit: hops, Src: src, Dst: dst})
	copy(b[frame.EthernetLen+frame.IPv6Len:], m)
	return b
}

// echo makes an echo request with n bytes behind its header; sum computes its checksum.
func echo(kind byte, n int, sum func([]byte) uint16) []byte {
	m := append([]byte{kind, 0, 0, 0, 0x12, 0x34, 0, 1}, make([]byte, n)...)
	for i := range n {
		m[8+i] = byte(i)
	}
	s := sum(m)
	m[2], m[3] = byte(s>>8), byte(s)
	return m
}

func pseudo(src, dst netip.Addr) func([]byte) uint16 {
	return func(b []byte) uint16 { return frame.PseudoChecksum(src, dst, frame.ProtoICMPv6, b) }
}

func ping4(l frame.Link, n int) []byte {
	return ip4(l, frame.ProtoICMP, 64, host4, bridge4, echo(8, n, frame.Checksum))
}

func ping6(n int) []byte {
	return ip6(hostLink, frame.ProtoICMPv6, 64, host6, bridge6, echo(128, n, pseudo(host6, bridge6)))
}

func TestEcho(t *testing.T) {
	for name, b := range map[string][]byte{
		"IPv4": ping4(hostLink, 56), "IPv4, empty": ping4(hostLink, 0), "IPv4, large": ping4(hostLink, 4000),
		"IPv6": ping6(56), "IPv6, odd": ping6(57),
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, nil)
			sent := frames(t, s.give(b))
			if len(sent) != 1 {
				t.Fatalf("%d answers", len(sent))
			}
			got, asked := sent[0], frames(t, [][]byte{append(b, make([]byte, 60)...)})[0]
			sum, kind := frame.Checksum, byte(0)
			if got.IPv6 != nil {
				sum, kind = pseudo(bridge6, host6), 129
			}
			if got.Src() != asked.Dst() || got.Dst() != asked.Src() || got.Eth.Dst() != hostMAC || got.Eth.Src() != bridgeMAC ||
				got.Payload[0] != kind || sum(got.Payload) != 0 || !slices.Equal(got.Payload[4:], asked.Payload[4:]) {
				t.Errorf("answer %x to %x", got.Payload, asked.Payload)
			}
			if n := s.count().EchoAnswered; n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
}

// TestNotForUs checks that valid frames that are not for the bridge are ignored, and not counted as bad.
func TestNotForUs(t *testing.T) {
	group := netip.MustParseAddr("224.0.0.5")
	linkLocal := hostMAC.LinkLocal()
	ra := echo(134, 8, pseudo(linkLocal, frame.AllNodes6))
	pim := echo(0x14, 0, frame.Checksum)
	for name, b := range map[string][]byte{
		"a ping to a node":         ip4(hostLink, frame.ProtoICMP, 64, host4, node4, echo(8, 8, frame.Checksum)),
		"a ping from a group":      ip4(hostLink, frame.ProtoICMP, 64, group, bridge4, echo(8, 8, frame.Checksum)),
		"an echo reply":            ip4(hostLink, frame.ProtoICMP, 64, host4, bridge4, echo(0, 8, frame.Checksum)),
		"a router's advertisement": ip6(hostLink, frame.ProtoICMPv6, 255, linkLocal, frame.AllNodes6, ra),
		"IGMP of routers":          ip4(hostLink, frame.ProtoIGMP, 1, host4, group, pim),
		"another protocol":         ip4(hostLink, 89, 1, host4, group, make([]byte, 20)),
		"a leave":                  frame.AppendIGMPv2Leave(nil, hostLink, host4, group4),
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, with(toIB(group4)))
			s.w.take()
			sent := s.give(b)
			if n := s.count(); len(sent) != 0 || n.NotForUs != 1 || len(n.Malformed) != 0 {
				t.Errorf("sent %x, %+v", sent, n)
			}
		})
	}
}

// wrong returns a copy with one byte changed.
func wrong(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 0xff
	return b
}

func TestMalformed(t *testing.T) {
	const l3, l4, l4v6 = frame.EthernetLen, frame.EthernetLen + frame.IPv4Len, frame.EthernetLen + frame.IPv6Len
	request, solicit := arp(hostLink, frame.ARPRequest, host4, node4), ns(hostLink, host6, node6)
	far := slices.Clone(solicit)
	far[l3+7] = 254
	igmp, mld := igmpQuery(frame.Query{Group: group4}), mldQuery(frame.Query{Group: group6})
	for _, c := range []struct {
		name    string
		frame   []byte
		counter string
	}{
		{"a short frame", request[:10], "l2_short"},
		{"a short ARP packet", request[:l3+20], "arp_bad"},
		{"ARP for another hardware", wrong(request, l3+1), "arp_bad"},
		{"ARP of an unknown operation", wrong(request, l3+7), "arp_bad"},
		{"ARP that names another sender", wrong(request, l3+13), "arp_bad"},
		{"ARP from a group", arp(hostLink, frame.ARPRequest, group4, node4), "arp_bad"},
		{"a solicitation with a wrong checksum", wrong(solicit, l4v6+2), "nd_bad"},
		{"a solicitation through a router", far, "nd_bad"},
		{"IGMP with a wrong checksum", wrong(igmp, l4+4+2), "igmp_bad"},
		{"IGMP through a router", ip4(routerLink, frame.ProtoIGMP, 2, host4, group4, igmp[l4+4:l4+16]), "igmp_bad"},
		{"MLD with a wrong checksum", wrong(mld, l4v6+frame.HopByHopLen+2), "mld_bad"},
		{"a ping with a wrong checksum", wrong(ping4(hostLink, 8), l4+2), "icmp_bad"},
		{"a ping of IPv6 with a wrong checksum", wrong(ping6(8), l4v6+2), "icmp_bad"},
		{"a short ping", ip4(hostLink, frame.ProtoICMP, 64, host4, bridge4, []byte{8, 0}), "icmp_bad"},
		{"a wrong IPv4 checksum", wrong(ping4(hostLink, 8), l3+10), "ip_csum"},
		{"two tags", wrong(wrong(append(slices.Clone(ping4(frame.Link{MAC: hostMAC, VID: 5}, 8)), 0), 16), 17), "vlan_double"},
	} {
		if c.counter == "vlan_double" {
			c.frame[16], c.frame[17] = 0x81, 0x00
		}
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, nil)
			sent := s.give(c.frame)
			if n := s.count(); len(sent) != 0 || !maps.Equal(n.Malformed, map[string]uint64{c.counter: 1}) {
				t.Errorf("sent %x, counted %v, want one %s", sent, n.Malformed, c.counter)
			}
			if s.tables.Hosts.Len() != 0 {
				t.Error("a host was learned from it")
			}
		})
	}
}

// TestFlood checks that an endless flood of punted frames delays neither the joins, nor the reports, nor the status.
func TestFlood(t *testing.T) {
	bubble(t, "flood", func(t *testing.T) {
		request := arp(hostLink, frame.ARPRequest, host4, node4)
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = []manage.Group{toIB(group4)}
			d.join = slowJoin
		})
		n := 0
		s.w.mu.Lock()
		s.w.more = func() *manage.Punted { // for 5 s there is always one more
			if n++; n%10 == 0 {
				time.Sleep(time.Millisecond)
			}
			if n > 50_000 {
				return nil
			}
			return &manage.Punted{Data: request}
		}
		s.w.mu.Unlock()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		st := s.loop.Status()
		if !st.Ready || st.Counters.GroupReports < 2 || st.Counters.ARPAnswered == 0 {
			t.Errorf("under the flood: %+v", st)
		}
	})
}
