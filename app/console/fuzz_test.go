// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// FuzzTelnet checks that bytes mean the same however they are split, and that few answers come of them.
func FuzzTelnet(f *testing.F) {
	for _, s := range []string{"show hosts\r\n", "\xff\xfd\x01\xff\xfb\x1f\xff\xfa\x1f\x00\xff\xff\x00\x18\xff\xf0x", "\xff\xfa\x18\x00vt100\xff\xf0",
		"a\r\x00b\r\nc\n\n", "\xff\xf4\xff\xf6\xff\xff", "\xff\xfb\xc9\xff\xfa\xc9show hosts\xff\xf0"} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint16) {
		whole, halves := telnet{}, telnet{}
		whole.offer()
		halves.offer()
		n := int(at) % (len(in) + 1)
		data, answer := whole.feed(in)
		d1, a1 := halves.feed(in[:n])
		d1, a1 = bytes.Clone(d1), bytes.Clone(a1)
		d2, a2 := halves.feed(in[n:])
		if !bytes.Equal(data, append(d1, d2...)) || !bytes.Equal(answer, append(a1, a2...)) {
			t.Errorf("data %q answer %q; in two parts %q %q, %q %q", data, answer, d1, d2, a1, a2)
		}
		if len(data) > len(in) || len(answer) > 9*len(in) || len(whole.sub) > whole.room() {
			t.Errorf("%d bytes became %d of data, %d of answers, and %d of a subnegotiation are kept", len(in), len(data), len(answer), len(whole.sub))
		}
	})
}

// FuzzSession sends a session anything over TCP, where it may only look, and checks that it ends with its client.
func FuzzSession(f *testing.F) {
	for _, s := range []string{"show hosts\nquit\n", "\xff\xfd\x01sh\t\x1b[A\x7f?\r", "watch 1 show rates\n", "login x\nlogin y\nlogin z\n", "top\nq"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newRig(t).dial("tcp")
		done := make(chan error, 1)
		go func() { _, err := io.Copy(io.Discard, c); done <- err }()
		_, _ = c.Write(in) // it may be cut off
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		select {
		case <-done:
		case <-time.After(within):
			t.Error("the session does not end")
		}
	})
}
