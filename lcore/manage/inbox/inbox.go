// SPDX-License-Identifier: Apache-2.0

// Package inbox is how other goroutines have the loop's do something: what they hand in is done there, between two turns, so that
// what the loop owns needs no locks.
//
//	any goroutine ── Do    ──▶ ┐ waits for the result; what has not begun when its context ends is not done
//	              ── Later ──▶ ├─ C, DoPending ─▶ the loop's goroutine
//	              ── Tell  ──▶ ┘ done at the latest when the loop has ended ─ DoLate
package inbox

import (
	"context"
	"sync"
	"sync/atomic"
)

// An Inbox holds what the loop has to do. New makes one.
type Inbox struct {
	work  chan func()
	ended chan struct{}
	why   error // that it has ended

	mu   sync.Mutex
	late []func() // what came when the loop had ended
}

// New makes an inbox with room for so many; who finds it full waits. why is what Do returns once the loop has ended.
func New(room int, why error) *Inbox {
	return &Inbox{work: make(chan func(), room), ended: make(chan struct{}), why: why}
}

// C is where the loop receives what it has to do.
func (b *Inbox) C() <-chan func() { return b.work }

// DoPending does what has been handed in until now. Only the loop calls it, as DoLate and End.
func (b *Inbox) DoPending() {
	for range len(b.work) {
		(<-b.work)()
	}
}

// DoLate does what came too late for the loop. Nobody may be left who could Tell more.
func (b *Inbox) DoLate() {
	for _, f := range b.late {
		f()
	}
	b.late = nil
}

// End says that the loop has ended. It is called once.
func (b *Inbox) End() { close(b.ended) }

// Later has the loop run f. It reports false when ctx has ended instead.
func (b *Inbox) Later(ctx context.Context, f func()) bool {
	select {
	case b.work <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// Tell has the loop run f, at the latest when the loop, whose context is running, has ended.
func (b *Inbox) Tell(running context.Context, f func()) {
	if !b.Later(running, f) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.late = append(b.late, f)
	}
}

// Do has the loop run f and returns what it returned. When ctx ends before f has begun, f is not run; when it has begun, its
// result is waited for: who is told of an error can be sure that nothing was done. Any goroutine but the loop's may call it.
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
