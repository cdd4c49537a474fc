// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"causeway/ibside/ib"
)

func TestPacketExamples(t *testing.T) {
	hello := []byte("Hello")
	unicast := ib.Packet{
		SLID: 4, DLID: 7, OpCode: ib.OpUDSendOnly, PKey: 0xffff, DestQP: 0x123, PSN: 1, QKey: ib.QKeyRDMAUDP, SrcQP: 0x456,
		Payload: hello,
	}
	global := unicast
	global.VL, global.SL = 1, 3
	global.GRH = &ib.GRHFields{
		TClass: 0x60, FlowLabel: 0x12345, PayLen: 32, HopLimit: 64, SGID: gid("fe80::2:c903:0:1"), DGID: gid("fe80::2:c903:0:2"),
	}
	group := unicast
	group.DLID, group.OpCode, group.DestQP, group.PSN, group.Imm = 0xc001, ib.OpUDSendOnlyImm, ib.QPMulticast, 2, 0x456
	group.GRH = &ib.GRHFields{PayLen: 36, SGID: gid("fe80::2:c903:0:1"), DGID: gid("ff12:4001:ffff::f01:203")}
	empty := unicast
	empty.PSN, empty.Payload = 3, []byte{}
	for name, want := range map[string]ib.Packet{
		"ib-local": unicast, "ib-global": global, "ib-group": group, "ib-empty": empty,
	} {
		wire := frame(t, name)
		got, fault := ib.ParsePacket(wire)
		if fault != ib.FaultNone || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: fault %q\n got %+v\nwant %+v", name, fault, got, want)
		}
		if b := want.AppendTo([]byte{0xaa}); b[0] != 0xaa || !bytes.Equal(b[1:], wire) {
			t.Errorf("%s: AppendTo\n got % x\nwant aa % x", name, b, wire)
		}
	}
	if n := len(frame(t, "ib-empty")); n != ib.MinLen+ib.DETHLen {
		t.Errorf("the smallest datagram has %d bytes, the smallest packet %d", n, ib.MinLen)
	}
}

// TestPacketBothWays: every native datagram among the examples, whatever it carries, is written as it was read.
func TestPacketBothWays(t *testing.T) {
	n := 0
	for _, x := range examples(t) {
		if x.link != "ib" || x.name == "ib-ibta-sample" {
			continue
		}
		n++
		p, fault := ib.ParsePacket(x.frame)
		if b := p.AppendTo(nil); fault != ib.FaultNone || !bytes.Equal(b, x.frame) {
			t.Errorf("%s: fault %q\n got % x\nwant % x", x.name, fault, b, x.frame)
		}
	}
	if n != 7 {
		t.Errorf("%d native datagrams among the examples, want 7", n)
	}
}

// Offsets in a global packet, for cases that damage one.
const (
	atBTH  = 48
	atDETH = 60
)

func set(off int, v ...byte) func([]byte) []byte {
	return func(b []byte) []byte { copy(b[off:], v); return b }
}

// faults are packets with one error. Those with seal have right CRCs over the wrong bytes.
var faults = []struct {
	name   string
	from   string
	damage func([]byte) []byte
	seal   bool
	want   ib.Fault
}{
	{"nothing", "ib-local", func([]byte) []byte { return nil }, false, ib.FaultLRHHdr},
	{"LRH cut off", "ib-local", func(b []byte) []byte { return b[:7] }, false, ib.FaultLRHHdr},
	{"LVer 1", "ib-local", set(0, 0x01), true, ib.FaultLRHHdr},
	{"SLID 0", "ib-local", set(6, 0, 0), true, ib.FaultLRHHdr},
	{"SLID multicast", "ib-local", set(6, 0xc0, 0), true, ib.FaultLRHHdr},
	{"SLID last multicast", "ib-local", set(6, 0xff, 0xfe), true, ib.FaultLRHHdr},
	{"SLID permissive", "ib-local", set(6, 0xff, 0xff), true, ib.FaultNone},
	{"DLID 0", "ib-local", set(2, 0, 0), true, ib.FaultLRHHdr},
	{"VL 15 to a data QP", "ib-local", set(0, 0xf0), true, ib.FaultLRHHdr},
	{"VL 15 to QP0", "ib-local", func(b []byte) []byte { return set(13, 0, 0, 0)(set(0, 0xf0)(b)) }, true, ib.FaultNone},
	{"raw", "ib-local", set(1, 0), true, ib.FaultIBRaw},
	{"raw IPv6", "ib-local", set(1, 1), true, ib.FaultIBRaw},
	{"PktLen 0", "ib-local", set(4, 0, 0), true, ib.FaultLRHLen},
	{"PktLen one less", "ib-local", set(5, 9), true, ib.FaultLRHLen},
	{"PktLen one more", "ib-local", set(5, 11), true, ib.FaultLRHLen},
	{"PktLen largest", "ib-local", set(4, 7, 0xff), true, ib.FaultLRHLen},
	{"trailing byte", "ib-local", func(b []byte) []byte { return append(b, 0) }, false, ib.FaultLRHLen},
	{"VCRC cut off", "ib-local", func(b []byte) []byte { return b[:len(b)-2] }, false, ib.FaultLRHLen},
	{"five words", "ib-empty", func(b []byte) []byte { return set(5, 5)(b[:22]) }, true, ib.FaultLRHLen},
	{"six words, no DETH", "ib-empty", func(b []byte) []byte { return set(5, 6)(b[:26]) }, true, ib.FaultBTHLen},
	{"seven words, half a DETH", "ib-empty", func(b []byte) []byte { return set(5, 7)(b[:30]) }, true, ib.FaultBTHLen},
	{"RC acknowledge", "ib-empty", func(b []byte) []byte { return set(8, 0x11)(set(5, 7)(b[:30])) }, true, ib.FaultBTHOpCode},
	{"reserved bits of the LRH", "ib-local", func(b []byte) []byte { return set(4, 0xf8)(set(1, 0x0e)(b)) }, true, ib.FaultNone},
	{"GRH cut off", "ib-empty", set(1, 3), true, ib.FaultGRHHdr},
	{"IPVer 4", "ib-global", set(8, 0x46), true, ib.FaultGRHHdr},
	{"NxtHdr UDP", "ib-global", set(14, 17), true, ib.FaultGRHHdr},
	{"SGID multicast", "ib-global", set(16, 0xff), true, ib.FaultGRHHdr},
	{"PayLen one word less", "ib-global", set(13, 28), true, ib.FaultGRHLen},
	{"PayLen one more", "ib-global", set(13, 33), true, ib.FaultGRHLen},
	{"PayLen largest", "ib-global", set(12, 0xff, 0xff), true, ib.FaultGRHLen},
	{"PayLen 12, no BTH", "ib-global", func(b []byte) []byte { return set(13, 12)(set(5, 15)(b[:62])) }, true, ib.FaultGRHLen},
	{"PayLen 20, half a DETH", "ib-global", func(b []byte) []byte { return set(13, 20)(set(5, 17)(b[:70])) }, true, ib.FaultBTHLen},
	{"RC acknowledge, global", "ib-global", func(b []byte) []byte { return set(atBTH, 0x11)(set(13, 20)(set(5, 17)(b[:70]))) }, true, ib.FaultBTHOpCode},
	{"VCRC", "ib-local", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, false, ib.FaultVCRC},
	{"variant field and VCRC", "ib-local", set(0, 0x10), false, ib.FaultVCRC},
	{"ICRC", "ib-local", func(b []byte) []byte { b[28] ^= 1; return vcrcOnly(b) }, false, ib.FaultICRC},
	{"ICRC, most significant byte first", "ib-local", swapICRC, false, ib.FaultICRC},
	{"SL of a local packet", "ib-local", func(b []byte) []byte { b[1] |= 0x10; return vcrcOnly(b) }, false, ib.FaultICRC},
	{"SL of a global packet", "ib-global", func(b []byte) []byte { b[1] |= 0x40; return vcrcOnly(b) }, false, ib.FaultNone},
	{"TVer 1", "ib-global", set(atBTH+1, 0x71), true, ib.FaultBTHTVer},
	{"congestion notification", "ib-global", set(atBTH, ib.OpCN), true, ib.FaultCNP},
	{"RoCEv2 congestion notification", "ib-global", set(atBTH, ib.OpCNP), true, ib.FaultCNP},
	{"immediate data not there", "ib-empty", set(8, ib.OpUDSendOnlyImm), true, ib.FaultBTHLen},
	{"pad without payload", "ib-empty", set(9, 0x50), true, ib.FaultBTHPad},
	{"non-zero pad", "ib-local", set(33, 1, 2, 3), true, ib.FaultNone},
	{"reserved bits of the BTH beside FECN", "ib-global", set(atBTH+4, 0x3f), true, ib.FaultNone},
	{"reserved bits of the BTH beside A", "ib-global", set(atBTH+8, 0x7f), true, ib.FaultNone},
	{"reserved bits of the DETH", "ib-global", set(atDETH+4, 0xff), true, ib.FaultNone},
	{"multicast DLID, unicast QP", "ib-group", set(atBTH+5, 0, 1, 0x23), true, ib.FaultMcastIncons},
	{"multicast DLID, unicast DGID", "ib-group", set(32, 0xfe, 0x80), true, ib.FaultMcastIncons},
	{"multicast DLID, IPv4-mapped group", "ib-group", set(32, mapped...), true, ib.FaultMcastIncons},
	{"multicast DLID, no GRH", "ib-local", groupWithoutGRH, true, ib.FaultMcastIncons},
	{"unicast DLID, multicast QP", "ib-group", set(2, 0, 7), true, ib.FaultMcastIncons},
	{"unicast DLID, multicast DGID", "ib-global", set(32, 0xff), true, ib.FaultMcastIncons},
	{"permissive DLID, multicast QP", "ib-group", set(2, 0xff, 0xff), true, ib.FaultMcastIncons},
	{"reliable connection", "ib-ibta-sample", func(b []byte) []byte { return b }, false, ib.FaultBTHOpCode},
}

var mapped = []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}

func groupWithoutGRH(b []byte) []byte { return set(13, 0xff, 0xff, 0xff)(set(2, 0xc0, 0)(b)) }

func vcrcOnly(b []byte) []byte {
	n := len(b) - ib.VCRCLen
	ib.PutVCRC(b[n:], ib.VCRC(b[:n]))
	return b
}

func swapICRC(b []byte) []byte {
	icrc := b[len(b)-6 : len(b)-2]
	binary.BigEndian.PutUint32(icrc, binary.LittleEndian.Uint32(icrc))
	return vcrcOnly(b)
}

func TestFaults(t *testing.T) {
	provoked := map[ib.Fault]bool{}
	for _, c := range faults {
		b := c.damage(frame(t, c.from))
		if c.seal && !ib.PutCRCs(b) {
			t.Fatalf("%s: too short to seal", c.name)
		}
		p, got := ib.ParsePacket(b)
		if got != c.want {
			t.Errorf("%s: fault %q, want %q", c.name, got, c.want)
		}
		if got != ib.FaultNone && !reflect.DeepEqual(p, ib.Packet{}) {
			t.Errorf("%s: a faulty packet gave %+v", c.name, p)
		}
		provoked[c.want] = true
	}
	for _, f := range faultConstants(t) {
		if !provoked[f] {
			t.Errorf("no case provokes fault %q", f)
		}
	}
}

// faultConstants reads all constants of type Fault from the source, so that a new one needs a case.
func faultConstants(t *testing.T) (all []ib.Fault) {
	file, err := parser.ParseFile(token.NewFileSet(), "packet.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Fault" {
			s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ib.Fault(s))
		}
		return true
	})
	if len(all) < 13 {
		t.Fatalf("found %d Fault constants in packet.go, want 13 or more", len(all))
	}
	return all
}

// TestOpcodes: only the two datagram opcodes pass, of all 256.
func TestOpcodes(t *testing.T) {
	for op := range 256 {
		b := frame(t, "ib-global")
		b[atBTH] = byte(op)
		ib.PutCRCs(b)
		want := ib.FaultBTHOpCode
		switch op {
		case ib.OpUDSendOnly, ib.OpUDSendOnlyImm:
			want = ib.FaultNone
		case ib.OpCN, ib.OpCNP:
			want = ib.FaultCNP
		}
		if _, got := ib.ParsePacket(b); got != want {
			t.Errorf("opcode %#02x: fault %q, want %q", op, got, want)
		}
	}
}

// TestTruncation: a shortened packet is rejected, even with CRCs of its own.
func TestTruncation(t *testing.T) {
	for _, name := range []string{"ib-local", "ib-global", "ib-group", "ib-empty", "ib-sidr-req"} {
		whole := frame(t, name)
		for n := range whole {
			b := bytes.Clone(whole[:n])
			if _, fault := ib.ParsePacket(b); fault == ib.FaultNone {
				t.Errorf("%s: the first %d bytes pass", name, n)
			}
			ib.PutCRCs(b)
			if _, fault := ib.ParsePacket(b); fault == ib.FaultNone {
				t.Errorf("%s: the first %d bytes with CRCs pass", name, n)
			}
		}
	}
}

// TestBitFlips: a packet with one wrong bit is always rejected. With a new VCRC it is accepted where a switch or router
// may write, and nowhere that the ICRC covers.
func TestBitFlips(t *testing.T) {
	global := map[int]byte{0: 0xf0, 1: 0xfc, 4: 0xf8, 8: 0x0f, 9: 0xff, 10: 0xff, 11: 0xff, 15: 0xff, atBTH + 4: 0xff}
	for name, writable := range map[string]map[int]byte{
		"ib-local": {0: 0xf0, 12: 0xff}, "ib-global": global, "ib-group": global,
	} {
		b := frame(t, name)
		n := len(b) - 6
		for i := range 8 * len(b) {
			m := byte(0x80) >> (i % 8)
			b[i/8] ^= m
			if _, fault := ib.ParsePacket(b); fault == ib.FaultNone {
				t.Errorf("%s: byte %d ^ %#02x passes", name, i/8, m)
			}
			icrc, _ := ib.ICRCField(b[n:])
			right, free := icrc == ib.ICRCIB(b[:n]), i/8 >= n+4 || writable[i/8]&m != 0
			_, fault := ib.ParsePacket(vcrcOnly(bytes.Clone(b)))
			if free && fault != ib.FaultNone || !right && fault == ib.FaultNone {
				t.Errorf("%s: byte %d ^ %#02x and a new VCRC: ICRC right %v, fault %q", name, i/8, m, right, fault)
			}
			b[i/8] ^= m
		}
	}
}

// packets draws any valid datagram.
func packets() *rapid.Generator[ib.Packet] {
	return rapid.Custom(func(t *rapid.T) ib.Packet {
		p := ib.Packet{
			VL:     rapid.Uint8Range(0, 14).Draw(t, "vl"),
			SL:     ib.SL(rapid.Uint8Range(0, 15).Draw(t, "sl")),
			SLID:   ib.LID(rapid.Uint16Range(1, 0xbfff).Draw(t, "slid")),
			DLID:   ib.LID(rapid.Uint16Range(1, 0xbfff).Draw(t, "dlid")),
			OpCode: rapid.SampledFrom([]uint8{ib.OpUDSendOnly, ib.OpUDSendOnlyImm}).Draw(t, "opcode"),
			PKey:   ib.PKey(rapid.Uint16().Draw(t, "pkey")),
			DestQP: ib.QPN(rapid.Uint32Range(2, 0xfffffe).Draw(t, "destqp")),
			PSN:    rapid.Uint32Range(0, 0xffffff).Draw(t, "psn"),
			QKey:   ib.QKey(rapid.Uint32().Draw(t, "qkey")),
			SrcQP:  ib.QPN(rapid.Uint32Range(0, 0xffffff).Draw(t, "srcqp")),
		}
		p.Solicited, p.FECN, p.BECN = rapid.Bool().Draw(t, "se"), rapid.Bool().Draw(t, "fecn"), rapid.Bool().Draw(t, "becn")
		if p.OpCode == ib.OpUDSendOnlyImm {
			p.Imm = rapid.Uint32().Draw(t, "imm")
		}
		p.Payload = rapid.SliceOfN(rapid.Byte(), 0, rapid.SampledFrom([]int{8, 256, 4096}).Draw(t, "mtu")).Draw(t, "payload")
		multicast := rapid.Bool().Draw(t, "multicast")
		if multicast {
			p.DLID = ib.LID(rapid.Uint16Range(0xc000, 0xfffe).Draw(t, "mlid"))
			p.DestQP = ib.QPMulticast
		}
		if multicast || rapid.Bool().Draw(t, "grh") {
			g := grhs(multicast).Draw(t, "grh fields")
			p.GRH = &g
		}
		return p
	})
}

func grhs(multicast bool) *rapid.Generator[ib.GRHFields] {
	return rapid.Custom(func(t *rapid.T) ib.GRHFields {
		g := ib.GRHFields{
			TClass: rapid.Uint8().Draw(t, "tclass"), FlowLabel: rapid.Uint32Range(0, 0xfffff).Draw(t, "flow"),
			HopLimit: rapid.Uint8().Draw(t, "hop"),
			SGID:     ib.GID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "sgid")),
			DGID:     ib.GID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "dgid")),
		}
		g.SGID[0], g.DGID[0] = 0xfe, 0xfe
		if multicast {
			g.DGID[0] = 0xff
		}
		return g
	})
}

func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := packets().Draw(t, "packet")
		b := p.AppendTo(nil)
		got, fault := ib.ParsePacket(b)
		if fault != ib.FaultNone {
			t.Fatalf("fault %q", fault)
		}
		if p.GRH != nil {
			g := *p.GRH
			g.PayLen = len(b) - 50
			p.GRH = &g
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("\n got %+v\nwant %+v", got, p)
		}
		if len(b) > ib.UDMaxLen || len(b)%4 != 2 {
			t.Fatalf("%d bytes", len(b))
		}
	})
}
