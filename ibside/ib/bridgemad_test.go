// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"testing"

	"causeway/ibside/ib"
)

// bridgeWire is a whole message of a bridge, zero behind the data.
func bridgeWire(t *testing.T, head string, data []byte) []byte {
	t.Helper()
	b := append(unhex(t, head), data...)
	return append(b, make([]byte, ib.MADLen-len(b))...)
}

func TestBridgeMAD(t *testing.T) {
	const tid, after = "01 4b 01 03 00 00 00 00 01 23 45 67 89 ab cd ef 00 01 00 00 ", " 00 00 00 00 00 00 00 00 00 00 00 00 00 02 43 57"
	full := bytes.Repeat([]byte{0xc5}, ib.BridgeDataLen)
	if len(full) != 216 {
		t.Errorf("there is room for %d bytes", len(full))
	}
	for name, c := range map[string]struct {
		length string
		data   []byte
	}{
		"nothing": {"00 00 00 00", []byte{}}, "three bytes": {"00 00 00 03", []byte{1, 2, 3}}, "all": {"00 00 00 d8", full},
	} {
		checkBridgeMAD(t, name, bridgeWire(t, tid+c.length+after, c.data), c.data)
	}
	b := make([]byte, ib.MADLen)
	h := ib.PutBridgeMAD(b, ib.BridgeMADFields{Data: append(full, 1)})
	if !bytes.Equal(h.Data(), full) {
		t.Error("data is not cut to what there is room for")
	}
	if b[20] = 1; len(h.Data()) != ib.BridgeDataLen {
		t.Errorf("a length that was changed afterwards gives %d bytes", len(h.Data()))
	}
}

func checkBridgeMAD(t *testing.T, name string, wire, data []byte) {
	t.Helper()
	h, ok := ib.AsBridgeMAD(append(bytes.Clone(wire), 0xaa))
	if !ok || ib.MAD(h).TID() != 0x0123456789abcdef || !bytes.Equal(h.Data(), data) || len(h) != ib.MADLen {
		t.Fatalf("%s: parsed %+v, %v", name, h, ok)
	}
	b := bytes.Repeat([]byte{0xaa}, ib.MADLen+1) // Put writes each byte of the MAD and no other
	if ib.PutBridgeMAD(b, ib.BridgeMADFields{TID: ib.MAD(h).TID(), Data: h.Data()}); !bytes.Equal(b[:ib.MADLen], wire) || b[ib.MADLen] != 0xaa {
		t.Errorf("%s: put\n got % x\nwant % x aa", name, b, wire)
	}
	for n := range wire {
		if _, ok := ib.AsBridgeMAD(wire[:n:n]); ok {
			t.Errorf("%s: taken from %d bytes", name, n)
		}
	}
}

// TestBridgeMADOthers: what differs in what tells messages of bridges is none.
func TestBridgeMADOthers(t *testing.T) {
	for name, x := range map[string]struct {
		at int
		by byte
	}{
		"base version": {0, 2}, "class": {1, 1}, "class version": {2, 3}, "method": {3, 0x80}, "attribute": {17, 2}, "length": {23, 0xd9},
		"length, above a byte": {22, 1}, "length, above all": {20, 0x80}, "OUI": {37, 1}, "OUI, last": {39, 1},
	} {
		b := ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{})
		if b[x.at] ^= x.by; isBridgeMAD(b) {
			t.Errorf("%s: it passes", name)
		}
	}
	b := ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{})
	if b[24], b[36] = 1, 1; !isBridgeMAD(b) {
		t.Error("what is reserved is not ignored")
	}
}

func isBridgeMAD(b []byte) bool {
	_, ok := ib.AsBridgeMAD(b)
	return ok
}
