// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestScript tests a client that writes everything before it reads: it gets results, and nothing else.
func TestScript(t *testing.T) {
	c := newRig(t).dial("unix")
	c.send("show hosts 10.9.0.1 | match 10\nshow hosts | count\r\nshow version | match nothing")
	if err := c.Conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text := c.rest(); !strings.HasPrefix(text, "ADDRESS") || !strings.HasSuffix(text, "  count  1000\n") || strings.Contains(text, "test#") {
		t.Errorf("%q", text)
	}
}

// TestScriptStopsShort: no prompt comes while a line has begun to come.
func TestScriptStopsShort(t *testing.T) {
	c := newRig(t).dial("unix")
	c.send("show hosts | count\nshow ver")
	text := c.await("1000\n")
	time.Sleep(50 * time.Millisecond) // in which a prompt would come
	c.send("sion | match nothing\nquit\n")
	if text += c.rest(); strings.Contains(text, "test#") {
		t.Errorf("%q", text)
	}
}
