// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

const (
	// hedge is how long a try may take before another is started in parallel. The kernel gives up on a neighbour after
	// a second; a neighbour that comes back meanwhile answers the next try at once, and traffic goes on.
	hedge = 200 * time.Millisecond
	// triesMost bounds the tries for one address handle: as many as fit into that second.
	triesMost = 5
)

var errNoSource = errors.New("the port has no GID that can send to it")

// resolver creates the address handles that workers request.
type resolver struct {
	port portReader
	dev  interface {
		createAH(a askedAH, sgidIndex int) (retiredAH, error)
	}
	counts *managementCounts
	log    *slog.Logger
	free   chan struct{} // a semaphore: bounds how many handles are created at a time
	gidGen atomic.Uint64 // raised when the GID table may have changed
}

// portReader reads the attributes of the port.
type portReader interface {
	portInfo() PortInfo
	sourceGID(number uint8) ib.GID
}

// try is the result of a try to create an address handle.
type try struct {
	ah  retiredAH
	err error
	gen uint64 // the resolver's gidGen when the try began
}

// tick destroys a worker's retired address handles, and starts to create those that it has requested.
func (r *resolver) tick(w *worker, now time.Time) {
	w.collectAsks()
	w.collectRetired(now)
	w.destroyRetired(now)
	w.dropFailed(now)
	for len(w.asks) > 0 {
		select {
		case r.free <- struct{}{}:
		default:
			return // as many as there may be are under way; each of them ends
		}
		ask := w.asks[0]
		w.asks = w.asks[1:]
		w.resolving.Go(func() {
			r.resolve(w, ask)
			<-r.free
		})
	}
}

// resolve creates an address handle and answers the worker: with the first try that succeeds, or when all have failed.
func (r *resolver) resolve(w *worker, ask askedAH) {
	for {
		t := r.tryAll(w, ask)
		if r.answer(w, ask, t) {
			return
		}
		t.ah.destroy()
	}
}

// tryAll returns the first try that succeeds, or the last one.
func (r *resolver) tryAll(w *worker, ask askedAH) try {
	tries := make(chan try, triesMost)
	begun, under := 0, 0
	begin := func() {
		begun, under = begun+1, under+1
		w.resolving.Go(func() { tries <- r.tryAH(ask) })
	}
	begin()
	again := time.NewTicker(hedge)
	defer again.Stop()
	var last try
	for under > 0 {
		select {
		case last = <-tries:
			under--
		case <-again.C:
			if begun < triesMost {
				begin()
			}
			continue
		}
		stale := last.gen != r.gidGen.Load() // by now its index may belong to another GID
		if last.err == nil && !stale {
			break
		}
		if last.err == nil {
			last.ah.destroy()
			last.err = errNoSource
		}
		if stale && under == 0 && begun < triesMost {
			begin()
		}
	}
	w.resolving.Go(func() { // destroys the handles of later tries
		for range under {
			if late := <-tries; late.err == nil {
				late.ah.destroy()
			}
		}
	})
	return last
}

// answer passes the result of the last try to the worker, unless the port has changed since a successful try began:
// then it returns false, and another handle has to be created.
func (r *resolver) answer(w *worker, ask askedAH, t try) bool {
	stale := func() bool { return t.err == nil && t.gen != r.gidGen.Load() }
	if t.err != nil {
		t.ah = retiredAH{}
	}
	done, first := w.answer(ask, t.ah, time.Now().Add(retryAH), stale)
	if !done || t.err == nil {
		return done
	}
	r.counts.count(func(c *counters) { c.AHsFailed++ })
	if first {
		r.log.Warn("peer_unreachable", "gid", ask.dgid(), "lid", ask.dlid(), "error", t.err)
	}
	return true
}

// tryAH may take a second.
func (r *resolver) tryAH(ask askedAH) try {
	t := try{gen: r.gidGen.Load()}
	index, ok := 0, true
	if info := r.port.portInfo(); ask.hasGRH() {
		index, ok = sourceIndex(info.GIDs, info.Ethernet, r.port.sourceGID(ask.source()), info.GID, ask.dgid())
	}
	t.err = errNoSource
	if ok {
		t.ah, t.err = r.dev.createAH(ask, index)
	}
	return t
}
