// SPDX-License-Identifier: Apache-2.0

package frame

import "testing"

// TestTimeCodes decodes every code and encodes it back, and checks that the times rise with the codes.
func TestTimeCodes(t *testing.T) {
	for _, bits := range []int{igmpCodeBits, mldCodeBits} {
		last := -1
		for code := range 2 << bits {
			n := decodeTime(uint16(code), bits)
			if n <= last {
				t.Fatalf("%d bits: code %#x is %d units, not more than %d", bits, code, n, last)
			}
			if got := encodeTime(n, bits); got != uint16(code) {
				t.Fatalf("%d bits: code %#x is %d units, encoded as %#x", bits, code, n, got)
			}
			if got := encodeTime(n-1, bits); code > 0 && got != uint16(code-1) {
				t.Fatalf("%d bits: %d units encoded as %#x, not cut to %#x", bits, n-1, got, code-1)
			}
			last = n
		}
		for _, n := range []int{last + 1, last + last/16, 2 * last, 1 << 30} {
			if got := encodeTime(n, bits); got != uint16(2<<bits-1) {
				t.Errorf("%d bits: %d units, longer than any code, encoded as %#x", bits, n, got)
			}
		}
	}
	if got := encodeTime(-1, igmpCodeBits); got != 0 {
		t.Errorf("a negative time encoded as %#x", got)
	}
}

// TestTimeCodeExamples compares with codes worked out by hand from the formulas of RFC 3376 §4.1.1 and RFC 3810 §5.1.3.
func TestTimeCodeExamples(t *testing.T) {
	for _, c := range []struct {
		code uint16
		bits int
		want int
	}{
		{127, igmpCodeBits, 127},
		{0x80, igmpCodeBits, 128},           // (16|0) << 3
		{0x9f, igmpCodeBits, 31 << 4},       // (16|15) << (1+3)
		{0xff, igmpCodeBits, 31 << 10},      // (16|15) << (7+3)
		{0x8000, mldCodeBits, 0x1000 << 3},  // (4096|0) << 3
		{0xffff, mldCodeBits, 0x1fff << 10}, // (4096|4095) << (7+3)
		{0x7fff, mldCodeBits, 32767},
	} {
		if got := decodeTime(c.code, c.bits); got != c.want {
			t.Errorf("%#x: got %d, want %d", c.code, got, c.want)
		}
	}
}
