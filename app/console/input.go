// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// lineMost bounds a line; a longer one is refused as a whole.
	lineMost = 4096
	// queueMost bounds what is typed ahead. Whoever has more waits.
	queueMost = 64 << 10
)

// input is what a client has typed and nobody has read.
type input struct {
	mu      sync.Mutex
	changed *sync.Cond
	queue   []byte
	ended   error
	stop    func() // ends the command that runs; nil: none does
	keys    bool   // each key counts, and one ends the command; else lines do
}

func newInput() *input {
	in := &input{}
	in.changed = sync.NewCond(&in.mu)
	return in
}

// put adds what was typed. It waits where too much is waiting already.
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

// stops ends the command that runs if b says so, or takes the key that says nothing. Where lines count, Ctrl-C does, or a
// line with q or nothing.
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

// end says that no more comes.
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

// running has stop called when the client wants the command to end, until what it returns is called. keys: any of a few keys
// says so, beside Ctrl-C.
func (in *input) running(keys bool, stop func()) (done func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stop, in.keys = stop, keys
	if in.ended != nil && keys { // what never ends by itself must not begin without anybody to end it
		stop()
	}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.stop = nil
	}
}

// Read implements io.Reader for who edits lines. Ctrl-C ends the line and empties it.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 { // the editor's buffer is full of one key that does not end: somebody plays with it
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
		if b == '\r' { // one line at a time: what follows may be for a command
			break
		}
	}
	in.changed.Broadcast()
	return n, nil
}

// key waits for one key. 0: no more comes.
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

// line waits for a line. Of one that is too long it returns the beginning, and false.
func (in *input) line() (line string, whole bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var b []byte
	whole = true
	for {
		for len(in.queue) == 0 {
			if in.ended != nil {
				if len(b) > 0 && whole { // the last line needs no end
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

// waiting reports whether a whole line is there, or the end.
func (in *input) waiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return bytes.IndexByte(in.queue, '\r') >= 0 || in.ended != nil
}

// first waits for the first bytes, but not for long, and returns one of them; 0: nothing has come.
func (in *input) first(patience time.Duration, negotiated func() bool) byte {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
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
