// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"slices"
	"sync"
	"sync/atomic"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// An exchange gives the requests of IB nodes for services to the segment of their partition. The IB port serves one list
// of ports, for all: a segment rejects requests for those of others.
type exchange struct {
	port    ibside.Services
	several *atomic.Bool // segments

	serving sync.Mutex // held while the port is given a list

	mu     sync.Mutex
	serves map[*segment]served
	gone   map[*segment]bool // removed, until nothing is under way there
}

// served is what a segment serves.
type served struct {
	ports []ibside.PortRange
	take  func(ibside.ServiceRequest)
}

func newExchange(port ibside.Services, several *atomic.Bool) *exchange {
	return &exchange{port: port, several: several, serves: map[*segment]served{}, gone: map[*segment]bool{}}
}

// of returns the IB port's services as a segment sees them.
func (x *exchange) of(s *segment) ibside.Services { return ofSegment{x.port, x, s} }

type ofSegment struct {
	ibside.Services
	exchange *exchange
	segment  *segment
}

// Serve implements ibside.Services.
func (o ofSegment) Serve(ports []ibside.PortRange, take func(ibside.ServiceRequest)) error {
	x := o.exchange
	x.serving.Lock()
	defer x.serving.Unlock()
	all := x.with(o.segment, served{ports, take})
	if len(all) == 0 {
		return x.port.Serve(nil, nil)
	}
	return x.port.Serve(all, x.take)
}

// with notes what a segment serves, nothing when it is removed, and returns the ports of all.
func (x *exchange) with(s *segment, what served) []ibside.PortRange {
	x.mu.Lock()
	defer x.mu.Unlock()
	if what.take == nil || x.gone[s] {
		delete(x.serves, s)
	} else {
		x.serves[s] = what
	}
	var all []ibside.PortRange
	for _, o := range x.serves {
		all = append(all, o.ports...)
	}
	return joined(all)
}

// joined returns ranges that have the same ports, in order, each of them once.
func joined(ranges []ibside.PortRange) (out []ibside.PortRange) {
	slices.SortFunc(ranges, func(a, b ibside.PortRange) int { return int(a.First) - int(b.First) })
	for _, r := range ranges {
		if last := len(out) - 1; last >= 0 && int(r.First) <= int(out[last].Last)+1 {
			out[last].Last = max(out[last].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// forget gives a segment that is removed no more requests.
func (x *exchange) forget(s *segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.serves, s)
	x.gone[s] = true
}

// release forgets a removed segment, which will not say any more what it serves.
func (x *exchange) release(s *segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.gone, s)
}

// take passes a request on, or rejects it when its partition is no segment's that serves anything, or none serves any more.
// Where there is one segment, all are its.
func (x *exchange) take(r ibside.ServiceRequest) {
	x.mu.Lock()
	var take func(ibside.ServiceRequest)
	for s, o := range x.serves {
		if !x.several.Load() || r.PKey != 0 && s.cfg.Bound.Matches(r.PKey) {
			take = o.take
		}
	}
	ended := len(x.serves) == 0
	x.mu.Unlock()
	switch {
	case ended:
		_ = r.Reject(ib.SIDRStatusNoQP, nil)
	case take == nil:
		_ = r.Reject(ib.SIDRStatusRejected, nil) // the node tries again, or not
	default:
		take(r)
	}
}
