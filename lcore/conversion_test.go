// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// crossing forwards one frame, and returns the message.
func (s *rig) crossing(f []byte) posted {
	s.t.Helper()
	s.fromRoCE(f)
	got := s.toIB(0)
	if len(got) != 1 {
		s.t.Fatalf("%d messages of frame % x: %v", len(got), f, s.counters(lcore.RoCEToIB))
	}
	return postedOf(got[0])
}

// answer forwards one message, and returns the parsed frame, whose ICRC it has checked.
func (s *rig) answer(m message) roce.Packet {
	s.t.Helper()
	s.fromIB(m)
	got := s.toRoCE(0)
	if len(got) != 1 {
		s.t.Fatalf("%d frames of message %+v: %v", len(got), m, s.counters(lcore.IBToRoCE))
	}
	p, err := roce.Parse(got[0])
	if err != nil {
		s.t.Fatalf("%v: % x", err, got[0])
	}
	return p
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The worked examples of RoCE, made by an independent program (ibside/ib/testdata), and what IB must get.
var examples = []struct {
	name, frame string
	want        posted
}{
	{"roce2-ipv4", `020000000002 020000000001 0800 4562003c000040004011 2639 0a0a0001 0a0a0002 e341 12b7 0028 0000
		6470ffff00000123 00000001 01234567 00000456 48656c6c6f000000 6ef89aab`,
		posted{Sent: fabricport.Sent{QP: proxyQP, DGID: nodeGID, DLID: nodeLID, SL: 3, HopLimit: 1, TClass: 0x62, DestQP: nodeQPN,
			QKey: ib.QKeyRDMAUDP, Len: 5}, payload: "Hello"}},
	{"roce2-ipv4-group", `01005e010203 020000000001 0800 45020040000040004011 3f9c 0a0a0001 ef010203 c123 12b7 002c 0000
		6570ffff00ffffff 00000002 01234567 00000456 00000456 48656c6c6f000000 65da5927`,
		posted{Sent: fabricport.Sent{QP: proxyQP, DGID: mgidOf(group4), DLID: 0xc001, SL: 3, HopLimit: 7, Rate: 3, TClass: 2, DestQP: ib.QPMulticast,
			QKey: groupIB, HasImm: true, Imm: uint32(proxyQPN), HasGRH: true, Len: 5}, payload: "Hello"}},
	{"roce2-ipv6", `020000000002 020000000001 86dd 6621234500281140 20010db8000000000000000000000001 20010db8000000000000000000000002
		e341 12b7 0028 0000 6470ffff00000123 00000001 01234567 00000456 48656c6c6f000000 d8d89fc4`,
		posted{Sent: fabricport.Sent{QP: proxyQP + 1, Source: 1, DGID: nodeGID, DLID: nodeLID, SL: 3, HopLimit: 1, TClass: 0x62, FlowLabel: 0x12345, DestQP: nodeQPN,
			QKey: ib.QKeyRDMAUDP, Len: 5}, payload: "Hello"}},
	{"roce1", `020000000002 020000000001 8915 6000000000201b01 fe80000000000000000000fffe000001 fe80000000000000000000fffe000002
		6470ffff00000123 00000001 01234567 00000456 48656c6c6f000000 51f99f4d`,
		posted{Sent: fabricport.Sent{QP: proxyQP + 2, Source: 2, DGID: localGID, DLID: localLID, HopLimit: 9, Rate: 16, DestQP: nodeQPN,
			QKey: ib.QKeyRDMAUDP, HasGRH: true, Len: 5}, payload: "Hello"}},
	{"roce1-group", `3333ef010203 020000000001 8915 6000000000241b01 00000000000000000000ffff0a0a0001 ff0e0000000000000000ffffef010203
		6570ffff00ffffff 00000002 01234567 00000456 00000456 48656c6c6f000000 9a1682b9`,
		posted{Sent: fabricport.Sent{QP: proxyQP, DGID: mgidOf(group4), DLID: 0xc001, SL: 3, HopLimit: 7, Rate: 3, DestQP: ib.QPMulticast,
			QKey: groupIB, HasImm: true, Imm: uint32(proxyQPN), HasGRH: true, Len: 5}, payload: "Hello"}},
}

func TestWorkedExamples(t *testing.T) {
	s := newRig(t, smallFixture())
	for _, x := range examples {
		if got := s.crossing(unhex(t, x.frame)); !got.equal(&x.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", x.name, got, x.want)
		}
	}
}

// ib-global, as the node sends it to the host's proxy QP, byte by byte.
func TestWorkedExampleToRoCE(t *testing.T) {
	s := newRig(t, smallFixture())
	s.fromIB(received())
	got := s.toRoCE(0)
	// flow label 12345 gives port e341; the Q_Key is that of the host's QP; TTL is one less than the hop limit.
	wantFrame := unhex(t, `020000000001 020000000002 0800 4560003c00004000 3f11 273b 0a0a0002 0a0a0001 e341 12b7 0028 0000
		6470ffff00000456 00000000 00112233 00000123 48656c6c6f000000`)
	if len(got) != 1 || hex.EncodeToString(got[0][:70]) != hex.EncodeToString(wantFrame) {
		t.Fatalf("got  %x\nwant %x", got, wantFrame)
	}
	if _, err := roce.Parse(got[0]); err != nil {
		t.Error(err)
	}
}

// Payloads of every length cross both ways unchanged, padded by zeros to a multiple of 4.
func TestPayloadLengths(t *testing.T) {
	s := newRig(t, smallFixture())
	s.dirtyMbufs()
	n := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 60, 61, 62, 63, 64, 255, 256, 257, 1023, 1024, 2047, 2048, 4090, 4091, 4092, 4093, 4094, 4095, 4096}
	for _, base := range []struct {
		name string
		of   func(...func(*roce.Packet)) []byte
	}{{"IPv4", v4}, {"IPv6", v6}, {"RoCEv1", v1}} {
		for i, n := range n {
			with := []func(*roce.Packet){payload(n)}
			if i%3 == 0 {
				with = append(with, imm(7))
			}
			got := s.crossing(base.of(with...))
			if got.Len != n || got.payload != string(pattern(n)) {
				t.Errorf("%s, %d bytes: the port got %d: %x", base.name, n, got.Len, got.payload)
			}
		}
	}
	for i, n := range n {
		for qpn := range ib.QPN(2) {
			s.fromIB(received(func(m *message) { m.QPN, m.Payload, m.HasImm = proxyQPN+qpn, pattern(n), i%3 == 0 }))
			f := s.toRoCE(0)
			if len(f) != 1 {
				t.Fatalf("%d bytes: %d frames", n, len(f))
			}
			p, err := roce.Parse(f[0])
			if err != nil || string(p.Payload) != string(pattern(n)) {
				t.Errorf("%d bytes: %v, payload %x", n, err, p.Payload)
			}
			pad := f[0][len(f[0])-ib.ICRCLen-(-n&3) : len(f[0])-ib.ICRCLen]
			want(t, fmt.Sprintf("pad of %d bytes", n), string(pad), "\x00\x00\x00"[:-n&3])
			if requeued := p.AppendTo(nil); string(requeued) != string(f[0]) {
				t.Errorf("%d bytes: the frame is\n%x, and its fields give\n%x", n, f[0], requeued)
			}
		}
	}
}

// How fields are converted on the way to IB. Each case changes one field of a frame and checks one field of the
// message.
var toIBCases = []struct {
	name    string
	frame   []byte
	got     func(*posted) any
	want    any
	fixture func(*fixture)
}{
	{"traffic class, ECN and all", v4(func(p *roce.Packet) { p.TClass = 0xb9 }), func(p *posted) any { return p.TClass }, uint8(0xb9), nil},
	{"traffic class of IPv6", v6(func(p *roce.Packet) { p.TClass = 0xb9 }), func(p *posted) any { return p.TClass }, uint8(0xb9), nil},
	{"traffic class of RoCEv1", v1(func(p *roce.Packet) { p.TClass = 0xb9 }), func(p *posted) any { return p.TClass }, uint8(0xb9), nil},
	{"SL by the table of DSCPs", v4(func(p *roce.Packet) { p.TClass = 46 << 2 }), func(p *posted) any { return p.SL }, ib.SL(5), nil},
	{"SL of the path, when the table has none", v4(func(p *roce.Packet) { p.TClass = 3 }), func(p *posted) any { return p.SL }, ib.SL(2), nil},
	{"SL of the group, whatever the DSCP", v4(to(group4), func(p *roce.Packet) { p.TClass = 46 << 2 }), func(p *posted) any { return p.SL }, ib.SL(3), nil},
	{"hop limit one less at a RoCE port", v4(func(p *roce.Packet) { p.HopLimit = 255 }), func(p *posted) any { return p.HopLimit }, uint8(254), anEthernetPort},
	{"hop limit to its end at a RoCE port", v4(func(p *roce.Packet) { p.HopLimit = 1 }), func(p *posted) any { return p.HopLimit }, uint8(0), anEthernetPort},
	{"hop limit of the path", v4(func(p *roce.Packet) { p.HopLimit = 255 }), func(p *posted) any { return p.HopLimit }, uint8(1), nil},
	{"rate of the path", v4(), func(p *posted) any { return p.Rate }, ib.Rate(6), func(w *fixture) { w.nodes[0].Rate = 6 }},
	{"rate of the group", v4(to(group4)), func(p *posted) any { return p.Rate }, ib.Rate(3), nil},
	{"hop limit of the group", v4(to(group4), func(p *roce.Packet) { p.HopLimit = 200 }), func(p *posted) any { return p.HopLimit }, uint8(7), nil},
	{"RoCEv1 hop limit 0 stays 0", v1(func(p *roce.Packet) { p.HopLimit = 0 }), func(p *posted) any { return p.HopLimit }, uint8(0), anEthernetPort},
	{"flow label of IPv6", v6(func(p *roce.Packet) { p.FlowLabel = 0xabcde }), func(p *posted) any { return p.FlowLabel }, uint32(0xabcde), nil},
	{"flow label of RoCEv1", v1(func(p *roce.Packet) { p.FlowLabel = 0xabcde }), func(p *posted) any { return p.FlowLabel }, uint32(0xabcde), nil},
	{"no flow label from IPv4", v4(), func(p *posted) any { return p.FlowLabel }, uint32(0), nil},
	{"no GRH within the subnet", v4(), func(p *posted) any { return p.HasGRH }, false, nil},
	{"a GRH for a node that needs one", v4(dest("10.10.0.4")), func(p *posted) any { return p.HasGRH }, true, nil},
	{"a GRH for a group", v4(to(group4)), func(p *posted) any { return p.HasGRH }, true, nil},
	{"Q_Key of the node, as the host says", v4(func(p *roce.Packet) { p.QKey = 0x1111 }), func(p *posted) any { return p.QKey }, ib.QKey(0x1111), nil},
	{"Q_Key of the group on InfiniBand", v4(to(group4)), func(p *posted) any { return p.QKey }, groupIB, nil},
	{"solicited event", v4(func(p *roce.Packet) { p.Solicited = true }), func(p *posted) any { return p.Solicited }, true, nil},
	{"no solicited event", v4(), func(p *posted) any { return p.Solicited }, false, nil},
	{"CE becomes FECN", v4(func(p *roce.Packet) { p.TClass = 3 }), func(p *posted) any { return p.FECN }, true, nil},
	{"ECT does not", v4(func(p *roce.Packet) { p.TClass = 2 }), func(p *posted) any { return p.FECN }, false, nil},
	{"FECN stays", v4(func(p *roce.Packet) { p.FECN = true }), func(p *posted) any { return p.FECN }, true, nil},
	{"BECN is not FECN", v4(func(p *roce.Packet) { p.BECN = true }), func(p *posted) any { return p.FECN }, false, nil},
	{"an immediate", v4(imm(0xdeadbeef)), func(p *posted) any { return p.Imm }, uint32(0xdeadbeef), nil},
	{"an immediate that is the sender's QPN", v4(imm(uint32(hostQPN))), func(p *posted) any { return p.Imm }, uint32(proxyQPN), nil},
	{"the same, not rewritten", v4(imm(uint32(hostQPN))), func(p *posted) any { return p.Imm }, uint32(hostQPN), func(w *fixture) { w.config.RewriteImm = false }},
	{"an immediate to a group", v4(to(group4), imm(uint32(hostQPN))), func(p *posted) any { return p.Imm }, uint32(proxyQPN), nil},
	{"the same to a group without rewriting", v6(to(group6), imm(uint32(hostQPN))), func(p *posted) any { return p.Imm }, uint32(hostQPN), nil},
	{"the proxy QP of IPv6", v6(), func(p *posted) any { return p.QP }, proxyQP + 1, nil},
	{"the proxy QP of RoCEv1", v1(), func(p *posted) any { return p.QP }, proxyQP + 2, nil},
	{"MGID of an IPv6 group", v6(to(group6)), func(p *posted) any { return p.DGID }, mgidOf(group6), nil},
	{"MGID of an IPv4 group in RoCEv1's form", v1(to(group1)), func(p *posted) any { return p.DGID }, mgidOf(group1), nil},
	{"MLID", v1(to(group1)), func(p *posted) any { return p.DLID }, ib.LID(0xc003), nil},
}

func TestFieldsToIB(t *testing.T) {
	common := newRig(t, smallFixture())
	for _, c := range toIBCases {
		t.Run(c.name, func(t *testing.T) {
			got := rigFor(t, common, c.fixture).crossing(c.frame)
			want(t, c.name, c.got(&got), c.want)
		})
	}
}

// hostOnVLAN puts the host on a VLAN, with another MAC address for IPv6.
func hostOnVLAN(w *fixture) {
	w.onVLAN(100)
	w.hosts[1] = tables.Host{IP: hostIP6, MAC: frame.MAC{2, 0, 0, 0, 0, 9}, Version: lcore.V2, VLAN: 100}
}
