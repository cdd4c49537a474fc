// SPDX-License-Identifier: Apache-2.0

package lacp

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// fromLinux is a LACPDU of the kernel's bonding driver (lacp_rate fast), before it has heard anybody.
const fromLinux = "0180c2000002 0200000000aa 8809 0101" +
	"0114 ffff 0200000000aa 000f 00ff 0001 47 000000" +
	"0214 ffff 000000000000 0001 00ff 0001 02 000000" +
	"0310 0000 000000000000000000000000" + "0000"

func frameOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, max(0, frameLen-len(b)))...)
}

func TestPDU(t *testing.T) {
	frame := frameOf(t, fromLinux)
	system := [6]byte{2, 0, 0, 0, 0, 0xaa}
	want := PDU{
		Actor:   End{0xffff, system, 15, 255, 1, Activity | Timeout | Aggregation | Defaulted},
		Partner: End{0xffff, [6]byte{}, 1, 255, 1, Timeout},
	}
	got, ok := Parse(frame)
	if !ok || got != want {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
	if back := want.Frame(system); !bytes.Equal(back, frame) {
		t.Errorf("%x; want %x", back, frame)
	}
	for name, change := range map[string]func(b []byte){
		"a later version":  func(b []byte) { b[atVersion] = 2 },
		"version 0":        func(b []byte) { b[atVersion] = 0 },
		"type of actor":    func(b []byte) { b[atActor] = 0x11 },
		"length of actor":  func(b []byte) { b[atActor+1] = 0 },
		"type of partner":  func(b []byte) { b[atPartner] = 0x12 },
		"type of the rest": func(b []byte) { b[atCollector], b[atCollector+1] = 0x7f, 0 },
	} {
		frame := frameOf(t, fromLinux)
		change(frame)
		if got, ok := Parse(frame); !ok || got != want {
			t.Errorf("another %s: %+v, %v", name, got, ok)
		}
	}
	for name, change := range map[string]func(b []byte) []byte{
		"short":       func(b []byte) []byte { return b[:frameLen-1] },
		"other group": func(b []byte) []byte { b[5] = 3; return b },
		"other type":  func(b []byte) []byte { b[13] = 8; return b },
		"marker":      func(b []byte) []byte { b[atSubtype] = 2; return b },
	} {
		if got, ok := Parse(change(frameOf(t, fromLinux))); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestMarker(t *testing.T) {
	marker := frameOf(t, "0180c2000002 0200000000aa 8809 0201 0110 0001 0200000000aa 01020304 0000 0000")
	want := frameOf(t, "0180c2000002 020000000001 8809 0201 0210 0001 0200000000aa 01020304 0000 0000")
	var got []byte
	b := New([6]byte{2, 0, 0, 0, 0, 1}, 2, func(port int, frame []byte) {
		if port == 1 {
			got = frame
		}
	})
	b.Receive(time.Time{}, 1, marker)
	if !bytes.Equal(got, want) {
		t.Errorf("%x; want %x", got, want)
	}
	got = nil
	b.Receive(time.Time{}, 1, want)
	if got != nil || b.Ports()[1].Invalid != 1 {
		t.Errorf("a response is answered: %x", got)
	}
}

// FuzzReceive checks that no frame harms a bond, and that what is read can be written.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, frameLen))
	linux, _ := hex.DecodeString(strings.ReplaceAll(fromLinux, " ", ""))
	f.Add(append(linux, make([]byte, frameLen-len(linux))...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if pdu, ok := Parse(frame); ok {
			if again, ok := Parse(pdu.Frame([6]byte{2})); !ok || again != pdu {
				t.Errorf("%+v, %v; want %+v", again, ok, pdu)
			}
		}
		now := time.Time{}.AddDate(1, 0, 0)
		b := New([6]byte{2, 0, 0, 0, 0, 1}, 2, func(_ int, frame []byte) {
			if len(frame) != frameLen {
				t.Errorf("a frame of %d bytes", len(frame))
			}
		})
		b.SetLink(now, 0, true)
		for range 5 {
			b.Receive(now, 0, frame)
			if next := b.Tick(now); !next.After(now) {
				t.Fatal("a tick is due at once")
			}
			now = now.Add(time.Second)
		}
		if n := b.Ports()[0].Sent; n > 3*6+5 {
			t.Errorf("%d frames were sent in five seconds", n)
		}
	})
}
