// SPDX-License-Identifier: Apache-2.0

// Package ask runs what takes time, above all requests to the subnet administrator, in goroutines of its own, and
// brings the results back to the management loop:
//
//	part ── Ask, Go ──▶ goroutine ── ibside.Port ──▶ subnet administrator
//	     ◀─ Tell, Later (inbox) ── result ◀─
package ask

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"causeway/lcore/manage/inbox"
)

const (
	// Timeout bounds one request to the subnet administrator, its retransmissions included.
	Timeout = 5 * time.Second
	// atOnce bounds how many requests the subnet administrator gets at a time.
	atOnce = 16
	// Back-off between two tries of what failed.
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
	// wakeSpread is the time over which all that failed is tried again after Wake: all bridges of a subnet learn at the
	// same time that its manager is back.
	wakeSpread = 100 * time.Millisecond
)

// Slots bounds how many requests are under way at a time.
type Slots chan struct{}

// An Asker runs requests. Its methods may be called from any goroutine, but for Start, which comes first, and Wait.
type Asker struct {
	inbox   *inbox.Inbox
	running context.Context
	work    sync.WaitGroup
	slots   Slots

	mu    sync.Mutex
	awake chan struct{} // closed by Wake
}

// New makes an Asker whose results go to an inbox.
func New(in *inbox.Inbox) *Asker {
	return &Asker{inbox: in, slots: make(Slots, atOnce), awake: make(chan struct{})}
}

// Wake ends all back-offs: what failed is tried again within wakeSpread, and its back-off begins anew.
func (a *Asker) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.awake)
	a.awake = make(chan struct{})
}

// woken returns what the next Wake closes.
func (a *Asker) woken() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.awake
}

// Start gives the context in which the loop runs. It is called before any other method.
func (a *Asker) Start(running context.Context) { a.running = running }

// Running returns the context in which the loop runs.
func (a *Asker) Running() context.Context { return a.running }

// Wait waits until nothing is under way.
func (a *Asker) Wait() { a.work.Wait() }

// Go runs f in a goroutine that Wait waits for.
func (a *Asker) Go(f func()) { a.work.Go(f) }

// Tell makes the loop run f, at the latest when the loop has ended.
func (a *Asker) Tell(f func()) { a.inbox.Tell(a.running, f) }

// Later makes the loop run f. It reports false when ctx ended first.
func (a *Asker) Later(ctx context.Context, f func()) bool { return a.inbox.Later(ctx, f) }

// Ask runs a request in a goroutine of its own, and repeats it with back-off until it succeeds or ctx ends.
func (a *Asker) Ask(ctx context.Context, request func(context.Context) error) {
	a.Go(func() { a.Persist(ctx, nil, request) })
}

// Persist repeats a request with back-off until it succeeds or ctx ends. Each try takes one of the slots, nil: of those
// that all have in common; it gives it back while it waits for the next try.
func (a *Asker) Persist(ctx context.Context, slots Slots, request func(context.Context) error) {
	if slots == nil {
		slots = a.slots
	}
	a.retry(ctx, func() error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-slots }()
		asking, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		return request(asking)
	})
}

// retry calls f until it succeeds or ctx ends, after 0.1 s, 0.2 s … at most 10 s; each a random quarter shorter or
// longer, so that what failed together on all bridges of a subnet is not repeated together. Wake cuts a wait short.
func (a *Asker) retry(ctx context.Context, f func() error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		woken := a.woken() // before f: an event during its last attempt counts
		if f() == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(wait*3/4 + rand.N(wait/2)):
		case <-woken:
			if Pause(ctx, rand.N(wakeSpread)); ctx.Err() != nil {
				return
			}
			wait = firstWait / 2
		case <-ctx.Done():
			return
		}
	}
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
