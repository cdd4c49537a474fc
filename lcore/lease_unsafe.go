// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_cycles.h>
// #include "forwarded.h"
// #include "handover.h"
// #include "lease.h"
import "C"

import (
	"context"
	"slices"
	"time"
	"unsafe"
)

// Shards are some of a fleet's work, a bit each: host and group shards as the package fleet/shards numbers them.
type Shards struct {
	Hosts  uint64
	Groups [C.GROUP_WORDS]uint64
}

// Part is what a bridge does of its fleet's work. The zero value is nothing.
type Part struct {
	Open Shards // it forwards these
	// Leave are those of Open that are about to be another's. What is forwarded of these is noted (Noted), and nothing is
	// sent from their MAC addresses any more.
	Leave Shards
	// Hold are those that are about to be this bridge's. What comes of these is kept. When they are in Open, too, what was
	// kept and not forwarded (AddForwarded) is sent, in order, before what comes later, and nothing that was forwarded (Late); those that
	// were open already are not held.
	Hold Shards
	// Attracts are the host shards of Hold that hosts are to reach here already, a bit each.
	Attracts uint64
}

// Lease are what a datapath may forward, of a fleet.
type Lease struct{ datapath *Datapath }

// LeaseOf returns those of a datapath whose configuration has a VirtualMAC.
func LeaseOf(dp *Datapath) Lease { return Lease{dp} }

// Set says what this bridge does, and returns when no worker forwards any shard that is closed, or ctx is done. What is opened
// or held is so for what comes once the workers' queues hold nothing that is older: Settled. One goroutine at a time may
// call it and what follows, while workers run or not, before Close.
func (r Lease) Set(ctx context.Context, p *Part) error {
	dp := r.datapath
	open, leave, hold := p.Open.c(), p.Leave.c(), p.Hold.c()
	if dp.part.Leave == (Shards{}) && p.Leave != (Shards{}) {
		for _, w := range dp.workers {
			w.noted = uint64(w.c.handover.noted)
		}
	}
	C.lease_set(dp.c, &open, &leave, &hold, C.uint64_t(p.Attracts))
	closed, dropped := dp.part.Open.without(&p.Open), dp.part.Hold.without(&p.Hold)
	for _, w := range dp.workers {
		C.lease_gone(w.c, &closed, &dropped)
	}
	dp.part = *p
	return dp.awaitWorkers(ctx)
}

func (s *Shards) c() (c C.struct_shards) {
	c.hosts = C.uint64_t(s.Hosts)
	for i, word := range s.Groups {
		c.groups[i] = C.uint64_t(word)
	}
	return c
}

// without returns those that are not in others.
func (s *Shards) without(others *Shards) (c C.struct_shards) {
	c.hosts = C.uint64_t(s.Hosts &^ others.Hosts)
	for i, word := range s.Groups {
		c.groups[i] = C.uint64_t(word &^ others.Groups[i])
	}
	return c
}

// Settled waits until workers that run have sent what was kept of opened shards, and hold what is to be held. An error
// says that ctx was done before.
func (r Lease) Settled(ctx context.Context) error {
	const every = 200 * time.Microsecond
	for !r.settled() {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r Lease) settled() bool {
	return !slices.ContainsFunc(r.datapath.workers, func(w *Worker) bool { return !bool(C.lease_settled(w.c)) })
}

// Late is for how long after it was opened of a shard that was held nothing is sent that was forwarded (AddForwarded): of what members
// hear, this one may hear some later.
func (r Lease) Late(d time.Duration) {
	C.lease_late(r.datapath.c, C.uint64_t(d.Seconds()*float64(C.rte_get_tsc_hz())))
}

// Done reports whether workers forward all open shards alike, so that none that is open has to be held any more.
func (r Lease) Done() bool {
	return !slices.ContainsFunc(r.datapath.workers, func(w *Worker) bool { return !bool(C.lease_done(w.c)) })
}

// Noted returns what packets are known by that were forwarded of shards while they were in Leave, after a Set that leaves none;
// false: there were too many.
func (r Lease) Noted() (ids []uint64, all bool) {
	all = true
	for _, w := range r.datapath.workers {
		h := w.c.handover
		from, to := w.noted, uint64(h.noted)
		if to-from > C.NOTED_MOST {
			from, all = to-C.NOTED_MOST, false
		}
		for ; from < to; from++ {
			ids = append(ids, uint64(h.note[from%C.NOTED_MOST]))
		}
	}
	return ids, all
}

// AddForwarded adds to the packets that are known to have been forwarded by other members, before shards of these are opened; false:
// they are too many.
func (r Lease) AddForwarded(ids []uint64) bool {
	return bool(C.forwarded_add(r.datapath.c, (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(ids))), C.uint(len(ids))))
}

// Forget forgets what AddForwarded has added, while nothing is held.
func (r Lease) Forget() { C.forwarded_forget(r.datapath.c) }

// SetDeadline has workers send nothing (lease_ended) from a time on, until there is a later one. Any goroutine may call it.
func (r Lease) SetDeadline(t time.Time) {
	tsc := uint64(C.rte_rdtsc()) // read before the clock is, so that the deadline is too early, if anything
	left := max(0, time.Until(t))
	r.until(tsc, left-left/256, left) // the frequency is rounded to 10 MHz
}

// until has workers send nothing when the TSC has run for so long since it had that value, or the system's clock for so long from now.
func (r Lease) until(tsc uint64, by, left time.Duration) {
	C.lease_until(r.datapath.c, C.uint64_t(tsc+uint64(by.Seconds()*float64(TSCHz()))), C.uint64_t(left))
}
