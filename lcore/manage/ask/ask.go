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
)

// Slots bounds how many requests are under way at a time.
type Slots chan struct{}

// An Asker runs requests. Its methods may be called from any goroutine, but for Start, which comes first, and Wait.
type Asker struct {
	inbox   *inbox.Inbox
	running context.Context
	work    sync.WaitGroup
	slots   Slots
}

// New makes an Asker whose results go to an inbox.
func New(in *inbox.Inbox) *Asker { return &Asker{inbox: in, slots: make(Slots, atOnce)} }

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
	retry(ctx, func() error {
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
// longer, so that what failed together on all bridges of a subnet is not repeated together.
func retry(ctx context.Context, f func() error) {
	for wait := firstWait; f() != nil && ctx.Err() == nil; wait = min(2*wait, lastWait) {
		Pause(ctx, wait*3/4+rand.N(wait/2))
	}
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
