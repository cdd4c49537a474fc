// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	storePatience = time.Second            // for one answer of etcd
	storeAgain    = 200 * time.Millisecond // after it did not answer
)

// Run takes part until ctx is done. Then it tells the others that the member ends, over all fabrics and in etcd, for which it
// waits a second at most. It runs once.
func (p *Peers) Run(ctx context.Context) {
	if !p.join(ctx) {
		return
	}
	var group sync.WaitGroup
	group.Go(func() { p.publish(ctx) })
	group.Go(func() { p.follow(ctx) })
	for next := time.Now(); ctx.Err() == nil; p.wait(ctx, next) {
		p.receive()
		if !next.IsZero() && time.Since(next) > p.config.Interval { // it stood still: what came meanwhile is with the ways
			p.linger(ctx)
		}
		next = p.act(p.tick)
	}
	p.leave(context.WithoutCancel(ctx), group.Wait)
}

// act calls f with the state, and does then what is to be done without it.
func (p *Peers) act(f func(now time.Time) time.Time) time.Time {
	p.mu.Lock()
	next := f(time.Now())
	later := p.later
	p.later = nil
	p.mu.Unlock()
	for _, do := range later {
		do()
	}
	return next
}

// handle is act for what returns nothing.
func (p *Peers) handle(f func(now time.Time)) {
	p.act(func(now time.Time) time.Time {
		f(now)
		return now
	})
}

// receive takes in what has come, before anything is taken for lost: this process may have stood still.
func (p *Peers) receive() {
	for range len(p.inbox) {
		m := <-p.inbox
		p.handle(func(now time.Time) { p.take(m, now) })
	}
}

// wait handles one thing that happens, or returns when next has come; zero: it waits for a thing.
func (p *Peers) wait(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case m := <-p.inbox:
		p.handle(func(now time.Time) { p.take(m, now) })
	case word := <-p.words:
		p.handle(func(now time.Time) { p.speak(word, now) })
	case all := <-p.lists:
		p.handle(func(now time.Time) { p.know(all, now) })
	case <-due:
	case <-ctx.Done():
	}
}

// linger gives the ways time to bring what has come.
func (p *Peers) linger(ctx context.Context) {
	for end := time.After(p.config.Interval / 5); ; {
		select {
		case m := <-p.inbox:
			p.handle(func(now time.Time) { p.take(m, now) })
			continue
		case <-end:
		case <-ctx.Done():
		}
		return
	}
}

// leave tells the others. A message may be lost, so each is sent three times.
func (p *Peers) leave(ctx context.Context, stop func()) {
	const times, apart = 3, 10 * time.Millisecond
	for i := range times {
		if i > 0 {
			time.Sleep(apart)
		}
		p.handle(func(now time.Time) {
			for _, x := range p.members {
				for f, s := range x.sessions {
					if s != nil {
						s.Disable(now)
						s.up = false
						p.say(x, Fabric(f), s.Packet(now), nil)
					}
				}
			}
		})
	}
	stop()
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	_ = p.config.Store.RemovePeer(ctx, p.config.Name, p.record()) // without etcd it stays there, and its sessions are down
}

// join learns from etcd of which fleet the member is.
func (p *Peers) join(ctx context.Context) bool {
	for ctx.Err() == nil {
		if id, err := p.identify(ctx); err == nil {
			p.identity.Store(id)
			return true
		}
		sleep(ctx, storeAgain)
	}
	return false
}

func (p *Peers) identify(ctx context.Context) (*identity, error) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	founded, err := p.config.Store.Founded(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := p.config.Store.Secret(ctx)
	if err == nil && len(secret) != SecretLen {
		err = fmt.Errorf("peers: the fleet's secret has %d bytes, and not %d", len(secret), SecretLen)
	}
	return newIdentity(p.config.Fleet, founded, secret), err
}

// record returns what the member says of itself.
func (p *Peers) record() Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own
}

// publish writes the member's record until ctx is done: at first, when it has changed, and when it was removed.
func (p *Peers) publish(ctx context.Context) {
	p.move()
	for {
		select {
		case <-p.moved:
		case <-ctx.Done():
			return
		}
		writing, cancel := context.WithTimeout(ctx, storePatience)
		err := p.config.Store.PutPeer(writing, p.config.Name, p.record())
		cancel()
		if err != nil {
			p.move()
			sleep(ctx, storeAgain)
		}
	}
}

// follow learns of the others until ctx is done. What was learned stays while etcd does not answer. When it does again, it may have been
// set back, or emptied: then the fleet has another secret, and the member's record is gone or an earlier process's.
func (p *Peers) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = p.config.Store.WatchPeers(ctx, func(all map[string]Record) {
			select {
			case p.lists <- all:
			case <-ctx.Done():
			}
		}) // whatever it failed of, the next one begins with all
		sleep(ctx, storeAgain)
		if p.join(ctx) {
			p.move()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
