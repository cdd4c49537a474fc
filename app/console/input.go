// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// lineMost bounds a line; a longer one is rejected as a whole.
	lineMost = 4096
	// queueMost bounds type-ahead. Further input waits in the socket.
	queueMost = 64 << 10
)

// input queues what a client has typed.
type input struct {
	mu      sync.Mutex
	changed *sync.Cond
	queue   []byte
	ended   error
	stop    func() // ends the running command; nil: none runs
	keys    bool   // single keys can end the command; else only Ctrl-C
}

func newInput() *input {
	in := &input{}
	in.changed = sync.NewCond(&in.mu)
	return in
}

// put queues input. It blocks while the queue is full.
func (in *input) put(data []byte, keys bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, b := range data {
		if in.stop != nil && in.stops(b, keys) {
			continue
		}
		for len(in.queue) >= queueMost && in.ended == nil {
			in.changed.Wait()
		}
		in.queue = append(in.queue, b)
	}
	in.changed.Broadcast()
}

// stops ends the running command if b asks for it, and reports whether b is consumed. From a client that sends lines,
// Ctrl-C, an empty line or a line with q end it.
func (in *input) stops(b byte, keys bool) bool {
	switch {
	case b == interrupt:
		in.stop()
		return true
	case !in.keys:
		return false
	case keys:
		if b == 'q' || b == 'Q' || b == '\r' {
			in.stop()
		}
		return true
	case b != '\r':
		return false
	}
	line := in.queue[bytes.LastIndexByte(in.queue, '\r')+1:]
	if len(line) == 0 || string(line) == "q" {
		in.queue = in.queue[:len(in.queue)-len(line)]
		in.stop()
		return true
	}
	return false
}

// end marks the end of the input.
func (in *input) end(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended == nil {
		in.ended = err
	}
	if in.stop != nil {
		in.stop()
	}
	in.changed.Broadcast()
}

// running calls stop when the client ends the command, until done is called. keys: besides Ctrl-C, q and Enter end it.
func (in *input) running(keys bool, stop func()) (done func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stop, in.keys = stop, keys
	if in.ended != nil && keys { // a command that needs a client to end it must not start without one
		stop()
	}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.stop = nil
	}
}

// Read implements io.Reader for the line editor. Ctrl-C becomes the keys that clear the line and end it.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 { // the editor's buffer is full with an escape sequence that does not end
		return 0, io.ErrShortBuffer
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) == 0 {
		if in.ended != nil {
			return 0, in.ended
		}
		in.changed.Wait()
	}
	n := 0
	for n < len(p) && len(in.queue) > 0 {
		b := in.queue[0]
		in.queue = in.queue[1:]
		if b == interrupt {
			const toEnd, toBegin = 5, 21 // Ctrl-E, Ctrl-U
			in.queue = append([]byte{toEnd, toBegin, '\r'}, in.queue...)
			continue
		}
		p[n] = b
		n++
		if b == '\r' || b == searchKey { // one line at a time: the rest may be input of a command, or of a search
			break
		}
	}
	in.changed.Broadcast()
	return n, nil
}

// key waits for a key; 0 at the end of the input.
func (in *input) key() byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) == 0 {
		if in.ended != nil {
			return 0
		}
		in.changed.Wait()
	}
	b := in.queue[0]
	in.queue = in.queue[1:]
	in.changed.Broadcast()
	return b
}

// unread puts a key back.
func (in *input) unread(b byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue = append([]byte{b}, in.queue...)
}

// line waits for a line. whole is false for a line that is too long.
func (in *input) line() (line string, whole bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var b []byte
	whole = true
	for {
		for len(in.queue) == 0 {
			if in.ended != nil {
				if len(b) > 0 && whole { // the last line needs no line end
					return string(b), true, nil
				}
				return "", false, in.ended
			}
			in.changed.Wait()
		}
		x := in.queue[0]
		in.queue = in.queue[1:]
		in.changed.Broadcast()
		switch {
		case x == '\r':
			return string(b), whole, nil
		case x == interrupt:
			b, whole = nil, true
		case len(b) == lineMost && (len(b) == 0 || b[0] != oneShotMark) || len(b) == queueMost:
			whole = false
		default:
			b = append(b, x)
		}
	}
}

// waiting reports whether more has come, or the input has ended: of a client that sends lines, part of one comes before the rest only
// from a program that has sent more than a line.
func (in *input) waiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.queue) > 0 || in.ended != nil
}

// first waits a short time for the first byte and returns it; 0 without one.
func (in *input) first(timeout time.Duration, negotiated func() bool) byte {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		in.mu.Lock()
		queue, ended := in.queue, in.ended != nil
		in.mu.Unlock()
		switch {
		case len(queue) > 0:
			return queue[0]
		case ended || negotiated():
			return 0
		}
	}
	return 0
}
