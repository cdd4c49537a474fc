// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"maps"
	"sync"
)

// counts counts by cause.
type counts map[string]uint64

// Sum is the sum over all causes.
func (c counts) Sum() uint64 {
	var n uint64
	for _, x := range c {
		n += x
	}
	return n
}

func (c *counts) add(cause string, n uint64) {
	if *c == nil {
		*c = counts{}
	}
	if n > 0 {
		(*c)[cause] += n
	}
}

// counters are the port's. While nothing is under way, Posted = Sent + SendDrops.Sum() and Received = Delivered +
// Drops.Sum().
type counters struct {
	Posted    uint64 // taken from workers
	Sent      uint64 // completed by the device; it does not say whether they arrived
	SendDrops counts // by the names in drops.def

	Received  uint64 // completions of receives, good or bad
	Delivered uint64 // handed to workers
	Drops     counts

	Lists      uint64 // lists of sends given to the device
	Inlined    uint64 // sends with their payload in the work request
	AHsAsked   uint64 // address handles that workers missed
	AHsFailed  uint64 // of them, those that could not be created
	AHsEvicted uint64 // address handles that gave way to others
	NoBuffers  uint64 // rounds in which the mempool had no receive buffers

	Recovered  uint64 // queue pairs brought back from the error state
	Rejoined   uint64 // memberships renewed
	ProxyQPs   int    // queue pairs there are now, multicast ones included; not those that are ready or rest
	Ready      int    // queue pairs that are ready to be proxy QPs
	Resting    int    // QPNs that no queue pair may have yet
	RestsCut   uint64 // QPNs that rested for less than restTime, as others needed their place
	Groups     int    // memberships now
	Events     counts // of the device, by kind
	JoinErrors uint64 // joins that were rejected, or that the subnet ended

	Requests uint64 // of rdma_cm for a service here; each waits, or is one of Answers
	Answers  counts // accepted, rejected, timed_out, full, other_device, closed, failed
	Connects counts // of Connect: ok, or a connectCause
}

// managementCounts are what the Go side counts.
type managementCounts struct {
	mu  sync.Mutex
	sum counters
}

func (m *managementCounts) count(f func(*counters)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.sum)
}

// closed keeps a worker's final counters.
func (m *managementCounts) closed(last *counters) {
	m.count(func(c *counters) {
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

// counters returns the counters; after Close, the final ones.
func (p *Port) counters() counters {
	groups := len(p.groups.MGIDs())
	c := p.qpTable.counters()
	c.Groups = groups
	return c
}

// Lost implements ibside.OpenPort.
func (p *Port) Lost() (sends, receives map[string]uint64) {
	c := p.counters()
	return c.SendDrops, c.Drops
}

// ServiceCounts implements ibside.OpenPort.
func (p *Port) ServiceCounts() (requests, connects map[string]uint64) {
	c := p.counters()
	return c.Answers, c.Connects
}

func copied(c counts) counts {
	if c == nil {
		return counts{}
	}
	return maps.Clone(c)
}
