// SPDX-License-Identifier: Apache-2.0

// Package inbox runs functions of other goroutines in the loop's goroutine, between two turns, so that what the loop
// owns needs no locks.
//
//	any goroutine ── Do    ──▶ ┐ waits for the result; not run when its context ends before
//	              ── Later ──▶ ├─ C, DoPending ─▶ the loop's goroutine
//	              ── Try   ──▶ │ not run when the inbox is full
//	              ── Tell  ──▶ ┘ run at the latest when the loop has ended ─ DoLate
package inbox

import (
	"context"
	"sync"
	"sync/atomic"
)

// An Inbox holds the functions that the loop has to run. New makes one.
type Inbox struct {
	Before func() // the loop sets it, to run before each function; or nil

	work  chan func()
	ended chan struct{}
	why   error // what Do returns when the loop has ended

	mu   sync.Mutex
	late []func() // that came when the loop had ended
}

// New makes an inbox with room for so many functions; when it is full, its users wait. why is what Do returns once the
// loop has ended.
func New(room int, why error) *Inbox {
	return &Inbox{work: make(chan func(), room), ended: make(chan struct{}), why: why}
}

// C is where the loop receives the functions.
func (b *Inbox) C() <-chan func() { return b.work }

// DoPending runs the functions that are in the inbox now. Only the loop calls it, as Run, DoLate and End.
func (b *Inbox) DoPending() {
	for range len(b.work) {
		b.Run(<-b.work)
	}
}

// Run runs a function that came from C.
func (b *Inbox) Run(f func()) {
	if b.Before != nil {
		b.Before()
	}
	f()
}

// DoLate runs the functions that came too late for the loop. No goroutine may be left that calls Tell.
func (b *Inbox) DoLate() {
	for _, f := range b.late {
		f()
	}
	b.late = nil
}

// End says that the loop has ended. It is called once.
func (b *Inbox) End() { close(b.ended) }

// Later makes the loop run f. It returns false when ctx has ended instead.
func (b *Inbox) Later(ctx context.Context, f func()) bool {
	select {
	case b.work <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// Try makes the loop run f, if there is room now: it never waits. It returns false when there is none, or the loop has
// ended.
func (b *Inbox) Try(f func()) bool {
	select {
	case <-b.ended:
		return false
	default:
	}
	select {
	case b.work <- f:
		return true
	default:
		return false
	}
}

// Tell makes the loop run f, at the latest when the loop, whose context is running, has ended.
func (b *Inbox) Tell(running context.Context, f func()) {
	if !b.Later(running, f) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.late = append(b.late, f)
	}
}

// Do makes the loop run f and returns f's result. When ctx ends before f has begun, f is not run and Do returns ctx's
// error; when f has begun, Do waits for its result. Any goroutine but the loop's may call it.
func (b *Inbox) Do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	var claimed atomic.Bool
	do := func() {
		if claimed.CompareAndSwap(false, true) {
			result <- f()
		}
	}
	select {
	case b.work <- do:
	case <-b.ended:
		return b.why
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-b.ended:
		return endedBefore(&claimed, result, b.why)
	case <-ctx.Done():
		return endedBefore(&claimed, result, ctx.Err())
	}
}

// endedBefore returns why f was not run, or its result when it was.
func endedBefore(claimed *atomic.Bool, result <-chan error, why error) error {
	if claimed.CompareAndSwap(false, true) {
		return why
	}
	return <-result
}
