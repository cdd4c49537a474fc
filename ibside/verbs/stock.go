// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"causeway/ibside"
	"causeway/ibside/ib"
)

const (
	// readyMost is how many queue pairs a worker has ready for the next proxy QPs: an HCA takes up to tens of milliseconds
	// to make one, and a program that starts makes some at a time.
	readyMost = 16
	// refillsForEach is how many queue pairs may be made ready for each that was asked for: so a host that asks for
	// another Q_Key each time makes a few, not readyMost.
	refillsForEach = 2
	// restTime is how long no other queue pair gets the number of one that has ended: nodes may still send to it, until
	// they have noticed that it does not answer. A connection manager tries for about two minutes.
	restTime = 3 * time.Minute
	// restMost bounds the numbers of a worker that rest, each of which takes a queue pair of the device. The oldest end.
	restMost = 1024
	// restTick is how often those are looked for whose time is over.
	restTick = time.Second
	// freesAtOnce is how many queue pairs end at a time when the port is closed.
	freesAtOnce = 32
)

// A qpKind is what a queue pair is made for.
type qpKind struct {
	qkey ib.QKey
	pkey ib.PKey
}

// qpHardware makes and ends queue pairs. Each call takes the device's time; they run beside each other, but for the
// same queue pair.
type qpHardware interface {
	make(*queuePair) error
	destroy(*queuePair) error
	rest(*queuePair) error // as destroy, but its number stays taken until free
	free(*queuePair) error
}

// stock is a worker's queue pairs that no one has: ready ones, and those that have ended, whose numbers rest. Both are
// in order of time.
type stock struct {
	ready   []*queuePair
	resting []restingQP
	wanted  qpKind // the last that was asked for
	refills int    // how many more may be made ready
	filling bool   // one is being made ready, and has a place already
}

type restingQP struct {
	*queuePair
	till time.Time
}

// takeReady returns a ready queue pair of a kind; nil: there is none.
func (s *stock) takeReady(k qpKind) *queuePair {
	return s.remove(slices.IndexFunc(s.ready, func(q *queuePair) bool { return q.kind == k }))
}

// takeOther returns the oldest ready queue pair that is not wanted.
func (s *stock) takeOther() *queuePair {
	return s.remove(slices.IndexFunc(s.ready, func(q *queuePair) bool { return q.kind != s.wanted }))
}

func (s *stock) remove(i int) *queuePair {
	if i < 0 {
		return nil
	}
	q := s.ready[i]
	s.ready = slices.Delete(s.ready, i, i+1)
	return q
}

// takeQP returns a queue pair for a proxy QP: a ready one, else one that the device makes now. Where the device has no
// more, one ends for it that no one has.
func (t *qpTable) takeQP(w *worker, k qpKind) (*queuePair, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.stock.wanted, w.stock.refills = k, min(w.stock.refills+refillsForEach, readyMost)
	select {
	case t.restock <- struct{}{}:
	default: // it is to be filled already
	}
	if q := w.stock.takeReady(k); q != nil {
		return q, nil
	}
	q, err := t.makeQP(w, k)
	for errors.Is(err, ibside.ErrNoQueuePair) && t.endSpare(w) {
		q, err = t.makeQP(w, k)
	}
	return q, err
}

// endSpare ends a queue pair that no one has, and reports whether the device did: one that rests, or one that is ready;
// of the worker itself, or of another.
func (t *qpTable) endSpare(w *worker) bool {
	all := append([]*worker{w}, t.workers...)
	if i := slices.IndexFunc(all, func(w *worker) bool { return len(w.stock.resting) > 0 }); i >= 0 {
		return t.endRest(all[i])
	}
	if i := slices.IndexFunc(all, func(w *worker) bool { return len(w.stock.ready) > 0 }); i >= 0 {
		return t.endQP(all[i].stock.remove(0), t.hardware.destroy) == nil
	}
	return false
}

// restQP ends a queue pair, whose number rests.
func (t *qpTable) restQP(q *queuePair) error {
	if err := t.endQP(q, t.hardware.rest); err != nil {
		return err
	}
	s := &q.w.stock
	s.resting = append(s.resting, restingQP{q, time.Now().Add(restTime)})
	if len(s.resting) > restMost {
		t.endRest(q.w)
	}
	return nil
}

// endRest frees the number that has rested for longest, and reports whether the device did.
func (t *qpTable) endRest(w *worker) bool {
	s := &w.stock
	q := s.resting[0]
	s.resting = s.resting[1:]
	if now := time.Now(); now.Before(q.till) {
		t.counts.count(func(c *counters) { c.RestsCut++ })
		t.log.Warn("qpn_rest_cut", "qpn", q.qpn, "worker", w.id, "left", q.till.Sub(now).Round(time.Second))
	}
	if err := t.beside(t.hardware.free, q.queuePair); err != nil {
		t.log.Error("qpn_rest", "qpn", q.qpn, "worker", w.id, "error", err)
		s.resting = append(s.resting, restingQP{q.queuePair, time.Now().Add(restTime)})
		return false
	}
	return true
}

// keepStock makes queue pairs ready, and frees the numbers that have rested, until ctx ends.
func (t *qpTable) keepStock(ctx context.Context) {
	ticker := time.NewTicker(restTick)
	defer ticker.Stop()
	for {
		for _, w := range t.workers {
			for ctx.Err() == nil && (t.endRested(w) || t.refill(w)) {
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.restock:
		case <-ticker.C:
		}
	}
}

// freeResting ends all queue pairs whose numbers rest: many at once, as a device may take milliseconds for each.
func (t *qpTable) freeResting(w *worker) error {
	var all errgroup.Group
	all.SetLimit(freesAtOnce)
	for _, q := range w.stock.resting {
		all.Go(func() error { return t.hardware.free(q.queuePair) })
	}
	w.stock = stock{}
	return all.Wait()
}

// endRested frees a number whose time is over, and reports whether there was one.
func (t *qpTable) endRested(w *worker) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(w.stock.resting) > 0 && !time.Now().Before(w.stock.resting[0].till) && t.endRest(w)
}

// refill makes a queue pair ready, and reports whether it has. Ready ones have no other's place.
func (t *qpTable) refill(w *worker) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &w.stock
	if t.closing || s.refills == 0 || len(w.free) == 0 {
		return false
	}
	if len(s.ready) >= readyMost {
		other := s.takeOther()
		if other == nil || t.endQP(other, t.hardware.destroy) != nil || len(w.free) == 0 {
			return false
		}
	}
	s.refills--
	s.filling = true
	q, err := t.makeQP(w, s.wanted)
	s.filling = false
	t.filled.Broadcast()
	if err != nil { // the next proxy QP will tell
		s.refills = 0
		return false
	}
	s.ready = append(s.ready, q)
	return true
}
