// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// maxListeners bounds the ports that are served. rdma_cm listens on one port at a time, and each listener takes memory
// of the kernel and a place among the ports of this machine.
const maxListeners = 1024

// A connector is what services need of a Port.
type connector interface {
	serve(port uint16, h func(ibside.ServiceRequest)) (closer func(), err error)
	connectOnce(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error)
	portInfo() PortInfo
}

// services is connection set-up by rdma_cm: a listener for each port that is served.
type services struct {
	port connector

	mu        sync.Mutex
	handler   func(ibside.ServiceRequest)
	listeners map[uint16]func() // by port; they close
}

func newServices(p connector) *services {
	return &services{port: p, listeners: map[uint16]func(){}}
}

// CheckPorts implements ibside.OpenPort.
func (s *services) CheckPorts(ports []ibside.PortRange) error {
	_, err := eachPort(ports)
	return err
}

// Serve implements ibside.Services. Ports that other programs of this machine have are named in the error; the others
// are served, and the next call tries those again.
func (s *services) Serve(ports []ibside.PortRange, h func(ibside.ServiceRequest)) error {
	wanted, err := eachPort(ports)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
	for port, closeIt := range s.listeners {
		if _, keep := slices.BinarySearch(wanted, port); !keep {
			closeIt()
			delete(s.listeners, port)
		}
	}
	var failed error
	lost := 0
	for _, port := range wanted {
		if s.listeners[port] != nil {
			continue
		}
		closer, err := s.port.serve(port, s.take)
		if err != nil {
			failed = errors.Join(err, failed)
			if lost++; lost == 3 { // three are enough for the error
				break
			}
			continue
		}
		s.listeners[port] = closer
	}
	return failed
}

// eachPort lists the ports of ranges in order, once each.
func eachPort(ranges []ibside.PortRange) ([]uint16, error) {
	var all []uint16
	for _, r := range ranges {
		if r.First == 0 || r.First > r.Last {
			return nil, fmt.Errorf("[[service]]: ports %d to %d: use ports from 1 to 65535, the lower one first", r.First, r.Last)
		}
		for p := int(r.First); p <= int(r.Last); p++ {
			all = append(all, uint16(p))
		}
		slices.Sort(all)
		all = slices.Compact(all)
	}
	if len(all) > maxListeners {
		return nil, fmt.Errorf("[[service]]: %d ports, but rdma_cm needs a listener for each; use %d ports at most", len(all), maxListeners)
	}
	return all, nil
}

// take passes a request to the present handler.
func (s *services) take(r ibside.ServiceRequest) {
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h == nil {
		_ = r.Reject(ib.SIDRStatusUnsupported, nil) // fails when the requester has gone
		return
	}
	h(r)
}

// Connect implements ibside.Services. It connects from c.From where the port has that address in the partition of
// c.PKey, else from an address of the port that is in it. Without one it fails.
func (s *services) Connect(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	c.From = s.source(c.From)
	got, err := s.port.connectOnce(ctx, c)
	var e *connectError
	// The address has just gone, or belongs to another device.
	if errors.As(err, &e) && e.Cause == connectNoAddress && c.From.IsValid() {
		c.From = netip.Addr{}
		got, err = s.port.connectOnce(ctx, c)
	}
	switch {
	case err == nil:
		return got, nil
	case errors.As(err, &e) && e.Cause == connectRejected:
		return ibside.ServiceAnswer{}, &ibside.Rejected{Status: e.Status, Private: e.Private}
	case e != nil && e.Cause == connectTimedOut:
		return ibside.ServiceAnswer{}, fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
	}
	return ibside.ServiceAnswer{}, err
}

// source returns an address to connect from, or the zero Addr. On Ethernet the port's addresses are its GIDs; on
// InfiniBand they are IPoIB's, and rdma_cm knows them.
func (s *services) source(from netip.Addr) netip.Addr {
	info := s.port.portInfo()
	gid := ib.GIDFromAddr(from)
	if info.Ethernet && !slices.ContainsFunc(info.GIDs, func(g GIDEntry) bool { return g.GID == gid }) {
		return netip.Addr{}
	}
	return from
}
