// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
)

func TestERF(t *testing.T) {
	packet := frame(t, "ib-local") // 42 bytes, so a record of 16 + 48
	at := time.Unix(1700000000, 123456789)
	rec := ib.AppendERF([]byte{0xaa}, at, packet)
	want := unhex(t, "aa 38dd9a1f 00f15365 15 04 0040 0000 002a")
	want = append(append(want, packet...), 0, 0, 0, 0, 0, 0)
	if !bytes.Equal(rec, want) {
		t.Errorf("record\n got % x\nwant % x", rec, want)
	}
	rec = rec[1:]
	r, ok := erftest.Parse(rec)
	if !ok || !bytes.Equal(r.Packet, packet) || !r.Time.Equal(at) || r.IsTruncated() {
		t.Errorf("%v, %+v", ok, r)
	}
	for n := range rec { // what a snap length leaves
		r, ok := erftest.Parse(rec[:n])
		has := min(max(n-16, 0), len(packet))
		if ok != (n >= 16) || ok && (!bytes.Equal(r.Packet, packet[:has]) || r.WireLen != 42 || r.IsTruncated() != (has < 42)) {
			t.Errorf("%d bytes of %d: %v, %+v", n, len(rec), ok, r)
		}
	}
}

// edit returns a function that replaces bytes of a record.
func edit(at int, with ...byte) func([]byte) []byte {
	return func(r []byte) []byte {
		copy(r[at:], with)
		return r
	}
}

// unpadded makes a record as ibdump writes it: not a multiple of 8 bytes long.
func unpadded(r []byte) []byte {
	n := 16 + int(binary.BigEndian.Uint16(r[14:]))
	binary.BigEndian.PutUint16(r[10:], uint16(n))
	return r[:n]
}

// extended puts two extension headers into a record.
func extended(r []byte) []byte {
	ext := []byte{0x83, 0, 0, 0, 0, 0, 0, 0, 0x03, 0, 0, 0, 0, 0, 0, 0}
	r[8] |= 0x80
	binary.BigEndian.PutUint16(r[10:], binary.BigEndian.Uint16(r[10:])+16)
	return slices.Concat(r[:16], ext, r[16:])
}

// endless makes extension headers of all that follows the header.
func endless(r []byte) []byte {
	for i := range r[16:] {
		r[16+i] |= 0x80
	}
	return edit(8, 0x95)(r)
}

// erfVariants are records of a packet of 42 bytes as others write them, and how many bytes of it are read; -1: it is no
// record.
var erfVariants = []struct {
	name string
	edit func(rec []byte) []byte
	has  int
}{
	{"as written", edit(0), 42},
	{"without pad", unpadded, 42},
	{"without pad, the next record behind it", func(r []byte) []byte { return append(unpadded(r), r[:20]...) }, 42},
	{"without pad, two extension headers", func(r []byte) []byte { return extended(unpadded(r)) }, 42},
	{"without pad, truncated by the file", func(r []byte) []byte { return unpadded(r)[:16+41] }, 41},
	{"padded to 4 bytes", func(r []byte) []byte { return edit(11, 16+44)(r)[:16+44] }, 42},
	{"bytes after the record", func(r []byte) []byte { return append(r, 1, 2, 3) }, 42},
	{"the pad is missing", func(r []byte) []byte { return r[:16+42] }, 42},
	{"link packets", edit(8, 25), 42},
	{"Ethernet", edit(8, 2), -1},
	{"two extension headers", extended, 42},
	{"truncated in the second extension header", func(r []byte) []byte { return extended(r)[:16+15] }, -1},
	{"truncated behind the extension headers", func(r []byte) []byte { return extended(r)[:16+16] }, 0},
	{"extension headers without end", endless, -1},
	{"extension headers up to rlen", func(r []byte) []byte { return edit(11, 16+8)(endless(r)) }, -1},
	{"truncated by the writer, padded", edit(11, 16+40), 40},
	{"truncated by the writer, without pad", edit(11, 16+37), 37},
	{"truncated to nothing", edit(11, 16), 0},
	{"rlen less than the header", edit(11, 15), -1},
	{"rlen 0", edit(10, 0, 0), -1},
}

func TestERFVariants(t *testing.T) {
	packet := frame(t, "ib-local")
	for _, c := range erfVariants {
		r, ok := erftest.Parse(c.edit(ib.AppendERF(nil, time.Unix(0, 0), packet)))
		if ok != (c.has >= 0) {
			t.Errorf("%s: %v", c.name, ok)
		} else if ok && (!bytes.Equal(r.Packet, packet[:c.has]) || r.WireLen != 42 || r.IsTruncated() != (c.has < 42)) {
			t.Errorf("%s: %d bytes, want %d: %+v", c.name, len(r.Packet), c.has, r)
		}
	}
	if r, ok := erftest.Parse(edit(15, 49)(ib.AppendERF(nil, time.Unix(0, 0), packet))); !ok || len(r.Packet) != 48 || r.WireLen != 49 {
		t.Errorf("wlen beyond rlen: %v, %+v", ok, r)
	}
	for n := range len(packet) + 1 { // with every pad
		if r, ok := erftest.Parse(ib.AppendERF(nil, time.Unix(0, 0), packet[:n])); !ok || !bytes.Equal(r.Packet, packet[:n]) || r.IsTruncated() {
			t.Errorf("%d bytes: %v, %+v", n, ok, r)
		}
	}
	rec := ib.AppendERF(nil, time.Unix(0, 0), make([]byte, 100000))
	if r, ok := erftest.Parse(rec); !ok || len(r.Packet) != 8190 {
		t.Errorf("100000 bytes: %v, %d bytes back, want the largest packet, 8190", ok, len(r.Packet))
	}
}
