// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"

	"causeway/lcore/frame"
)

// ping makes an echo request with n bytes of data, to the MAC address of l.
func ping(l frame.Link, src, dst netip.Addr, n int) []byte {
	m := append([]byte{frame.EchoRequest4, 0, 0, 0, 0x12, 0x34, 0, 1}, make([]byte, n)...)
	for i := range n {
		m[frame.EchoLen+i] = byte(i)
	}
	b := make([]byte, frame.EthernetLen+frame.IPv6Len+len(m))
	e := frame.EthernetFields{Dst: l.MAC, Src: mac1, Type: frame.TypeIPv4}
	if src.Is6() {
		m[0], e.Type = frame.EchoRequest6, frame.TypeIPv6
		frame.PutIPv6(b[frame.EthernetLen:], frame.IPv6Fields{
			TrafficClass: 0x40, PayloadLen: len(m), NextHeader: frame.ProtoICMPv6, HopLimit: 3, Src: src, Dst: dst,
		})
		copy(b[frame.EthernetLen+frame.IPv6Len:], sealICMP(m, src, dst))
	} else {
		b = b[:frame.EthernetLen+frame.IPv4Len+len(m)]
		frame.PutIPv4(b[frame.EthernetLen:], frame.IPv4Fields{
			TOS: 0x40, TotalLen: frame.IPv4Len + len(m), TTL: 3, Protocol: frame.ProtoICMP, Src: src, Dst: dst,
		})
		copy(b[frame.EthernetLen+frame.IPv4Len:], sealAt(m, frame.Checksum))
	}
	frame.PutEthernet(b, e)
	return b
}

// TestEchoReply checks that a reply is the request with source and destination exchanged and its own checksum; padded,
// and tagged if the port is.
func TestEchoReply(t *testing.T) {
	for _, c := range []struct {
		name     string
		l        frame.Link
		src, dst netip.Addr
		data     int
		kind     uint8
	}{
		{"IPv4", port2, host1, host2, 56, frame.EchoReply4},
		{"IPv4, empty", port2, host1, host2, 0, frame.EchoReply4},
		{"IPv4, tagged", frame.Link{MAC: mac2, VID: 100, PCP: 3}, host1, host2, 1, frame.EchoReply4},
		{"IPv6", port2, six1, six2, 57, frame.EchoReply6},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, fault := frame.Open(ping(c.l, c.src, c.dst, c.data))
			if fault != "" {
				t.Fatal(fault)
			}
			b := frame.AppendEchoReply(nil, c.l, request, 64)
			f, fault := frame.Open(b)
			if fault != "" || len(b) < frame.MinLen || f.Eth.Src() != mac2 || f.Eth.Dst() != mac1 || f.Src() != c.dst || f.Dst() != c.src {
				t.Fatalf("%q: %s", fault, hex.EncodeToString(b))
			}
			sum, ttl, class := frame.Checksum, uint8(0), uint8(0)
			if f.IPv4 != nil {
				ttl, class = f.IPv4.TTL(), f.IPv4.TOS()
			} else {
				ttl, class = f.IPv6.HopLimit(), f.IPv6.TrafficClass()
				sum = func(m []byte) uint16 { return frame.PseudoChecksum(c.dst, c.src, frame.ProtoICMPv6, m) }
			}
			if ttl != 64 || class != 0x40 || (f.Tag != nil) != (c.l.VID != 0) || sum(f.Payload) != 0 {
				t.Errorf("ttl %d, class %#x, tag %v, checksum %#x", ttl, class, f.Tag, sum(f.Payload))
			}
			want := slices.Concat([]byte{c.kind, 0}, f.Payload[2:4], request.Payload[4:])
			if !bytes.Equal(f.Payload, want) {
				t.Errorf("got  %x\nwant %x", f.Payload, want)
			}
		})
	}
}
