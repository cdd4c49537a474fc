// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"reflect"
	"testing"

	"causeway/ibside/ib"
)

// A codec joins the three parts of a header: its checking constructor with Fields, its Put, and its length.
type codec struct {
	parse func(b []byte) (fields any, ok bool)
	put   func(b []byte, fields any)
	len   int
}

// codecOf makes a codec of the functions of one header.
func codecOf[V interface {
	~[]byte
	Fields() F
}, F any](as func([]byte) (V, bool), put func([]byte, F) V, n int) codec {
	return codec{
		parse: func(b []byte) (any, bool) {
			v, ok := as(b)
			if !ok {
				return nil, false
			}
			return v.Fields(), true
		},
		put: func(b []byte, f any) { put(b, f.(F)) },
		len: n,
	}
}

var codecs = map[string]codec{
	"LRH":            codecOf(ib.AsLRH, ib.PutLRH, 8),
	"GRH":            codecOf(ib.AsGRH, ib.PutGRH, 40),
	"BTH":            codecOf(ib.AsBTH, ib.PutBTH, 12),
	"DETH":           codecOf(ib.AsDETH, ib.PutDETH, 8),
	"MAD":            codecOf(ib.AsMAD, ib.PutMAD, 24),
	"SA":             codecOf(ib.AsSAHeader, ib.PutSAHeader, 32),
	"MCMemberRecord": codecOf(ib.AsMCMemberRecord, ib.PutMCMemberRecord, 52),
	"PathRecord":     codecOf(ib.AsPathRecord, ib.PutPathRecord, 64),
	"PortInfoRecord": codecOf(ib.AsPortInfoRecord, ib.PutPortInfoRecord, 68),
	"GUIDInfoRecord": codecOf(ib.AsGUIDInfoRecord, ib.PutGUIDInfoRecord, 72),
	"ServiceRecord":  codecOf(ib.AsServiceRecord, ib.PutServiceRecord, 176),
	"Notice":         codecOf(ib.AsNotice, ib.PutNotice, 80),
	"SIDR_REQ":       codecOf(ib.AsSIDRReq, ib.PutSIDRReq, 232),
	"SIDR_REP":       codecOf(ib.AsSIDRRep, ib.PutSIDRRep, 232),
	"CMA":            codecOf(ib.AsCMAHeader, ib.PutCMAHeader, 36),
}

// headers are wire bytes and what they mean. A codec must go both ways between them.
var headers = []struct {
	codec, name, hex string
	want             any
}{
	{"LRH", "multicast", "00 03 c0 00 00 2b 00 05", ib.LRHFields{LNH: ib.LNHGlobal, DLID: 0xc000, SLID: 5, PktLenWords: 43}},
	{"LRH", "subnet management", "f0 02 ff ff 00 48 ff ff",
		ib.LRHFields{VL: 15, LNH: ib.LNHLocal, DLID: ib.LIDPermissive, SLID: ib.LIDPermissive, PktLenWords: 72}},
	{"LRH", "every bit", "f0 f3 ff ff 07 ff ff ff",
		ib.LRHFields{VL: 15, SL: 15, LNH: 3, DLID: 0xffff, SLID: 0xffff, PktLenWords: 0x7ff}},
	{"LRH", "largest datagram", "50 a3 00 01 04 13 bf ff",
		ib.LRHFields{VL: 5, SL: 10, LNH: 3, DLID: 1, SLID: 0xbfff, PktLenWords: 1043}},
	{"GRH", "unicast", `66 01 23 45 00 20 1b 40 fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01
		fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 02`,
		ib.GRHFields{TClass: 0x60, FlowLabel: 0x12345, PayLen: 32, HopLimit: 64,
			SGID: gid("fe80::2:c903:0:1"), DGID: gid("fe80::2:c903:0:2")}},
	{"GRH", "every bit", `6f ff ff ff ff ff 1b ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
		ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff`,
		ib.GRHFields{TClass: 0xff, FlowLabel: 0xfffff, PayLen: 0xffff, HopLimit: 0xff,
			SGID: gid("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), DGID: gid("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}},
	{"BTH", "multicast", "64 40 ff ff 00 ff ff ff 00 0d e6 f8",
		ib.BTHFields{OpCode: ib.OpUDSendOnly, MigReq: true, PKey: 0xffff, DestQP: ib.QPMulticast, PSN: 0x0de6f8}},
	{"BTH", "congestion notification", "81 00 ff ff 40 00 04 56 00 00 00 00",
		ib.BTHFields{OpCode: ib.OpCNP, PKey: 0xffff, BECN: true, DestQP: 0x456}},
	{"BTH", "solicited, padded, congested", "65 b0 80 01 80 00 01 23 80 ff ff ff",
		ib.BTHFields{OpCode: ib.OpUDSendOnlyImm, Solicited: true, PadCnt: 3, PKey: 0x8001, FECN: true, DestQP: 0x123,
			AckReq: true, PSN: 0xffffff}},
	{"DETH", "IPoIB", "00 00 0b 1b 00 00 00 48", ib.DETHFields{QKey: ib.QKeyIPoIB, SrcQP: 0x48}},
	{"DETH", "every bit", "ff ff ff ff 00 ff ff ff", ib.DETHFields{QKey: 0xffffffff, SrcQP: 0xffffff}},
}

func TestHeaders(t *testing.T) {
	for _, h := range headers {
		checkCodec(t, h.codec, h.name, unhex(t, h.hex), h.want)
	}
}

// checkCodec converts bytes to fields and back, and checks that one byte less is rejected.
func checkCodec(t *testing.T, name, what string, wire []byte, want any) {
	t.Helper()
	c := codecs[name]
	if len(wire) != c.len {
		t.Fatalf("%s, %s: the case has %d bytes, the header %d", name, what, len(wire), c.len)
	}
	got, ok := c.parse(append(bytes.Clone(wire), 0xaa))
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%s, %s: parsed\n got %+v\nwant %+v", name, what, got, want)
	}
	b := bytes.Repeat([]byte{0xaa}, c.len+1) // Put writes each byte of its header and no other
	c.put(b, want)
	if !bytes.Equal(b[:c.len], wire) || b[c.len] != 0xaa {
		t.Errorf("%s, %s: put\n got % x\nwant % x aa", name, what, b, wire)
	}
	for n := range wire {
		if _, ok := c.parse(wire[:n]); ok {
			t.Errorf("%s, %s: taken from %d bytes", name, what, n)
		}
	}
}

// A bitmap says which bits of which bytes, by offset.
type bitmap map[int]byte

func (m bitmap) fill(from, to int) bitmap {
	for i := from; i < to; i++ {
		m[i] = 0xff
	}
	return m
}

// lost are the bits that do not reach the fields: reserved ones, and versions that Put always writes as they must be.
// All others belong to exactly one field.
var lost = map[string]bitmap{
	"LRH":            {0: 0x0f, 1: 0x0c, 4: 0xf8},
	"GRH":            {0: 0xf0, 6: 0xff},
	"BTH":            {1: 0x0f, 4: 0x3f, 8: 0x7f},
	"DETH":           {4: 0xff},
	"MAD":            {0: 0xff, 18: 0xff, 19: 0xff},
	"SA":             {22: 0xff, 23: 0xff},
	"MCMemberRecord": {49: 0x7f, 50: 0xff, 51: 0xff},
	"PathRecord":     bitmap{44: 0x70}.fill(58, 64),
	"PortInfoRecord": bitmap{3: 0xff, 36: 0xf0, 37: 0xff, 38: 0xf8, 39: 0xff, 40: 0xf0}.fill(4, 12).fill(24, 36).fill(41, 68),
	"GUIDInfoRecord": bitmap{}.fill(3, 8),
	"ServiceRecord":  bitmap{}.fill(26, 28).fill(32, 48),
	"Notice":         {},
	"SIDR_REQ":       {6: 0xff, 7: 0xff},
	"SIDR_REP":       bitmap{6: 0xff, 7: 0xff, 11: 0xff}.fill(24, 96), // no additional information is announced
	"CMA":            bitmap{0: 0xff, 1: 0xbf}.fill(4, 36),            // without IP version there are no addresses
	"ARP":            {},
}

// rejected are the bits that a checking constructor rejects.
var rejected = map[string]bitmap{"SIDR_REP": {5: 0x80}, "ARP": bitmap{}.fill(0, 6)}

// TestEveryBit sets each bit of an otherwise empty header. It comes back alone, or not at all where it may be lost.
func TestEveryBit(t *testing.T) {
	for name, c := range codecs {
		base := empty(t, name)
		for i := range 8 * c.len {
			m := byte(0x80) >> (i % 8)
			b := bytes.Clone(base)
			b[i/8] ^= m
			f, ok := c.parse(b)
			if want := rejected[name][i/8]&m == 0; ok != want {
				t.Errorf("%s: byte %d ^ %#02x: taken %v, want %v", name, i/8, m, ok, want)
			}
			if !ok {
				continue
			}
			want := b
			if lost[name][i/8]&m != 0 {
				want = base
			}
			out := bytes.Repeat([]byte{0xaa}, c.len)
			if c.put(out, f); !bytes.Equal(out, want) {
				t.Errorf("%s: byte %d ^ %#02x: written again\n got % x\nwant % x", name, i/8, m, out, want)
			}
		}
	}
}

// empty returns a header with all fields zero, as Put writes it.
func empty(t *testing.T, name string) []byte {
	b := make([]byte, codecs[name].len)
	f, ok := codecs[name].parse(b)
	if !ok {
		t.Fatalf("%s: no fields from zero bytes", name)
	}
	codecs[name].put(b, f)
	return b
}

func TestReservedBits(t *testing.T) {
	for name, has := range map[string]func([]byte) bool{
		"LRH":  func(b []byte) bool { h, _ := ib.AsLRH(b); return h.HasReserved() },
		"BTH":  func(b []byte) bool { h, _ := ib.AsBTH(b); return h.HasReserved() },
		"DETH": func(b []byte) bool { h, _ := ib.AsDETH(b); return h.HasReserved() },
		"MAD":  func(b []byte) bool { h, _ := ib.AsMAD(b); return h.HasReserved() },
	} {
		versions := map[string]bitmap{"LRH": {0: 0x0f}, "BTH": {1: 0x0f}, "MAD": {0: 0xff}}[name]
		for i := range 8 * codecs[name].len {
			b, m := make([]byte, codecs[name].len), byte(0x80)>>(i%8)
			b[i/8] = m
			if want := (lost[name][i/8]&^versions[i/8])&m != 0; has(b) != want {
				t.Errorf("%s: byte %d = %#02x: reserved %v, want %v", name, i/8, m, has(b), want)
			}
		}
	}
}

func TestImmDt(t *testing.T) {
	b := unhex(t, "00 00 04 56 aa")
	h, ok := ib.AsImmDt(b)
	if !ok || h.Value() != 0x456 {
		t.Errorf("ImmDt %#x, %v", h.Value(), ok)
	}
	if ib.PutImmDt(b, 0x89abcdef); !bytes.Equal(b, unhex(t, "89 ab cd ef aa")) {
		t.Errorf("put % x", b)
	}
	if _, ok := ib.AsImmDt(b[:3]); ok {
		t.Error("taken from 3 bytes")
	}
}

// TestPutPanics checks that Put panics without enough room, which is the one thing that a caller must provide:
// otherwise a header would be written in part.
func TestPutPanics(t *testing.T) {
	for name, c := range codecs {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was put into %d bytes", name, c.len-1)
				}
			}()
			full := empty(t, name)
			f, _ := c.parse(full)
			c.put(full[:c.len-1:c.len-1], f)
		}()
	}
}
