// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"sync"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// An exchange gives the requests of IB nodes for services to the segment of their partition. The IB port serves one list
// of ports, for all.
type exchange struct {
	port ibside.Services
	loop *Loop

	mu    sync.Mutex
	takes map[*segment]func(ibside.ServiceRequest)
}

func newExchange(port ibside.Services, l *Loop) *exchange {
	return &exchange{port: port, loop: l, takes: map[*segment]func(ibside.ServiceRequest){}}
}

// of returns the IB port's services as a segment sees them.
func (x *exchange) of(s *segment) ibside.Services {
	if len(x.loop.segments) == 1 {
		return x.port
	}
	return ofSegment{x.port, x, s}
}

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
	if take == nil {
		delete(x.takes, o.segment)
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

// take passes a request on, or rejects it when its partition is no segment's.
func (x *exchange) take(r ibside.ServiceRequest) {
	x.mu.Lock()
	var take func(ibside.ServiceRequest)
	for s, t := range x.takes {
		if r.PKey != 0 && s.cfg.Bound.Matches(r.PKey) {
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
