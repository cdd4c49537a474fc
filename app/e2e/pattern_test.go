// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/hex"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 64, 4096} {
		b := Pattern(0x01020304, n)
		if seq, ok := CheckPattern(b); !ok || (n >= patternStamp && seq != 0x01020304) {
			t.Errorf("%d bytes: seq %#x, ok %t", n, seq, ok)
		}
		for i := range b {
			b[i] ^= 0x10
			if _, ok := CheckPattern(b); ok {
				t.Errorf("%d bytes: byte %d changed unnoticed", n, i)
			}
			b[i] ^= 0x10
		}
	}
}

// TestPatternTwin holds Go's pattern to udend's: these came from pattern.c.
func TestPatternTwin(t *testing.T) {
	for _, c := range []struct {
		seq  uint32
		n    int
		want string
	}{
		{0x9, 3, "ec8b90"},
		{0x1, 8, "5643ef8a00000001"},
		{0x1, 16, "97cbd037000000010e6bbbd348c1ce29"},
		{0xfffffffe, 21, "829dbe71fffffffeca44113099b60b739f3b54aaab"},
	} {
		if got := hex.EncodeToString(Pattern(c.seq, c.n)); got != c.want {
			t.Errorf("Pattern(%d, %d) = %s, want %s", c.seq, c.n, got, c.want)
		}
	}
}
