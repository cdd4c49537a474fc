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

// atOnce is how many requests of a round are under way at the same time.
const atOnce = 8

// scheduler is the registrar's loop: at most one round is under way. Only the loop uses it.
type scheduler struct {
	*Registrar
	port   ib.PortState // as last seen
	events <-chan Event
	retry  *time.Timer
	wait   time.Duration // before the next retry

	stop context.CancelFunc // ends the round under way
	done chan bool          // whether everything is in force now; nil: no round is under way
}

func (r *Registrar) run(ctx context.Context) {
	defer close(r.ended)
	l := &scheduler{Registrar: r, events: r.cfg.Events, retry: time.NewTimer(time.Hour), wait: r.cfg.FirstWait, stop: func() {}}
	l.retry.Stop()
	l.port, _ = r.client.PortState()
	watch := time.NewTicker(r.cfg.Watch)
	refresh, asked := time.NewTimer(jitter(r.cfg.Refresh)), false
	defer watch.Stop()
	defer refresh.Stop()
	defer l.end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.client.stopped:
			l.loseAll(Event(ErrClosed.Error()))
			return
		case e, ok := <-l.events:
			l.event(ctx, e, ok)
		case <-watch.C:
			l.watch(ctx)
		case <-r.refresh:
			asked = true
			refresh.Reset(0)
		case <-refresh.C:
			refresh.Reset(jitter(r.cfg.Refresh))
			switch {
			case l.done == nil:
				asked = false
				l.start(ctx, 0, true)
			case asked: // the round under way may have begun before
				refresh.Reset(r.cfg.FirstWait)
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

// event handles an event from the port's owner; a closed channel delivers no more events.
func (s *scheduler) event(ctx context.Context, e Event, ok bool) {
	if !ok {
		s.events = nil
		return
	}
	s.port, _ = s.client.PortState() // otherwise the next watch would find the same change again
	s.react(ctx, e)
}

// watch reads the port's state. A port that cannot be read counts as unchanged: requests will show whether it works.
func (s *scheduler) watch(ctx context.Context) {
	now, err := s.client.PortState()
	if err != nil {
		return
	}
	why := changed(s.port, now)
	s.port = now
	if why != "" {
		s.react(ctx, why)
	}
}

// react marks everything as lost and begins a round, in place of the one under way. While the port is down, the SA
// cannot be reached.
func (s *scheduler) react(ctx context.Context, why Event) {
	if s.cfg.OnEvent != nil {
		s.cfg.OnEvent(why)
	}
	s.end()
	s.loseAll(why)
	s.wait = s.cfg.FirstWait
	if why != PortDown {
		s.start(ctx, rand.N(s.cfg.Spread+1), true)
	}
}

// start begins a round, with all items or those that are not in force.
func (s *scheduler) start(ctx context.Context, delay time.Duration, all bool) {
	ctx, s.stop = context.WithCancel(ctx)
	s.retry.Stop()
	done := make(chan bool, 1)
	s.done = done
	go func() { done <- s.round(ctx, delay, all) }()
}

// end waits for the round under way, which it cancels.
func (s *scheduler) end() {
	s.stop()
	if s.done != nil {
		<-s.done
		s.done = nil
	}
	s.retry.Stop()
}

// finished handles the result of a round that was not cancelled.
func (s *scheduler) finished(held bool) {
	s.stop()
	s.done = nil
	if held {
		s.wait = s.cfg.FirstWait
		return
	}
	s.retry.Reset(jitter(s.wait))
	s.wait = min(2*s.wait, s.cfg.MaxWait)
}

// round registers items and reports whether all are in force then.
func (s *scheduler) round(ctx context.Context, delay time.Duration, all bool) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(delay):
	}
	var first, rest []*item
	s.mu.Lock()
	for _, it := range s.items {
		switch {
		case it.Held && !all:
		case it.Kind == KindAlias:
			first = append(first, it)
		default:
			rest = append(rest, it)
		}
	}
	s.mu.Unlock()
	s.renew(ctx, first)
	s.renew(ctx, rest)
	return len(s.Lost()) == 0
}

// renew registers items, several at a time.
func (s *scheduler) renew(ctx context.Context, items []*item) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.renewOne(ctx, it)
		})
	}
	wg.Wait()
}

func (s *scheduler) renewOne(ctx context.Context, it *item) {
	select {
	case it.busy <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-it.busy }()
	s.mu.Lock()
	gone := it.gone
	s.mu.Unlock()
	if gone {
		return
	}
	got, err := it.register(ctx, s.client)
	if errors.Is(err, context.Canceled) {
		return // the round was cancelled; the next one tries again
	}
	s.settle(it, got, err)
}
