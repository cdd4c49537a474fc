// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"time"
)

const (
	// hedge is how long a try may take before another is made beside it. The kernel gives a neighbour up after a second; one
	// that comes back meanwhile answers the next try at once, and traffic goes on.
	hedge = 200 * time.Millisecond
	// triesMost bounds the tries for one address handle: as many as fit into that second.
	triesMost = 5
)

var errNoSource = errors.New("the port has no GID that can talk to it")

// try is an address handle's creation, come to its end.
type try struct {
	ah  retiredAH
	err error
	gen uint64 // of the GID table that it began with
}

// resolve creates an address handle and answers the worker: with the first that comes, or when all tries have failed.
func (d *Door) resolve(w *worker, ask askedAH) {
	for {
		t := d.tryAll(w, ask)
		if d.answer(w, ask, t) {
			return
		}
		t.ah.destroy()
	}
}

// tryAll returns the first try that succeeds, or the last one.
func (d *Door) tryAll(w *worker, ask askedAH) try {
	tries := make(chan try, triesMost)
	begun, under := 0, 0
	begin := func() {
		begun, under = begun+1, under+1
		w.resolving.Go(func() { tries <- d.tryAH(ask) })
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
		stale := last.gen != d.gidGen.Load() // its index may be another GID's by now
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
	w.resolving.Go(func() { // those that come too late
		for range under {
			if late := <-tries; late.err == nil {
				late.ah.destroy()
			}
		}
	})
	return last
}

// answer tells the worker of the last try, unless it made a handle that the port has changed under since: then it reports
// false, and another has to be made.
func (d *Door) answer(w *worker, ask askedAH, t try) bool {
	stale := func() bool { return t.err == nil && t.gen != d.gidGen.Load() }
	if t.err != nil {
		t.ah = retiredAH{}
	}
	done, first := w.answer(ask, t.ah, time.Now().Add(retryAH), stale)
	if !done || t.err == nil {
		return done
	}
	d.counts.count(func(c *Counters) { c.AHsFailed++ })
	if first {
		d.log.Warn("peer_unreachable", "gid", ask.dgid(), "lid", ask.dlid(), "error", t.err)
	}
	return true
}

// tryAH may take a second.
func (d *Door) tryAH(ask askedAH) try {
	t := try{gen: d.gidGen.Load()}
	index, ok := 0, true
	if p := d.Port(); ask.hasGRH() {
		index, ok = sourceIndex(p.GIDs, p.Ethernet, d.sourceGID(ask.source()), p.GID, ask.dgid())
	}
	t.err = errNoSource
	if ok {
		t.ah, t.err = d.createAH(ask, index)
	}
	return t
}
