// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"maps"
	"sync"
)

// Counts counts by cause.
type Counts map[string]uint64

// Sum is the sum over all causes.
func (c Counts) Sum() uint64 {
	var n uint64
	for _, x := range c {
		n += x
	}
	return n
}

func (c *Counts) add(cause string, n uint64) {
	if *c == nil {
		*c = Counts{}
	}
	if n > 0 {
		(*c)[cause] += n
	}
}

// Counters are the door's. At any quiet moment Posted = Sent + SendDrops.Sum() and Received = Delivered + Drops.Sum().
type Counters struct {
	Posted    uint64 // taken from workers
	Sent      uint64 // carried out by the device; whether it arrived, nobody knows
	SendDrops Counts // by the names in drops.def

	Received  uint64 // completions of receives, good or bad
	Delivered uint64 // handed to workers
	Drops     Counts

	Lists      uint64 // lists of sends given to the device
	Inlined    uint64 // sends with their payload in the work request
	AHsAsked   uint64 // address handles that workers missed
	AHsFailed  uint64 // of them, those that could not be created
	AHsEvicted uint64 // address handles that gave way to others
	NoBuffers  uint64 // rounds in which the mempool had no receive buffers

	Recovered  uint64 // queue pairs brought back from the error state
	Rejoined   uint64 // memberships renewed
	StandIns   int    // queue pairs there are now, multicast ones included
	Groups     int    // memberships now
	Events     Counts // of the device, by kind
	JoinErrors uint64 // joins that were refused, or that the subnet ended

	Requests uint64 // of rdma_cm for a service here; each waits, or is one of Answers
	Answers  Counts // accepted, rejected, timed_out, full, other_device, closed, failed
	Connects Counts // to services of others: ok, or a ConnectCause
}

// managementCounts are what the Go side counts.
type managementCounts struct {
	mu  sync.Mutex
	sum Counters
}

func (m *managementCounts) count(f func(*Counters)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.sum)
}

// closed keeps what a worker has counted, when it ends.
func (m *managementCounts) closed(last *Counters) {
	m.count(func(c *Counters) {
		c.Posted += last.Posted
		c.Sent += last.Sent
		c.Received += last.Received
		c.Delivered += last.Delivered
		for name, n := range last.SendDrops {
			c.SendDrops.add(name, n)
		}
		for name, n := range last.Drops {
			c.Drops.add(name, n)
		}
		c.Lists += last.Lists
		c.Inlined += last.Inlined
		c.AHsAsked += last.AHsAsked
		c.AHsEvicted += last.AHsEvicted
		c.NoBuffers += last.NoBuffers
	})
}

// Counters returns the counters; after Close, the final ones.
func (d *Door) Counters() Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.mu.Lock()
	defer d.counts.mu.Unlock()
	c := d.counts.sum
	c.SendDrops, c.Drops, c.Events = copied(c.SendDrops), copied(c.Drops), copied(c.Events)
	c.Answers, c.Connects = copied(c.Answers), copied(c.Connects)
	for _, w := range d.workers {
		w.counters(&c)
	}
	c.StandIns = len(d.qps)
	return c
}

func copied(c Counts) Counts {
	if c == nil {
		return Counts{}
	}
	return maps.Clone(c)
}
