// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"causeway/lcore/frame"
)

// example is a frame of testdata/frames.txt.
type example struct {
	name  string
	frame []byte
}

// examples reads testdata/frames.txt.
func examples(t testing.TB) []example {
	t.Helper()
	text, err := os.ReadFile("testdata/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []example
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "\t"):
			b, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
			if err != nil {
				t.Fatalf("testdata/frames.txt: %q: %v", line, err)
			}
			last := &list[len(list)-1]
			last.frame = append(last.frame, b...)
		default:
			list = append(list, example{name: strings.TrimSpace(line)})
		}
	}
	return list
}

// exampleFrame returns one frame of testdata/frames.txt, a copy.
func exampleFrame(t testing.TB, name string) []byte {
	t.Helper()
	for _, e := range examples(t) {
		if e.name == name {
			return e.frame
		}
	}
	t.Fatalf("testdata/frames.txt has no %q", name)
	return nil
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func mac(t testing.TB, s string) frame.MAC {
	t.Helper()
	m, err := frame.ParseMAC(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	mac1     = frame.MAC{2, 0, 0, 0, 0, 1}
	mac2     = frame.MAC{2, 0, 0, 0, 0, 2}
	host1    = addr("10.10.0.1")
	host2    = addr("10.10.0.2")
	group239 = addr("239.1.2.3")
)

// headers are what is expected in front of the transport of a UDP frame.
type headers struct {
	eth     frame.EthernetFields
	tag     *frame.VLANFields
	ip4     *frame.IPv4Fields
	ip6     *frame.IPv6Fields
	udp     *frame.UDPFields
	trailer int // bytes that no header counts
}

func ip4(tos uint8, total int, src, dst netip.Addr) *frame.IPv4Fields {
	return &frame.IPv4Fields{
		TOS: tos, TotalLen: total, Flags: frame.IPv4DontFragment, TTL: 64, Protocol: frame.ProtoUDP, Src: src, Dst: dst,
	}
}

func udp(src uint16, n int, sum uint16) *frame.UDPFields {
	return &frame.UDPFields{SrcPort: src, DstPort: frame.PortRoCEv2, Len: n, Checksum: sum}
}

func eth(dst, src frame.MAC, kind uint16) frame.EthernetFields {
	return frame.EthernetFields{Dst: dst, Src: src, Type: kind}
}

func wantHeaders() map[string]headers {
	v6 := &frame.IPv6Fields{
		TrafficClass: 0x62, FlowLabel: 0x12345, PayloadLen: 40, NextHeader: frame.ProtoUDP, HopLimit: 64,
		Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"),
	}
	tag := &frame.VLANFields{PCP: 3, VID: 100, Type: frame.TypeIPv4}
	to2, to1 := eth(mac2, mac1, frame.TypeIPv4), eth(mac1, mac2, frame.TypeIPv4)
	to2v6 := eth(mac2, mac1, frame.TypeIPv6)
	toGroup := eth(frame.MAC{1, 0, 0x5e, 1, 2, 3}, mac1, frame.TypeIPv4)
	toMGID := eth(frame.MAC{0x33, 0x33, 0xef, 1, 2, 3}, mac1, frame.TypeRoCEv1)
	five := ip4(0x62, 60, host1, host2)
	return map[string]headers{
		"rocev2_ipv4_multicast": {eth: toGroup, ip4: ip4(2, 64, host1, group239), udp: udp(0xc123, 44, 0)},
		"rocev2_ipv4":           {eth: to2, ip4: five, udp: udp(0xe341, 40, 0)},
		"rocev2_ipv6":           {eth: to2v6, ip6: v6, udp: udp(0xe341, 40, 0)},
		"rocev2_ipv6_checksum":  {eth: to2v6, ip6: v6, udp: udp(0xe341, 40, 0x614c)},
		"rocev1":                {eth: eth(mac2, mac1, frame.TypeRoCEv1)},
		"rocev1_multicast":      {eth: toMGID},
		"rocev2_ipv4_vlan":      {eth: eth(mac2, mac1, frame.TypeVLAN), tag: tag, ip4: five, udp: udp(0xe341, 40, 0)},
		"sidr_request":          {eth: to2, ip4: ip4(2, 308, host1, host2), udp: udp(0xc000, 288, 0)},
		"sidr_reply":            {eth: to1, ip4: ip4(2, 308, host2, host1), udp: udp(0xc000, 288, 0)},
		"cnp":                   {eth: to1, ip4: ip4(0xc2, 60, host2, host1), udp: udp(0xc000, 40, 0)},
		"rocev2_ipv4_empty":     {eth: to2, ip4: ip4(2, 52, host1, host2), udp: udp(0xc000, 32, 0)},
		"rocev2_ipv4_trailer":   {eth: to2, ip4: five, udp: udp(0xe341, 40, 0), trailer: 6},
	}
}

// TestHeaders parses the RoCE frames into the fields that they were made from.
func TestHeaders(t *testing.T) {
	for name, want := range wantHeaders() {
		t.Run(name, func(t *testing.T) {
			b := exampleFrame(t, name)
			f, fault := frame.Open(b)
			if fault != "" {
				t.Fatalf("Open: %s", fault)
			}
			got := headers{eth: f.Eth.Fields()}
			if f.Tag != nil {
				tag := f.Tag.Fields()
				got.tag = &tag
			}
			if f.IPv4 != nil {
				ip := f.IPv4.Fields()
				got.ip4 = &ip
			}
			if f.IPv6 != nil {
				ip := f.IPv6.Fields()
				got.ip6 = &ip
			}
			if f.IsIP() {
				h, _, fault := f.UDP()
				if fault != "" {
					t.Fatalf("UDP: %s", fault)
				}
				u := h.Fields()
				got.udp = &u
				got.trailer = len(b) - headLen(f) - len(f.Payload)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %s\nwant %s", show(got), show(want))
			}
		})
	}
}

// TestPutHeaders writes the same fields over bytes that are not zero and compares the result with the frames.
func TestPutHeaders(t *testing.T) {
	for name, h := range wantHeaders() {
		want := exampleFrame(t, name)
		got := bytes.Clone(want)
		n := putHeaders(got, h)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of headers\ngot  %x\nwant %x", name, n, got[:n], want[:n])
		}
	}
}

// putHeaders writes h to the front of b, after filling b with other bytes, and returns its length.
func putHeaders(b []byte, h headers) int {
	n := 0
	room := func(size int) []byte {
		p := b[n : n+size]
		for i := range p {
			p[i] = ^p[i]
		}
		n += size
		return p
	}
	frame.PutEthernet(room(frame.EthernetLen), h.eth)
	if h.tag != nil {
		frame.PutVLAN(room(frame.VLANLen), *h.tag)
	}
	if h.ip4 != nil {
		frame.PutIPv4(room(h.ip4.HeaderLen()), *h.ip4)
	}
	if h.ip6 != nil {
		frame.PutIPv6(room(frame.IPv6Len), *h.ip6)
	}
	if h.udp != nil {
		frame.PutUDP(room(frame.UDPLen), *h.udp)
	}
	return n
}

// headLen returns how many bytes of the frame precede f.Payload.
func headLen(f frame.Frame) int { return len(f.Eth) + len(f.Tag) + len(f.IPv4) + len(f.IPv6) }

// show writes the headers without pointers.
func show(h headers) string {
	s := fmt.Sprintf("%+v", h.eth)
	for _, p := range []any{h.tag, h.ip4, h.ip6, h.udp} {
		if v := reflect.ValueOf(p); !v.IsNil() {
			s += fmt.Sprintf(" %+v", v.Elem())
		}
	}
	return s + fmt.Sprintf(" trailer %d", h.trailer)
}

// TestEveryFrameIsUsed fails when testdata/frames.txt has a frame that no test uses.
func TestEveryFrameIsUsed(t *testing.T) {
	built := builtFrames()
	want := wantHeaders()
	for _, e := range examples(t) {
		_, parsed := want[e.name]
		if !parsed && !slices.ContainsFunc(built, func(b builtFrame) bool { return b.example == e.name }) {
			t.Errorf("%s: no test", e.name)
		}
	}
}
