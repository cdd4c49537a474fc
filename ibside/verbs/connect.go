// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

const (
	// maxConnects bounds connections under way; more wait. It is the size of QP 1's receive queue in the kernel, so that
	// the answers find room.
	maxConnects = 512
	// resolveTimeout bounds each of the look-ups of the address and the path before the request.
	resolveTimeout = 2 * time.Second
)

// connectCause is why a service gave no queue pair.
type connectCause string

const (
	connectRejected    connectCause = "rejected"    // by the peer, see Status
	connectUnreachable connectCause = "unreachable" // no answer from the address, or no path
	connectTimedOut    connectCause = "timed_out"   // no answer to the request, or ctx's deadline has passed
	connectNoAddress   connectCause = "no_address"  // From is not the port's, or none of its addresses can reach To
	connectPartition   connectCause = "partition"   // the port cannot ask in the partition of PKey
	connectCanceled    connectCause = "canceled"    // ctx has ended
	connectClosed      connectCause = "closed"      // the port is closed, or the device is gone
	connectFailed      connectCause = "failed"      // anything else, see Err
)

// connectError is the error of connectOnce.
type connectError struct {
	To      netip.AddrPort
	Cause   connectCause
	Status  uint8  // with connectRejected, such as ib.SIDRStatusUnsupported
	Private []byte // with connectRejected
	Err     error
}

func (e *connectError) Error() string {
	return fmt.Sprintf("verbs: connect to %v: %s: %v", e.To, e.Cause, e.Err)
}

// Unwrap returns the cause.
func (e *connectError) Unwrap() error { return e.Err }

// connectStep is what an event of rdma_cm means to a connection.
type connectStep int

const (
	stepOther connectStep = iota // nothing
	stepAddress
	stepRoute
	stepEstablished
	stepNoPeer   // the look-up of the address or the path failed
	stepRejected // a status above 0 is the peer's, below 0 the kernel's
	stepNoDevice // the device goes away
)

// connectEvent is an event of a connection.
type connectEvent struct {
	step   connectStep
	name   string
	status int
	here   bool    // with stepAddress: the connection is on the Port's port
	pkey   ib.PKey // with stepAddress: of the partition that the request will be sent in; 0 on Ethernet
	ibside.ServiceAnswer
}

// connectOnce asks a service for its queue pair by rdma_cm. The zero r.From lets the port choose an address; on
// InfiniBand it is IPoIB's. A link-local r.To without a zone is on the port's network interface. The answer's private
// data is all that rdma_cm carries, 136 bytes, padded with zeros.
//
// The request is sent in the partition of r.PKey, or not at all; 0 is any partition. rdma_cm cannot be told a P_Key: it
// takes that of the IPoIB interface by which the address to connect from, or else the kernel's routes, leads to r.To.
// Where that is another partition, the port connects from its IPoIB address in the right one, so that the service sees
// that address instead of r.From. On Ethernet there is no partition but the default one. A GID with a P_Key in place of
// the IP address (family AF_IB) would need no IPoIB, but then rdma_cm writes no CMA header, and the service cannot see
// who asks.
//
// It ends with ctx; without a deadline when the kernel gives up, about a minute after the last look-up. Errors are
// *connectError. Nothing of the connection is left when it returns: a datagram service has no connections.
func (s *sidrPorts) connectOnce(ctx context.Context, r ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()
	c, failed := s.connect(ctx, r)
	if failed != nil {
		failed.To = netip.AddrPortFrom(r.To, r.Port)
		s.counts.count(func(c *counters) { c.Connects.add(string(failed.Cause), 1) })
		return ibside.ServiceAnswer{}, failed
	}
	s.counts.count(func(c *counters) { c.Connects.add("ok", 1) })
	return c, nil
}

func (s *sidrPorts) connect(ctx context.Context, r ibside.ServiceConnect) (ibside.ServiceAnswer, *connectError) {
	if len(r.Private) > maxAskPrivate || r.Port == 0 || !r.To.IsValid() {
		return ibside.ServiceAnswer{}, failure(connectFailed, fmt.Errorf("to %v, port %d, %d bytes of private data; use at most %d bytes, and an address and a port",
			r.To, r.Port, len(r.Private), maxAskPrivate))
	}
	if !s.begin() {
		return ibside.ServiceAnswer{}, failure(connectClosed, errClosed)
	}
	defer s.connects.Done()
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-ctx.Done():
		return ibside.ServiceAnswer{}, ended(ctx)
	}
	info := s.portInfo()
	if info.Ethernet {
		if r.PKey != 0 && !r.PKey.Matches(ib.PKeyDefault) {
			return ibside.ServiceAnswer{}, failure(connectPartition, fmt.Errorf("on Ethernet rdma_cm asks in the default partition only, not in that "+
				"of P_Key %v", r.PKey))
		}
		r.PKey = 0 // rdma_cm tells none
	}
	from, err := connectFrom(&info, r)
	if err != nil {
		return ibside.ServiceAnswer{}, failure(connectNoAddress, err)
	}
	return inPartition(r, from, s.source, func(from netip.Addr) (ibside.ServiceAnswer, *connectError) {
		id, err := s.resolveAddress(from, r.To.Unmap(), r.Port, &info)
		if err != nil {
			return ibside.ServiceAnswer{}, failure(causeOf(err), err)
		}
		defer id.destroy()
		return id.handshake(ctx, r.PKey, r.Private)
	})
}

// begin reports whether a connection may begin; Close waits for those that have.
func (s *sidrPorts) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.connects.Add(1)
	}
	return !s.closing
}

// handshake takes the steps after the address look-up has begun.
func (id *connecting) handshake(ctx context.Context, pkey ib.PKey, private []byte) (ibside.ServiceAnswer, *connectError) {
	ev, failed := id.await(ctx, stepAddress)
	if failed == nil {
		failed = ev.astray(pkey)
	}
	if failed != nil {
		return ibside.ServiceAnswer{}, failed
	}
	if err := id.resolveRoute(); err != nil {
		return ibside.ServiceAnswer{}, failure(causeOf(err), err)
	}
	if _, failed = id.await(ctx, stepRoute); failed != nil {
		return ibside.ServiceAnswer{}, failed
	}
	if err := id.connect(private); err != nil {
		return ibside.ServiceAnswer{}, failure(causeOf(err), err)
	}
	ev, failed = id.await(ctx, stepEstablished)
	return ev.ServiceAnswer, failed
}

// await waits for the event that ends a step.
func (id *connecting) await(ctx context.Context, want connectStep) (connectEvent, *connectError) {
	for {
		select {
		case ev := <-id.events:
			if ev.step == want {
				return ev, nil
			}
			if failed := ev.failure(); failed != nil {
				return ev, failed
			}
		case <-ctx.Done():
			return connectEvent{}, ended(ctx)
		}
	}
}

// failure returns why an event ends the connection; nil when it goes on.
func (ev *connectEvent) failure() *connectError {
	err := fmt.Errorf("%s, status %d", ev.name, ev.status)
	switch {
	case ev.step == stepNoPeer:
		return failure(connectUnreachable, err)
	case ev.step == stepNoDevice:
		return failure(connectClosed, err)
	case ev.step == stepRejected && ev.status > 0:
		e := failure(connectRejected, fmt.Errorf("the peer says %s (SIDR status %d)", sidrStatus(ev.status), ev.status))
		e.Status, e.Private = uint8(min(ev.status, 255)), ev.Private
		return e
	case ev.step == stepRejected && ev.status == -int(syscall.ETIMEDOUT):
		return failure(connectTimedOut, err)
	case ev.step == stepRejected:
		return failure(connectFailed, err)
	}
	return nil
}

func sidrStatus(n int) string {
	switch n {
	case ib.SIDRStatusUnsupported:
		return "that there is no such service"
	case ib.SIDRStatusRejected:
		return "no"
	}
	return "that it cannot"
}

func failure(why connectCause, err error) *connectError { return &connectError{Cause: why, Err: err} }

// ended says why ctx has ended.
func ended(ctx context.Context) *connectError {
	switch err := context.Cause(ctx); {
	case errors.Is(err, errClosed):
		return failure(connectClosed, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return failure(connectTimedOut, err)
	default:
		return failure(connectCanceled, err)
	}
}

// causeOf names why a call of rdma_cm failed.
func causeOf(err error) connectCause {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENODEV):
		return connectNoAddress
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return connectUnreachable
	}
	return connectFailed
}

// connectFrom returns the address to connect from. On Ethernet it is chosen as for messages. On InfiniBand, GIDs are
// not IP addresses: the zero Addr lets the kernel's routes choose.
func connectFrom(p *PortInfo, r ibside.ServiceConnect) (netip.Addr, error) {
	if r.From.IsValid() || !p.Ethernet {
		return r.From.Unmap(), nil
	}
	index, ok := sourceIndex(p.GIDs, true, p.GID, p.GID, ib.GIDFromAddr(r.To.WithZone("")))
	for _, g := range p.GIDs {
		if ok && g.Index == index {
			return g.GID.Addr(), nil
		}
	}
	return netip.Addr{}, errNoSource
}

// scopeOf returns the network interface that a link-local address is on, 0 for any other.
func scopeOf(gids []GIDEntry, a netip.Addr) uint32 {
	if !a.Is6() || !a.IsLinkLocalUnicast() {
		return 0
	}
	if n, err := strconv.ParseUint(a.Zone(), 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(a.Zone()); err == nil {
		return uint32(i.Index)
	}
	for _, g := range gids {
		if g.IfIndex != 0 {
			return uint32(g.IfIndex)
		}
	}
	return 0
}
