// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// queueBytes bounds the lines that wait for a reader: some seconds of the most that the rate limits let through.
	queueBytes = 1 << 20
	// patience is how long Close waits for a reader that takes nothing.
	patience = 5 * time.Second
)

// errFull is the error of a line that there is no room for.
var errFull = errors.New("logs: too many lines wait to be written")

// An Output writes lines in a goroutine of its own, so that a reader that is there but does not read, of a pipe that is
// full, holds up nobody who logs: management among them.
//
//	Write ─▶ lines, bounded ─▶ goroutine ─▶ standard error
//	   └▶ full: an error
//
// Its methods may be called from any goroutine.
type Output struct {
	to    io.Writer
	ended chan struct{}

	mu      sync.Mutex
	more    *sync.Cond      // under mu: there are lines, or no more come
	lines   [][]byte        // nil: one of reached
	reached []chan struct{} // closed in order
	bytes   int             // of lines
	written int             // lines
	closed  bool

	// Of the Control, set before the first line: what it is told of lines that could not be written, and what it has to
	// say of them, with how many that tells of, after one that could.
	failed     func(lines uint64)
	report     func() (line []byte, lines uint64)
	unreported func(lines uint64) // the report could not be written
}

// NewOutput returns an Output to w. Close ends it.
func NewOutput(w io.Writer) *Output {
	none := func(uint64) {}
	o := &Output{to: w, ended: make(chan struct{}), failed: none, report: func() ([]byte, uint64) { return nil, 0 }, unreported: none}
	o.more = sync.NewCond(&o.mu)
	go o.run()
	return o
}

// Write implements io.Writer. It takes all of the line or returns an error; it does not wait.
func (o *Output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return 0, io.ErrClosedPipe
	case o.bytes+len(line) > queueBytes:
		return 0, errFull
	}
	o.lines = append(o.lines, append([]byte{}, line...))
	o.bytes += len(line)
	o.more.Signal()
	return len(line), nil
}

// Close writes what is left, and ends.
func (o *Output) Close() {
	o.mu.Lock()
	o.closed = true
	o.more.Signal()
	o.mu.Unlock()
	o.await(o.ended)
}

// Flush waits until all lines so far are written.
func (o *Output) Flush() {
	reached := make(chan struct{})
	o.mu.Lock()
	o.lines = append(o.lines, nil)
	o.reached = append(o.reached, reached)
	o.more.Signal()
	o.mu.Unlock()
	o.await(reached)
}

// await waits for the goroutine; it gives up a reader that takes nothing for some seconds.
func (o *Output) await(done <-chan struct{}) {
	for before := -1; ; {
		o.mu.Lock()
		now := o.written
		o.mu.Unlock()
		if now == before {
			return
		}
		before = now
		select {
		case <-done:
			return
		case <-time.After(patience):
		}
	}
}

func (o *Output) run() {
	defer close(o.ended)
	for line := o.next(); line != nil; line = o.next() {
		_, err := o.to.Write(line)
		o.mu.Lock()
		o.bytes -= len(line)
		o.written++
		o.mu.Unlock()
		if err != nil {
			o.failed(1)
			continue
		}
		if line, n := o.report(); n > 0 {
			if _, err := o.to.Write(line); err != nil {
				o.unreported(n)
			}
		}
	}
}

// next waits for a line; nil: there are no more. It counts as waiting until it is written.
func (o *Output) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.lines) == 0 && !o.closed {
			o.more.Wait()
		}
		if len(o.lines) == 0 {
			return nil
		}
		line := o.lines[0]
		o.lines = o.lines[1:]
		if line != nil {
			return line
		}
		close(o.reached[0])
		o.reached = o.reached[1:]
	}
}
