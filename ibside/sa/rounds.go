// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// atOnce is how many items of a round are with the SA at the same time.
const atOnce = 8

// rounds is the registrar's loop: at most one round is under way. Only the loop uses it.
type rounds struct {
	*Registrar
	port   ib.PortState // as last seen
	events <-chan Event
	retry  *time.Timer
	wait   time.Duration // before the next retry

	stop context.CancelFunc // ends the round under way
	done chan bool          // whether all is held now; nil: no round is under way
}

func (r *Registrar) run(ctx context.Context) {
	defer close(r.ended)
	l := &rounds{Registrar: r, events: r.cfg.Events, retry: time.NewTimer(time.Hour), wait: r.cfg.FirstWait, stop: func() {}}
	l.retry.Stop()
	l.port, _ = r.client.PortState()
	watch := time.NewTicker(r.cfg.Watch)
	refresh := time.NewTimer(jitter(r.cfg.Refresh))
	defer watch.Stop()
	defer refresh.Stop()
	defer l.end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.client.stopped:
			l.doubt(Event(ErrClosed.Error()))
			return
		case e, ok := <-l.events:
			l.event(ctx, e, ok)
		case <-watch.C:
			l.watch(ctx)
		case <-refresh.C:
			refresh.Reset(jitter(r.cfg.Refresh))
			if l.done == nil {
				l.start(ctx, 0, true)
			}
		case <-l.retry.C:
			if l.done == nil {
				l.start(ctx, 0, false)
			}
		case held := <-l.done:
			l.finished(held)
		}
	}
}

// event is told by the port's owner; a closed channel tells nothing more.
func (l *rounds) event(ctx context.Context, e Event, ok bool) {
	if !ok {
		l.events = nil
		return
	}
	l.port, _ = l.client.PortState() // or else the next look at it would find the same change again
	l.react(ctx, e)
}

// watch looks at the port. A port that cannot be read is as good as it was: requests will show.
func (l *rounds) watch(ctx context.Context) {
	now, err := l.client.PortState()
	if err != nil {
		return
	}
	why := changed(l.port, now)
	l.port = now
	if why != "" {
		l.react(ctx, why)
	}
}

// react counts all as lost and begins a round, instead of the one under way. While the port is down there is nobody to
// ask.
func (l *rounds) react(ctx context.Context, why Event) {
	l.end()
	l.doubt(why)
	l.wait = l.cfg.FirstWait
	if why != PortDown {
		l.start(ctx, rand.N(l.cfg.Spread+1), true)
	}
}

// start begins a round, with all items or those that are not held.
func (l *rounds) start(ctx context.Context, delay time.Duration, all bool) {
	ctx, l.stop = context.WithCancel(ctx)
	l.retry.Stop()
	done := make(chan bool, 1)
	l.done = done
	go func() { done <- l.round(ctx, delay, all) }()
}

// end waits for the round under way, which it cancels.
func (l *rounds) end() {
	l.stop()
	if l.done != nil {
		<-l.done
		l.done = nil
	}
	l.retry.Stop()
}

// finished is told by a round that went to its end.
func (l *rounds) finished(held bool) {
	l.stop()
	l.done = nil
	if held {
		l.wait = l.cfg.FirstWait
		return
	}
	l.retry.Reset(jitter(l.wait))
	l.wait = min(2*l.wait, l.cfg.MaxWait)
}

// round registers items and reports whether all are held then.
func (l *rounds) round(ctx context.Context, delay time.Duration, all bool) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(delay):
	}
	var first, rest []*item
	l.mu.Lock()
	for _, it := range l.items {
		switch {
		case it.Held && !all:
		case it.Kind == KindAlias:
			first = append(first, it)
		default:
			rest = append(rest, it)
		}
	}
	l.mu.Unlock()
	l.renew(ctx, first)
	l.renew(ctx, rest)
	return len(l.Lost()) == 0
}

// renew registers items, some at once.
func (l *rounds) renew(ctx context.Context, items []*item) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			l.renewOne(ctx, it)
		})
	}
	wg.Wait()
}

func (l *rounds) renewOne(ctx context.Context, it *item) {
	select {
	case it.busy <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-it.busy }()
	l.mu.Lock()
	gone := it.gone
	l.mu.Unlock()
	if gone {
		return
	}
	got, err := it.register(ctx, l.client)
	if errors.Is(err, context.Canceled) {
		return // the next round will know
	}
	l.settle(it, got, err)
}
