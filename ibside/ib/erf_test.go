// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
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
	ts, got, ok := erftest.Parse(rec)
	if !ok || !bytes.Equal(got, packet) || !ts.Equal(at) {
		t.Errorf("%v, %v, % x", ok, ts, got)
	}
	for n := range rec {
		if _, _, ok := erftest.Parse(rec[:n]); ok {
			t.Errorf("taken from %d bytes of %d", n, len(rec))
		}
	}
}

func TestERFVariants(t *testing.T) {
	packet := frame(t, "ib-local")
	for _, n := range []int{0, 40} { // records without pad
		if _, got, ok := erftest.Parse(ib.AppendERF(nil, time.Unix(0, 0), packet[:n])); !ok || !bytes.Equal(got, packet[:n]) {
			t.Errorf("%d bytes: %v, % x", n, ok, got)
		}
	}
	for _, c := range []struct {
		name string
		edit func(rec []byte) []byte
		ok   bool
	}{
		{"as written", func(r []byte) []byte { return r }, true},
		{"bytes after the record", func(r []byte) []byte { return append(r, 1, 2, 3) }, true},
		{"link packets", func(r []byte) []byte { r[8] = 25; return r }, true},
		{"Ethernet", func(r []byte) []byte { r[8] = 2; return r }, false},
		{"two extension headers", func(r []byte) []byte {
			ext := []byte{0x83, 0, 0, 0, 0, 0, 0, 0, 0x03, 0, 0, 0, 0, 0, 0, 0}
			r[8] |= 0x80
			r[11] += 16
			return append(append(bytes.Clone(r[:16]), ext...), r[16:]...)
		}, true},
		{"extension headers without end", func(r []byte) []byte {
			for i := range r[16:] {
				r[16+i] |= 0x80
			}
			r[8] |= 0x80
			return r
		}, false},
		{"wlen beyond rlen", func(r []byte) []byte { r[15] = 49; return r }, false},
		{"rlen less than the header", func(r []byte) []byte { r[11] = 15; return r }, false},
	} {
		_, got, ok := erftest.Parse(c.edit(ib.AppendERF(nil, time.Unix(0, 0), packet)))
		if ok != c.ok || ok && !bytes.Equal(got, packet) {
			t.Errorf("%s: %v, want %v; % x", c.name, ok, c.ok, got)
		}
	}
	rec := ib.AppendERF(nil, time.Unix(0, 0), make([]byte, 100000))
	if _, got, ok := erftest.Parse(rec); !ok || len(got) != 8190 {
		t.Errorf("100000 bytes: %v, %d bytes back, want the largest packet, 8190", ok, len(got))
	}
}
