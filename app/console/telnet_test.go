// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestTelnet feeds bytes at once and one by one, and checks that data and answers are the same.
func TestTelnet(t *testing.T) {
	for _, c := range []struct{ name, in, data, answer string }{
		{"plain", "show", "show", ""},
		{"CR NUL", "a\r\x00b", "a\rb", ""},
		{"CR LF", "a\r\nb", "a\rb", ""},
		{"LF alone", "a\nb\n", "a\rb\r", ""},
		{"CR alone", "a\rb", "a\rb", ""},
		{"LF LF", "\n\n", "\r\r", ""},
		{"CR LF LF", "\r\n\n", "\r\r", ""},
		{"a doubled 255", "a\xff\xffb", "a\xffb", ""},
		{"accepts what was offered", "\xff\xfd\x01\xff\xfd\x03\xff\xfb\x1f", "", ""},
		{"window", "\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0x", "x", ""},
		{"window with a doubled 255", "\xff\xfa\x1f\x00\xff\xff\x00\x18\xff\xf0x", "x", ""},
		{"refuses other options, once", "\xff\xfd\x22\xff\xfd\x22\xff\xfb\x18\xff\xfb\x18", "", "\xff\xfc\x22\xff\xfe\x18"},
		{"wants no echo", "\xff\xfe\x01\xff\xfe\x01", "", "\xff\xfc\x01"},
		{"timing marks", "\xff\xfd\x06\xff\xfd\x06", "", "\xff\xfc\x06\xff\xfc\x06"},
		{"interrupt and break", "a\xff\xf4\xff\xf3b", "a\x03\x03b", ""},
		{"are you there", "\xff\xf6", "", "\r\n[yes]\r\n"},
		{"no answers to refusals", "\xff\xfe\x22\xff\xfc\x22", "", ""},
		{"a subnegotiation of something else", "\xff\xfa\x18\x00vt100\xff\xf0x", "x", ""},
		{"a subnegotiation without end", "\xff\xfa\x1f" + string(bytes.Repeat([]byte("x"), 1000)), "", ""},
	} {
		for _, piece := range []int{1, 1000} {
			x := telnet{}
			x.offer()
			var data, answer []byte
			for in := []byte(c.in); len(in) > 0; {
				n := min(piece, len(in))
				d, a := x.feed(in[:n])
				data, answer, in = append(data, d...), append(answer, a...), in[n:]
			}
			if string(data) != c.data || string(answer) != c.answer {
				t.Errorf("%s, by %d: data %q answer %q, want %q and %q", c.name, piece, data, answer, c.data, c.answer)
			}
			if c.name == "window" && (x.width != 80 || x.height != 24) || c.name == "window with a doubled 255" && x.width != 255 {
				t.Errorf("%s: %dx%d", c.name, x.width, x.height)
			}
			if len(x.sub) > subMost {
				t.Errorf("%s: %d bytes of a subnegotiation are kept", c.name, len(x.sub))
			}
		}
	}
	if got := string((&telnet{}).offer()); got != "\xff\xfb\x01\xff\xfb\x03\xff\xfd\x1f" {
		t.Errorf("offers %q", got)
	}
}

// TestTelnetAsked checks that a server that has offered nothing agrees to what is asked for, and only once.
func TestTelnetAsked(t *testing.T) {
	x := telnet{}
	_, answer := x.feed([]byte("\xff\xfd\x01\xff\xfd\x03\xff\xfb\x1f\xff\xfd\x01"))
	if string(answer) != "\xff\xfb\x01\xff\xfb\x03\xff\xfd\x1f" || !x.echo {
		t.Errorf("answers %q, echo %v", answer, x.echo)
	}
}

// TestTelnetNonsense checks that the number of answers to nonsense is bounded.
func TestTelnetNonsense(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := telnet{}
	answers := 0
	for range 1 << 20 {
		b := []byte{byte(r.Uint32())}
		if r.Uint32()%2 == 0 {
			b[0] = iac - byte(r.Uint32()%16)
		}
		_, a := x.feed(b)
		if len(a) > 9 {
			t.Fatalf("%q to one byte", a)
		}
		if len(a) == 3 && a[2] != optTM && a[2] != optEcho && a[2] != optSGA {
			answers++
		}
	}
	if answers > 2*256 {
		t.Errorf("%d answers about options", answers)
	}
}

// TestShown checks that ctl shows a session's text, and no telnet bytes.
func TestShown(t *testing.T) {
	x := telnet{}
	var got []byte
	for _, b := range []byte("\xff\xfb\x01a\xff\xffb\r\n\xff\xf1c") {
		got = append(got, x.shown([]byte{b})...)
	}
	if string(got) != "a\xffb\r\nc" {
		t.Errorf("%q", got)
	}
	if got := string(keysAsTelnet([]byte("a\r\xff"))); got != "a\r\x00\xff\xff" {
		t.Errorf("%q", got)
	}
}
