// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"slices"
	"time"

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
)

// A qpKind is what a queue pair is made for.
type qpKind struct {
	qkey ib.QKey
	pkey ib.PKey
}

// qpHardware makes and ends queue pairs. Each call takes the device's time; they run beside each other, but for the same
// queue pair.
type qpHardware interface {
	make(*queuePair) error
	destroy(*queuePair) error
	rest(*queuePair) error // as destroy, but its number stays taken until free
	free(*queuePair) error
}

// stock is a worker's queue pairs that no one has: ready ones, and those that have ended, whose numbers rest. Both are in
// order of time.
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
// more, a resting one ends for it.
func (p *Port) takeQP(w *worker, k qpKind) (*queuePair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.stock.wanted, w.stock.refills = k, min(w.stock.refills+refillsForEach, readyMost)
	select {
	case p.restock <- struct{}{}:
	default: // it is to be filled already
	}
	if q := w.stock.takeReady(k); q != nil {
		return q, nil
	}
	q, err := p.makeQP(w, k)
	if err != nil && len(w.stock.resting) > 0 && p.endRest(w) {
		q, err = p.makeQP(w, k)
	}
	return q, err
}

// makeQP makes a queue pair. It is called with Port.mu, which is free while the device works.
func (p *Port) makeQP(w *worker, k qpKind) (*queuePair, error) {
	for len(w.free) == 0 && (w.stock.filling || len(w.stock.ready) > 0) { // one that is ready gives way
		if len(w.stock.ready) == 0 {
			p.filled.Wait()
		} else if err := p.endQP(w.stock.remove(0), p.hardware.destroy); err != nil {
			return nil, err
		}
	}
	switch {
	case p.closing:
		return nil, errClosed
	case len(w.free) == 0:
		return nil, errAllInUse
	}
	place, err := p.indexOf(k.pkey)
	if err != nil {
		return nil, err
	}
	index := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	q := &queuePair{kind: k, place: place, w: w, handle: w.nextHandle(index)}
	if err := p.beside(p.hardware.make, q); err != nil {
		w.free = append(w.free, index)
		return nil, err
	}
	p.qps[q.handle] = q
	if now, err := p.indexOf(k.pkey); err != nil || now != place { // the table has changed meanwhile
		q.markError()
	}
	return q, nil
}

// beside makes a call of the device without Port.mu, while there is the worker's part of the port.
func (p *Port) beside(call func(*queuePair) error, q *queuePair) error {
	if p.freeing {
		return errClosed
	}
	p.underWay.Add(1)
	defer p.underWay.Done()
	p.mu.Unlock()
	defer p.mu.Lock()
	return call(q)
}

// endQP ends a queue pair, as makeQP makes one. One that the device does not end stays, to be recovered.
func (p *Port) endQP(q *queuePair, end func(*queuePair) error) error {
	delete(p.qps, q.handle) // recovery leaves it alone from now on
	if err := p.beside(end, q); err != nil {
		q.failed = false
		p.qps[q.handle] = q
		q.markError()
		return err
	}
	q.w.free = append(q.w.free, q.index())
	return nil
}

// restQP ends a queue pair, whose number rests.
func (p *Port) restQP(q *queuePair) error {
	if err := p.endQP(q, p.hardware.rest); err != nil {
		return err
	}
	s := &q.w.stock
	s.resting = append(s.resting, restingQP{q, time.Now().Add(restTime)})
	if len(s.resting) > restMost {
		p.endRest(q.w)
	}
	return nil
}

// endRest frees the number that has rested for longest, and reports whether the device did.
func (p *Port) endRest(w *worker) bool {
	s := &w.stock
	q := s.resting[0]
	s.resting = s.resting[1:]
	if now := time.Now(); now.Before(q.till) {
		p.counts.count(func(c *counters) { c.RestsCut++ })
		p.log.Warn("qpn_rest_cut", "qpn", q.qpn, "worker", w.id, "left", q.till.Sub(now).Round(time.Second))
	}
	if err := p.beside(p.hardware.free, q.queuePair); err != nil {
		p.log.Error("qpn_rest", "qpn", q.qpn, "worker", w.id, "error", err)
		s.resting = append(s.resting, restingQP{q.queuePair, time.Now().Add(restTime)})
		return false
	}
	return true
}

// keepStock makes queue pairs ready, and frees the numbers that have rested, until ctx ends.
func (p *Port) keepStock(ctx context.Context) {
	ticker := time.NewTicker(restTick)
	defer ticker.Stop()
	for {
		for _, w := range p.workers {
			for ctx.Err() == nil && (p.endRested(w) || p.refill(w)) {
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-p.restock:
		case <-ticker.C:
		}
	}
}

// freeResting ends all queue pairs whose numbers rest.
func (p *Port) freeResting(w *worker) (err error) {
	for _, q := range w.stock.resting {
		err = errors.Join(err, p.hardware.free(q.queuePair))
	}
	w.stock = stock{}
	return err
}

// endRested frees a number whose time is over, and reports whether there was one.
func (p *Port) endRested(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(w.stock.resting) > 0 && !time.Now().Before(w.stock.resting[0].till) && p.endRest(w)
}

// refill makes a queue pair ready, and reports whether it has. Ready ones have no other's place.
func (p *Port) refill(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &w.stock
	if p.closing || s.refills == 0 || len(w.free) == 0 {
		return false
	}
	if len(s.ready) >= readyMost {
		other := s.takeOther()
		if other == nil || p.endQP(other, p.hardware.destroy) != nil || len(w.free) == 0 {
			return false
		}
	}
	s.refills--
	s.filling = true
	q, err := p.makeQP(w, s.wanted)
	s.filling = false
	p.filled.Broadcast()
	if err != nil { // the next proxy QP will tell
		s.refills = 0
		return false
	}
	s.ready = append(s.ready, q)
	return true
}
