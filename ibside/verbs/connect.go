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

	"causeway/ibside/ib"
)

const (
	// maxConnects bounds connections under way: more wait for their turn. It is the size of QP 1's receive queue in
	// the kernel, so that the answers find room.
	maxConnects = 512
	// resolveTimeout bounds each of the two look-ups, of the address and the path, that come before the request.
	resolveTimeout = 2 * time.Second
)

// ConnectRequest says which service to connect to.
type ConnectRequest struct {
	From    netip.Addr // one of the port's; the zero Addr: the door chooses. On InfiniBand, IPoIB's
	To      netip.Addr // a link-local one is taken to be on the port's network interface, unless it has a zone
	Port    uint16     // of rdma_cm's RDMA_PS_UDP
	Private []byte     // 180 bytes at most
}

// Connection is what a service has answered.
type Connection struct {
	QPN     ib.QPN
	QKey    ib.QKey
	Private []byte // all that rdma_cm carries, 136 bytes, what the peer did not fill zero
	Route   Route
}

// Route says how to send to the service.
type Route struct {
	SGID, DGID ib.GID
	HasGRH     bool // always on Ethernet
	DLID       ib.LID
	SL         ib.SL
	MTU        ib.MTU // 0: rdma_cm did not say
	HopLimit   uint8
	TClass     uint8
	FlowLabel  uint32
}

// ConnectCause is why there is no connection.
type ConnectCause string

// The causes.
const (
	ConnectRejected    ConnectCause = "rejected"    // the peer says so, see Status
	ConnectUnreachable ConnectCause = "unreachable" // nobody has the address, or there is no path
	ConnectTimedOut    ConnectCause = "timed_out"   // the peer has not answered the request, or ctx's deadline has passed
	ConnectNoAddress   ConnectCause = "no_address"  // From is not the port's, or nothing of it can talk to To
	ConnectCanceled    ConnectCause = "canceled"    // ctx has ended
	ConnectClosed      ConnectCause = "closed"      // the door, or the device is gone
	ConnectFailed      ConnectCause = "failed"      // anything else: Err says what
)

// ConnectError is the error of Connect.
type ConnectError struct {
	To      netip.AddrPort
	Cause   ConnectCause
	Status  uint8  // with ConnectRejected, such as ib.SIDRStatusUnsupported
	Private []byte // with ConnectRejected
	Err     error
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("verbs: connect to %v: %s: %v", e.To, e.Cause, e.Err)
}

// Unwrap returns what lies behind it.
func (e *ConnectError) Unwrap() error { return e.Err }

// connectStep is what an event of rdma_cm means to a connection.
type connectStep int

const (
	stepOther connectStep = iota // nothing
	stepAddress
	stepRoute
	stepEstablished
	stepNoPeer   // look-up of the address or the path failed
	stepRefused  // no: status above 0 is the peer's, below the kernel's
	stepNoDevice // the device goes away
)

// connectEvent is an event of a connection.
type connectEvent struct {
	step   connectStep
	name   string
	status int
	here   bool // with stepAddress: the connection is on the door's port
	Connection
}

// Connect asks a service for its queue pair by rdma_cm. It ends with ctx, without a deadline when the kernel gives up,
// about a minute after the last look-up. Errors are *ConnectError. Nothing of the connection is left when it returns:
// a datagram service knows no connections.
func (d *Door) Connect(ctx context.Context, r ConnectRequest) (Connection, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(errClosed) })()
	c, failed := d.connect(ctx, r)
	if failed != nil {
		failed.To = netip.AddrPortFrom(r.To, r.Port)
		d.counts.count(func(c *Counters) { c.Connects.add(string(failed.Cause), 1) })
		return Connection{}, failed
	}
	d.counts.count(func(c *Counters) { c.Connects.add("ok", 1) })
	return c, nil
}

func (d *Door) connect(ctx context.Context, r ConnectRequest) (Connection, *ConnectError) {
	if len(r.Private) > maxAskPrivate || r.Port == 0 || !r.To.IsValid() {
		return Connection{}, failure(ConnectFailed, fmt.Errorf("to %v, port %d, %d bytes of private data; use at most %d bytes, and an address and a port",
			r.To, r.Port, len(r.Private), maxAskPrivate))
	}
	if !d.sidr.begin() {
		return Connection{}, failure(ConnectClosed, errClosed)
	}
	defer d.sidr.connects.Done()
	select {
	case d.sidr.free <- struct{}{}:
		defer func() { <-d.sidr.free }()
	case <-ctx.Done():
		return Connection{}, ended(ctx)
	}
	p := d.Port()
	from, err := connectFrom(&p, r)
	if err != nil {
		return Connection{}, failure(ConnectNoAddress, err)
	}
	id, err := d.resolveAddress(from, r.To.Unmap(), r.Port, &p)
	if err != nil {
		return Connection{}, failure(causeOf(err), err)
	}
	defer id.destroy()
	return id.shake(ctx, r.Private)
}

// begin reports whether connections may begin; Close waits for those that have.
func (s *sidrPorts) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.connects.Add(1)
	}
	return !s.closing
}

// shake takes the steps after the address look-up has begun.
func (id *connecting) shake(ctx context.Context, private []byte) (Connection, *ConnectError) {
	ev, failed := id.await(ctx, stepAddress)
	if failed != nil {
		return Connection{}, failed
	}
	if !ev.here {
		return Connection{}, failure(ConnectNoAddress, errors.New("the route leads over another RDMA device; give an address of this one to connect from"))
	}
	if err := id.resolveRoute(); err != nil {
		return Connection{}, failure(causeOf(err), err)
	}
	if _, failed = id.await(ctx, stepRoute); failed != nil {
		return Connection{}, failed
	}
	if err := id.connect(private); err != nil {
		return Connection{}, failure(causeOf(err), err)
	}
	ev, failed = id.await(ctx, stepEstablished)
	return ev.Connection, failed
}

// await waits for the event that ends a step.
func (id *connecting) await(ctx context.Context, want connectStep) (connectEvent, *ConnectError) {
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

// failure returns what an event says of a connection that will not come to be.
func (ev *connectEvent) failure() *ConnectError {
	err := fmt.Errorf("%s, status %d", ev.name, ev.status)
	switch {
	case ev.step == stepNoPeer:
		return failure(ConnectUnreachable, err)
	case ev.step == stepNoDevice:
		return failure(ConnectClosed, err)
	case ev.step == stepRefused && ev.status > 0:
		e := failure(ConnectRejected, fmt.Errorf("the peer says %s (SIDR status %d)", sidrStatus(ev.status), ev.status))
		e.Status, e.Private = uint8(min(ev.status, 255)), ev.Private
		return e
	case ev.step == stepRefused && ev.status == -int(syscall.ETIMEDOUT):
		return failure(ConnectTimedOut, err)
	case ev.step == stepRefused:
		return failure(ConnectFailed, err)
	}
	return nil
}

func sidrStatus(n int) string {
	switch n {
	case ib.SIDRStatusUnsupported:
		return "that nobody listens"
	case ib.SIDRStatusRejected:
		return "no"
	}
	return "that it cannot"
}

func failure(why ConnectCause, err error) *ConnectError { return &ConnectError{Cause: why, Err: err} }

// ended says why ctx has ended.
func ended(ctx context.Context) *ConnectError {
	switch err := context.Cause(ctx); {
	case errors.Is(err, errClosed):
		return failure(ConnectClosed, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return failure(ConnectTimedOut, err)
	default:
		return failure(ConnectCanceled, err)
	}
}

// causeOf names what a call of rdma_cm has refused.
func causeOf(err error) ConnectCause {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENODEV):
		return ConnectNoAddress
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return ConnectUnreachable
	}
	return ConnectFailed
}

// connectFrom returns the address to connect from. On Ethernet it chooses as it does for messages. On InfiniBand, GIDs are
// not IP addresses: the zero Addr lets the kernel's routes choose.
func connectFrom(p *PortInfo, r ConnectRequest) (netip.Addr, error) {
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
