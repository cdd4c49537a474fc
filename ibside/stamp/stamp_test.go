// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// message makes a message with a stamp.
func message(s Stamp, size int) []byte {
	b := make([]byte, size)
	Fill(b, s.Seed)
	s.Put(b)
	return b
}

// TestRead checks that Read returns what was written, and that each wrong bit and each missing byte is detected.
func TestRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(Len, 4096).Draw(t, "size")
		s := Stamp{
			Stream: rapid.Uint32().Draw(t, "stream"), Number: rapid.Uint64().Draw(t, "number"),
			Time: rapid.Uint64().Draw(t, "time"), Seed: rapid.Uint16().Draw(t, "seed"),
		}
		b := message(s, size)
		if got, v := Read(b); v != Whole || got != s {
			t.Fatalf("wrote %+v, read %+v, verdict %d", s, got, v)
		}
		at := rapid.IntRange(0, size*8-1).Draw(t, "bit")
		b[at/8] ^= 1 << (at % 8)
		got, v := Read(b)
		switch {
		case at/8 < atStream && v != Foreign, at/8 >= atStream && at/8 < Len && v != BadStamp:
			t.Errorf("a wrong bit in byte %d of the stamp: verdict %d", at/8, v)
		case at/8 >= Len && (v != Damaged || got != s):
			t.Errorf("a wrong bit in byte %d: verdict %d, %+v", at/8, v, got)
		}
		b[at/8] ^= 1 << (at % 8)
		if size > Len {
			cut := rapid.IntRange(Len, size-1).Draw(t, "cut")
			if got, v := Read(b[:cut]); v != Damaged || got != s {
				t.Errorf("cut to %d: verdict %d, %+v", cut, v, got)
			}
		}
		if got, v := Read(append(b, 0)); v != Damaged || got != s {
			t.Errorf("one byte more: verdict %d, %+v", v, got)
		}
	})
}

// TestMessage checks that messages of all lengths are intact, and that none is with a changed byte.
func TestMessage(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 64, 255, 4096} {
		before := time.Now()
		b := Message(1<<40+7, n)
		s, v := Read(b)
		if !v.Intact() || v.Stamped() != (n >= Len) || len(b) != n || v.Stamped() && (s.Number != 1<<40+7 || s.Sent().Before(before) || s.Sent().After(time.Now())) {
			t.Errorf("%d bytes: verdict %d, %+v", n, v, s)
		}
		for i := range b {
			b[i] ^= 0x10
			if _, v := Read(b); v.Intact() {
				t.Errorf("%d bytes: byte %d changed unnoticed", n, i)
			}
			b[i] ^= 0x10
		}
	}
	for name, b := range map[string][]byte{"text": []byte("hello"), "longer text": []byte(strings.Repeat("hello", 10))} {
		if _, v := Read(b); v != Foreign {
			t.Errorf("%s: verdict %d", name, v)
		}
	}
	mixed := append(Message(1, 64)[:Len], Message(2, 64)[Len:]...)
	if s, v := Read(mixed); v != Damaged || s.Number != 1 {
		t.Errorf("a stamp with another message's pattern: verdict %d, %+v", v, s)
	}
}

// TestTwin checks that stamp.h makes the same messages, byte by byte, and detects each wrong bit.
func TestTwin(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("this test compiles stamp.h: %v", err)
	}
	program := filepath.Join(t.TempDir(), "twin")
	if out, err := exec.Command(cc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/twin.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	var in, want strings.Builder
	add := func(s Stamp, size int) {
		fmt.Fprintln(&in, s.Stream, s.Number, s.Time, s.Seed, size)
		b := Message(s.Number, size)
		if size >= Len {
			b = message(s, size)
		}
		fmt.Fprintln(&want, hex.EncodeToString(b), 0)
	}
	for _, size := range []int{1, 7, 8, 9, 31, 32, 33, 47, 64, 1000} {
		add(Stamp{Number: 5, Seed: 5, Time: 1e18}, size)
		add(Stamp{0xfedcba98, 0x0123456789abcdef, 0xfedcba9876543210, 0xf00d}, size)
		add(Stamp{1<<32 - 1, 1<<64 - 1, 1<<64 - 1, 1<<16 - 1}, size)
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n")
	for i := range wanted {
		if i >= len(got) || got[i] != wanted[i] {
			t.Fatalf("line %d of\n%s\nis\n%s\nwant\n%s", i+1, in.String(), got[min(i, len(got)-1)], wanted[i])
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Message(1, 64))
	f.Add(Message(0, 3))
	f.Add(Message(9, 40)[:36])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, v := Read(b)
		if v == Whole && string(message(s, len(b))) != string(b) {
			t.Errorf("%+v does not make %x", s, b)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	m := Message(1, 1024)
	b.SetBytes(int64(len(m)))
	for b.Loop() {
		Read(m)
	}
}
