// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"sync"
	"sync/atomic"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// An exchange gives the requests of IB nodes for services to the segment of their partition. The IB port serves one list
// of ports, for all.
type exchange struct {
	port    ibside.Services
	several atomic.Bool // segments

	mu    sync.Mutex
	takes map[*segment]func(ibside.ServiceRequest)
	gone  map[*segment]bool // removed
}

func newExchange(port ibside.Services) *exchange {
	return &exchange{port: port, takes: map[*segment]func(ibside.ServiceRequest){}, gone: map[*segment]bool{}}
}

// of returns the IB port's services as a segment sees them.
func (x *exchange) of(s *segment) ibside.Services { return ofSegment{x.port, x, s} }

type ofSegment struct {
	ibside.Services
	exchange *exchange
	segment  *segment
}

// Serve implements ibside.Services. All segments serve the same ports.
func (o ofSegment) Serve(ports []ibside.PortRange, take func(ibside.ServiceRequest)) error {
	x := o.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if take == nil || x.gone[o.segment] {
		delete(x.takes, o.segment)
		take = nil
	} else {
		x.takes[o.segment] = take
	}
	if len(x.takes) == 0 {
		return x.port.Serve(nil, nil)
	}
	if take == nil { // the last one to end ends it for the port
		return nil
	}
	return x.port.Serve(ports, x.take)
}

// forget gives a segment that is removed no more requests.
func (x *exchange) forget(s *segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.takes, s)
	x.gone[s] = true
}

// take passes a request on, or rejects it when its partition is no segment's. Where there is one, all are its.
func (x *exchange) take(r ibside.ServiceRequest) {
	x.mu.Lock()
	var take func(ibside.ServiceRequest)
	for s, t := range x.takes {
		if !x.several.Load() || r.PKey != 0 && s.cfg.Bound.Matches(r.PKey) {
			take = t
		}
	}
	x.mu.Unlock()
	if take == nil {
		_ = r.Reject(ib.SIDRStatusRejected, nil) // the node tries again, or not
		return
	}
	take(r)
}
