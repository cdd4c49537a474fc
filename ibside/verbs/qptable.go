// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"log/slog"
	"sync"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// A qpTable is the port's queue pairs: those that workers find, and each worker's stock of others. What the device does
// with them takes its time, and is done without the lock.
type qpTable struct {
	cfg      *Config
	pkeys    pkeyTable
	counts   *managementCounts
	log      *slog.Logger
	hardware qpHardware
	workers  []*worker

	mu       sync.Mutex
	qps      map[uint32]*queuePair // by handle: those that workers find
	restock  chan struct{}         // a worker's stock is to be filled
	filled   *sync.Cond            // under mu: a queue pair has been made ready
	underWay sync.WaitGroup        // queue pairs that are being made or ended
	closing  bool                  // under mu
	freeing  bool                  // under mu: the device makes and ends no more queue pairs
}

// A pkeyTable is the port's.
type pkeyTable interface {
	indexOf(ib.PKey) (uint16, error)
}

func newQPTable(c *Config, pkeys pkeyTable, counts *managementCounts) *qpTable {
	t := &qpTable{cfg: c, pkeys: pkeys, counts: counts, log: c.Log, hardware: hardware{c}, qps: map[uint32]*queuePair{}, restock: make(chan struct{}, 1)}
	t.filled = sync.NewCond(&t.mu)
	return t
}

// makeQP makes a queue pair. It is called with qpTable.mu, which is free while the device works.
func (t *qpTable) makeQP(w *worker, k qpKind) (*queuePair, error) {
	for len(w.free) == 0 && (w.stock.filling || len(w.stock.ready) > 0) { // one that is ready gives way
		if len(w.stock.ready) == 0 {
			t.filled.Wait()
		} else if err := t.endQP(w.stock.remove(0), t.hardware.destroy); err != nil {
			return nil, err
		}
	}
	switch {
	case t.closing:
		return nil, errClosed
	case len(w.free) == 0:
		return nil, errAllInUse
	}
	place, err := t.pkeys.indexOf(k.pkey)
	if err != nil {
		return nil, err
	}
	index := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	q := &queuePair{kind: k, place: place, w: w, handle: w.nextHandle(index)}
	if err := t.beside(t.hardware.make, q); err != nil {
		w.free = append(w.free, index)
		if !errors.Is(err, errClosed) {
			err = noneMade{err}
		}
		return nil, err
	}
	t.qps[q.handle] = q
	if now, err := t.pkeys.indexOf(k.pkey); err != nil || now != place { // the table has changed meanwhile
		q.markError()
	}
	return q, nil
}

// noneMade is the device's error when it makes no queue pair. What it says of that differs by provider (see create in
// qp.c).
type noneMade struct{ error }

func (e noneMade) Is(target error) bool { return target == ibside.ErrNoQueuePair }
func (e noneMade) Unwrap() error        { return e.error }

// beside makes a call of the device without qpTable.mu, while there is the worker's part of the port.
func (t *qpTable) beside(call func(*queuePair) error, q *queuePair) error {
	if t.freeing {
		return errClosed
	}
	t.underWay.Add(1)
	defer t.underWay.Done()
	t.mu.Unlock()
	defer t.mu.Lock()
	return call(q)
}

// endQP ends a queue pair, as makeQP makes one. One that the device does not end stays, to be recovered.
func (t *qpTable) endQP(q *queuePair, end func(*queuePair) error) error {
	delete(t.qps, q.handle) // recovery leaves it alone from now on
	if err := t.beside(end, q); err != nil {
		q.failed = false
		t.qps[q.handle] = q
		q.markError()
		return err
	}
	q.w.free = append(q.w.free, q.index())
	return nil
}

// dropAHs makes workers request new address handles.
func (t *qpTable) dropAHs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return
	}
	for _, w := range t.workers {
		w.retryFailed() // first: answers under way end before it, and later ones see the change
		w.dropAHs()
	}
}

// rebind follows a change of the port's P_Key table, where queue pairs name their P_Key by its place: those that name
// another's place are stopped, and recover by tick when the table has their P_Key.
func (t *qpTable) rebind() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return
	}
	type change struct{ moved, lost int }
	changes := map[ib.PKey]change{}
	for _, q := range t.qps {
		place, err := t.pkeys.indexOf(q.kind.pkey)
		q.setPKeyLost(err != nil)
		if err == nil && q.place == place {
			continue
		}
		c := changes[q.kind.pkey]
		if err != nil {
			c.lost++
		} else {
			c.moved++
		}
		changes[q.kind.pkey] = c
		q.markError()
	}
	for pkey, c := range changes {
		if c.lost > 0 {
			t.log.Warn("pkey_lost", "port", t.cfg.name(), "pkey", pkey, "queue_pairs", c.lost, "note", "they wait until the subnet manager assigns it again")
		} else {
			t.log.Info("pkey_moved", "port", t.cfg.name(), "pkey", pkey, "queue_pairs", c.moved)
		}
	}
}

func (t *qpTable) markFailed(handle uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.qps[handle]; q != nil {
		q.markError()
	}
}

// counters returns the counters, without those of groups.
func (t *qpTable) counters() counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	c := t.counts.sum
	c.SendDrops, c.Drops, c.Events = copied(c.SendDrops), copied(c.Drops), copied(c.Events)
	c.Answers, c.Connects = copied(c.Answers), copied(c.Connects)
	for _, w := range t.workers {
		w.counters(&c)
		c.Ready += len(w.stock.ready)
		c.Resting += len(w.stock.resting)
	}
	c.ProxyQPs = len(t.qps) - c.Ready
	return c
}

// beginClose has nothing be made any more; it reports whether it is the first to.
func (t *qpTable) beginClose() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.closing
	t.closing = true
	return first
}

// free waits for the device, and ends all queue pairs and the workers' shares of the port.
func (t *qpTable) free() (err error) {
	t.mu.Lock()
	t.freeing = true
	t.mu.Unlock()
	t.underWay.Wait()
	t.mu.Lock() // against counters
	defer t.mu.Unlock()
	for _, w := range t.workers {
		err = errors.Join(err, t.freeResting(w), w.stopAndFree(t.counts.closed))
	}
	clear(t.qps)
	return err
}
