// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"slices"
	"time"
)

const (
	tick        = time.Millisecond       // how often the port's management serves the workers
	portTick    = time.Second            // how often the port's attributes are read: a change of its MTU raises no event
	retryAH     = 500 * time.Millisecond // until an address handle that failed may be requested again
	resolvers   = 32                     // address handles created at a time: each may block for a second
	flushTime   = 100 * time.Millisecond // for the device to flush a failed queue pair
	firstPause  = 2 * time.Millisecond   // before a queue pair that fails again is recovered, doubled each time
	longestStop = 250 * time.Millisecond // limit of that pause, so that traffic goes on within a second of a fault's end
	recoveries  = 64                     // recovery steps in a tick at most, because others wait for the lock
	goodAfter   = 2 * time.Second        // after so long without an error, the next failure counts as a first one
)

// recovery is the state of a failed queue pair's recovery. Only tick uses it.
type recovery struct {
	failed  bool
	next    time.Time     // when to take the next step
	flushBy time.Time     // sends that the device has not flushed by then are dropped
	pause   time.Duration // before the next recovery
	upAt    time.Time     // when it was last recovered
}

// tick serves the workers until ctx ends: address handles, and recovery of queue pairs.
func (p *Port) tick(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var down map[*queuePair]bool
	for nextPort := time.Now().Add(portTick); ; {
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
			for q := range down {
				q.next = time.Time{}
			}
		case <-ticker.C:
		}
		now := time.Now()
		for _, w := range p.workers {
			p.ahs.tick(w, now)
		}
		down = p.recover(down, now)
		if now.After(nextPort) {
			nextPort = now.Add(portTick)
			p.lookAtPort()
		}
	}
}

// lookAtPort finds changes that raise no event: of the MTU, and on some devices of the P_Key table.
func (p *Port) lookAtPort() {
	before := p.portInfo()
	if err := p.refreshPort(); err != nil {
		return // the next event or tick tries again
	}
	p.sayState()
	now := p.portInfo()
	if now.MTU != before.MTU {
		p.log.Info("ib_mtu", "port", p.cfg.name(), "from", before.MTU.Bytes(), "to", now.MTU.Bytes())
	}
	if !slices.Equal(now.PKeys, before.PKeys) {
		p.handleEvent(event{Kind: eventPKey, Worker: -1})
	}
}

// recover starts the recovery of queue pairs that workers have marked, and continues those under way.
func (t *qpTable) recover(down map[*queuePair]bool, now time.Time) map[*queuePair]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	budget := recoveries
	for _, w := range t.workers {
		if !w.sawErrors() {
			continue
		}
		for _, q := range t.qps {
			if budget == 0 {
				w.lookAgain()
				break
			}
			if q.w == w && q.takeError() && !q.failed {
				budget--
				q.fail(now)
				if down == nil {
					down = map[*queuePair]bool{}
				}
				down[q] = true
				t.log.Warn("qp_error", "qpn", q.qpn, "worker", w.id, "recovery_in", q.next.Sub(now))
			}
		}
	}
	for q := range down {
		if budget--; budget < 0 {
			break // a map's order differs each time: all get their turn
		}
		if t.qps[q.handle] != q || t.bringBack(q, now) {
			delete(down, q)
		}
	}
	return down
}

// fail stops the queue pair and plans its recovery: at once after a first failure.
func (q *queuePair) fail(now time.Time) {
	if now.Sub(q.upAt) > goodAfter {
		q.pause = 0
	}
	q.failed, q.next, q.flushBy = true, now.Add(q.pause), now.Add(flushTime)
	q.pause = min(max(2*q.pause, firstPause), longestStop)
	q.drain()
}

// due reports whether the next step can be taken: what the worker has not taken by then is waited for until flushBy.
func (r *recovery) due(now time.Time, drained func() bool) bool {
	return !now.Before(r.next) && (!now.Before(r.flushBy) || drained())
}

// bringBack takes the next step, and reports whether the queue pair is up.
func (t *qpTable) bringBack(q *queuePair, now time.Time) bool {
	if !q.due(now, q.drained) {
		return false
	}
	place, err := t.pkeys.indexOf(q.kind.pkey)
	q.setPKeyLost(err != nil)
	if err != nil { // rebind has reported it
		q.next, q.pause = now.Add(longestStop), 0
		return false
	}
	if err := q.cycle(place); err != nil {
		t.log.Error("qp_recovery", "qpn", q.qpn, "error", err)
		q.next = now.Add(longestStop)
		return false
	}
	q.failed, q.upAt = false, now
	t.counts.count(func(c *counters) { c.Recovered++ })
	t.log.Info("qp_recovered", "qpn", q.qpn, "worker", q.w.id)
	return true
}
