// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/app/slowtest"
)

// alive checks that a client is served as if there were no others.
func (r *rig) alive(t *testing.T) {
	t.Helper()
	c := r.dial("unix")
	start := time.Now()
	c.send("show version\nquit\n")
	if text := c.rest(); !strings.Contains(text, "running for") {
		t.Errorf("%q", text)
	}
	if d := time.Since(start); slowtest.Late(d, 3*time.Second) {
		t.Errorf("an answer took %v", d)
	}
}

// TestGarbage sends random bytes, many of them telnet commands, from many clients at once.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	var all sync.WaitGroup
	for seed := range uint64(8) {
		c := r.dial("tcp")
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			b := make([]byte, 64<<10)
			for i := range b {
				if b[i] = byte(rnd.Uint32()); rnd.Uint32()%4 == 0 {
					b[i] = iac - byte(rnd.Uint32()%16)
				}
			}
			_ = c.SetDeadline(time.Now().Add(2 * time.Second)) // it may be cut off
			go func() {
				for drain := make([]byte, 4096); ; {
					if _, err := c.Read(drain); err != nil {
						return
					}
				}
			}()
			_, _ = c.Write(b)
		})
	}
	r.alive(t)
	all.Wait()
	r.alive(t)
}

// TestEscapeWithoutEnd sends an escape sequence that never ends: the line editor must not loop on it.
func TestEscapeWithoutEnd(t *testing.T) {
	c := newRig(t).telnetClient(80, 24)
	c.send("\x1b[" + strings.Repeat("0", 2000))
	c.rest()
}

// TestEndlessLine checks that a line without end is rejected, and that the session goes on.
func TestEndlessLine(t *testing.T) {
	r := newRig(t)
	c := r.dial("unix")
	c.await("test# ")
	for range 100 {
		c.send(strings.Repeat("x", 10_000))
	}
	c.send("\nshow version\n")
	c.await("is longer than")
	c.await("running for")
	e := r.telnetClient(80, 24)
	go func() { // what is echoed must be read
		for range 10 {
			if _, err := e.Write(bytes.Repeat([]byte("y"), 1000)); err != nil {
				return
			}
		}
		_, _ = e.Write([]byte("\r\x00")) // an error shows below
	}()
	e.await("write one of")
}

// TestSlowReaders checks that clients that do not read lose their sessions, and do not slow the others.
func TestSlowReaders(t *testing.T) {
	r := newRig(t)
	var slow []*client
	for range 4 {
		c := r.dial("tcp")
		if err := c.Conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
		go func() {
			for range 10_000 { // more than any buffer holds
				if _, err := c.Write([]byte("show hosts limit 1000\n")); err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(500 * time.Millisecond)
	r.alive(t)
	for _, c := range slow {
		c.Close()
	}
}

// TestCutOff checks that a session whose client does not read ends in time.
func TestCutOff(t *testing.T) {
	ours, theirs := net.Pipe() // has no buffer at all
	defer theirs.Close()
	o := &output{conn: ours, wait: 200 * time.Millisecond}
	done := make(chan error)
	go func() { done <- o.raw([]byte("x")) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("written to nobody")
		}
	case <-time.After(within):
		t.Error("it waits for ever")
	}
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still there")
	}
}

// TestIdle checks that an idle session ends, and one with a running command does not.
func TestIdle(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Idle = 300 * time.Millisecond })
	busy := r.dial("unix")
	busy.send("watch 0.2 show rates\n")
	if text := r.dial("tcp").rest(); !strings.Contains(text, "the session ends") {
		t.Errorf("%q", text)
	}
	for range 6 {
		busy.await("roce_to_ib")
	}
	busy.Close()
}

// TestTypedAhead checks that type-ahead is bounded: a client that sends more is not read until there is room, and no
// other client waits.
func TestTypedAhead(t *testing.T) {
	in := newInput()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.put(bytes.Repeat([]byte("x"), 2*queueMost), false)
	}()
	waiting := func() int {
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.queue)
	}
	for deadline := time.Now().Add(within); waiting() < queueMost && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for more
	if n := waiting(); n != queueMost {
		t.Errorf("%d bytes are waiting", n)
	}
	in.end(net.ErrClosed)
	<-done
}
