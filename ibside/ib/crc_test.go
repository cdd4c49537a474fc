// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"causeway/ibside/ib"
)

// crcByBit is the CRC of n bits as the standards draw it: a shift register, the polynomial not reflected, one bit at a
// time, each byte's least significant bit first. It shares no table, no library and no direction with the code tested.
func crcByBit(n int, poly uint64, p []byte) uint64 {
	all := uint64(1)<<n - 1
	reg := all
	for _, b := range p {
		for i := range 8 {
			in := uint64(b) >> i & 1
			out := reg >> (n - 1) & 1
			reg = reg << 1 & all
			if in != out {
				reg ^= poly
			}
		}
	}
	return bits.Reverse64(^reg&all) >> (64 - n)
}

// masked returns the bytes an ICRC is made over, field by field from the standards' lists of variant fields.
func masked(e encap, p []byte) []byte {
	q := bytes.Clone(p)
	ones := func(from, to int) {
		for i := from; i < to; i++ {
			q[i] = 0xff
		}
	}
	route := func(at int) { q[at] |= 0x0f; ones(at+1, at+4); ones(at+7, at+8) } // GRH and IPv6 alike
	bth := 0
	switch e {
	case local:
		q[0] |= 0xf0
		bth = 8
	case global:
		ones(0, 8)
		route(8)
		bth = 48
	case rocev1:
		route(0)
		bth = 40
	case ipv4:
		ones(1, 2)
		ones(8, 9)
		ones(10, 12)
		ones(26, 28)
		bth = 28
	case ipv6:
		route(0)
		ones(46, 48)
		bth = 48
	}
	ones(bth+4, bth+5)
	if e == local || e == global {
		return q
	}
	return append(bytes.Repeat([]byte{0xff}, 8), q...)
}

func icrcByBit(e encap, p []byte) uint32 { return uint32(crcByBit(32, 0x04c11db7, masked(e, p))) }

func TestCheckStrings(t *testing.T) {
	s := []byte("123456789")
	if got := crcByBit(32, 0x04c11db7, s); got != 0xcbf43926 {
		t.Errorf("bit by bit: CRC-32 of %q is %08x, want cbf43926", s, got)
	}
	if got := crcByBit(16, 0x100b, s); got != uint64(ib.VCRC(s)) || got != 0x0a3d {
		t.Errorf("CRC-16 of %q is %04x bit by bit and %04x by table, want 0a3d", s, got, ib.VCRC(s))
	}
	var b [6]byte
	ib.PutICRC(b[:], 0xcbf43926)
	ib.PutVCRC(b[4:], 0x0a3d)
	if want := unhex(t, "26 39 f4 cb 3d 0a"); !bytes.Equal(b[:], want) {
		t.Errorf("on the wire: % x, want % x", b, want)
	}
}

func TestExampleCRCs(t *testing.T) {
	seen := map[encap]int{}
	for _, x := range examples(t) {
		e, p, wire := x.covered(t)
		seen[e]++
		want, _ := ib.ICRCField(wire)
		if got := e.icrc()(p); got != want {
			t.Errorf("%s: %v: ICRC %08x, want %08x", x.name, e, got, want)
		}
		if got := icrcByBit(e, p); got != want {
			t.Errorf("%s: %v: ICRC bit by bit %08x, want %08x", x.name, e, got, want)
		}
		if x.link != "ib" {
			continue
		}
		n := len(x.frame) - ib.VCRCLen
		want16, _ := ib.VCRCField(x.frame[n:])
		if got, slow := ib.VCRC(x.frame[:n]), crcByBit(16, 0x100b, x.frame[:n]); got != want16 || slow != uint64(want16) {
			t.Errorf("%s: VCRC %04x, bit by bit %04x, want %04x", x.name, got, slow, want16)
		}
	}
	if len(seen) != 5 {
		t.Errorf("examples cover %v, want all five encapsulations", seen)
	}
}

// TestWalkThrough computes the ICRC over the bytes that the rules, applied by hand, leave of three packets.
func TestWalkThrough(t *testing.T) {
	for _, c := range []struct{ name, fed string }{
		{"ib-local", `f0 02 00 07 00 0a 00 04 64 70 ff ff ff 00 01 23 00 00 00 01
			01 23 45 67 00 00 04 56 48 65 6c 6c 6f 00 00 00`},
		{"ib-global", `ff ff ff ff ff ff ff ff 6f ff ff ff 00 20 1b ff
			fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01 fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 02
			64 70 ff ff ff 00 01 23 00 00 00 01 01 23 45 67 00 00 04 56 48 65 6c 6c 6f 00 00 00`},
		{"roce2-ipv4", `ff ff ff ff ff ff ff ff 45 ff 00 3c 00 00 40 00 ff 11 ff ff 0a 0a 00 01 0a 0a 00 02
			e3 41 12 b7 00 28 ff ff 64 70 ff ff ff 00 01 23 00 00 00 01
			01 23 45 67 00 00 04 56 48 65 6c 6c 6f 00 00 00`},
	} {
		fed := unhex(t, c.fed)
		e, p, wire := find(t, c.name).covered(t)
		if got := masked(e, p); !bytes.Equal(got, fed) {
			t.Errorf("%s: mask\n got % x\nwant % x", c.name, got, fed)
		}
		if got, want := e.icrc()(p), binary.LittleEndian.Uint32(wire); got != want || crcByBit(32, 0x04c11db7, fed) != uint64(want) {
			t.Errorf("%s: ICRC %08x, of the bytes fed %08x, want %08x", c.name, got, crcByBit(32, 0x04c11db7, fed), want)
		}
	}
}

// TestSurvivingBits flips every bit that an ICRC could cover, one at a time, and compares the bits that do not change
// the ICRC with the variant fields: no more, no less.
func TestSurvivingBits(t *testing.T) {
	want := map[encap]map[int]byte{
		local: {0: 0xf0, 12: 0xff},
		global: {
			0: 0xff, 1: 0xfc, 2: 0xff, 3: 0xff, 4: 0xff, 5: 0xff, 6: 0xff, 7: 0xff, // the LNH says which rule applies
			8: 0x0f, 9: 0xff, 10: 0xff, 11: 0xff, 15: 0xff, 52: 0xff,
		},
		rocev1: {0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 44: 0xff},
		ipv4:   {1: 0xff, 8: 0xff, 10: 0xff, 11: 0xff, 26: 0xff, 27: 0xff, 32: 0xff},
		ipv6:   {0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 46: 0xff, 47: 0xff, 52: 0xff},
	}
	for _, x := range examples(t) {
		e, p, _ := x.covered(t)
		got, q := map[int]byte{}, bytes.Clone(p)
		good := e.icrc()(p)
		for i := range q {
			for m := byte(0x80); m != 0; m >>= 1 {
				q[i] ^= m
				if e.icrc()(q) == good {
					got[i] |= m
				}
				q[i] ^= m
			}
		}
		if !maps.Equal(got, want[e]) {
			t.Errorf("%s: %v: bits that do no harm: %x, want %x", x.name, e, got, want[e])
		}
	}
}

func TestSameICRC(t *testing.T) {
	ibPacket := frame(t, "ib-global")
	n := len(ibPacket) - 6
	if a, b := ib.ICRCIB(ibPacket[:n]), ib.ICRCRoCEv1(ibPacket[8:n]); a != b {
		t.Errorf("the same GRH and transport: %08x on InfiniBand, %08x on RoCEv1", a, b)
	}
	a, b := frame(t, "roce2-ipv6"), frame(t, "roce2-ipv6-checksum")
	if bytes.Equal(a, b) || !bytes.Equal(a[len(a)-4:], b[len(b)-4:]) {
		t.Error("the UDP checksum must differ, and the ICRC must not cover it")
	}
}

func TestICRCRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := encap(rapid.IntRange(0, 4).Draw(t, "encapsulation"))
		p := rapid.SliceOfN(rapid.Byte(), 60, 300).Draw(t, "packet")
		switch e {
		case local:
			p[1] = p[1]&^3 | 2
		case global:
			p[1] |= 3
		case ipv4:
			p[0] = 0x45
		case ipv6:
			p[0] = 0x60 | p[0]&0x0f
		}
		before := bytes.Clone(p)
		if got, want := e.icrc()(p), icrcByBit(e, p); got != want {
			t.Fatalf("%v: %08x, bit by bit %08x", e, got, want)
		}
		if !bytes.Equal(p, before) {
			t.Fatalf("%v: the packet was changed", e)
		}
		if got, want := ib.VCRC(p), crcByBit(16, 0x100b, p); uint64(got) != want {
			t.Fatalf("VCRC %04x, bit by bit %04x", got, want)
		}
	})
}

// TestShortCRC checks that no function panics on bytes that are too few for a packet.
func TestShortCRC(t *testing.T) {
	for _, x := range examples(t) {
		e, p, _ := x.covered(t)
		for n := range p {
			e.icrc()(p[:n])
		}
	}
	if _, ok := ib.ICRCField(make([]byte, 3)); ok {
		t.Error("an ICRC was read from 3 bytes")
	}
	if _, ok := ib.VCRCField(make([]byte, 1)); ok {
		t.Error("a VCRC was read from 1 byte")
	}
	b := make([]byte, 13)
	if ib.PutCRCs(b) || !bytes.Equal(b, make([]byte, 13)) {
		t.Error("PutCRCs wrote into 13 bytes, which hold no LRH and two CRCs")
	}
}

func TestPutCRCs(t *testing.T) {
	for _, x := range examples(t) {
		if x.link != "ib" {
			continue
		}
		b := bytes.Clone(x.frame)
		clear(b[len(b)-6:])
		if !ib.PutCRCs(b) || !bytes.Equal(b, x.frame) {
			t.Errorf("%s: CRCs % x, want % x", x.name, b[len(b)-6:], x.frame[len(b)-6:])
		}
	}
}

func BenchmarkICRC(b *testing.B) {
	for _, n := range []int{64, 1024, 4096} {
		p := make([]byte, n)
		p[0] = 0x45
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				ib.ICRCRoCEv2(p)
			}
		})
	}
}

func BenchmarkVCRC(b *testing.B) {
	for _, n := range []int{64, 1024, 4096} {
		p := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				ib.VCRC(p)
			}
		})
	}
}
