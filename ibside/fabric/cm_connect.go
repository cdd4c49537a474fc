// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// CMAskPrivateLen is the largest private data of a request, without the CMAHeader.
const CMAskPrivateLen = ib.SIDRReqPrivateLen - ib.CMAHdrLen

// CMConnect describes the service to connect to.
type CMConnect struct {
	Route    MADAddress // of the service's port
	From, To netip.Addr // of one family
	FromPort uint16
	Port     uint16  // of the service
	PKey     ib.PKey // zero: the port's first
	Private  []byte  // CMAskPrivateLen bytes at most
}

// CMAnswer is the answer of a service.
type CMAnswer struct {
	QPN     ib.QPN
	QKey    ib.QKey
	Private []byte // ib.SIDRRepPrivateLen bytes, zero-padded
}

// CMRejectedError is a rejection by the peer.
type CMRejectedError struct {
	To      netip.AddrPort
	Status  uint8 // such as ib.SIDRStatusUnsupported
	Private []byte
}

func (e *CMRejectedError) Error() string {
	return fmt.Sprintf("fabric: connect to %v: rejected with SIDR status %d", e.To, e.Status)
}

// ErrCMTimeout means that a service answered none of the tries.
var ErrCMTimeout = errors.New("fabric: the service does not answer")

// asking is an own request.
type asking struct {
	route   MADAddress
	tid     uint64
	service ib.ServiceID
	answer  chan ib.SIDRRepFields
}

// Connect requests a service's queue pair. Errors are *CMRejectedError, ErrCMTimeout, ErrClosed, or the cause of ctx.
func (m *CM) Connect(ctx context.Context, c CMConnect) (CMAnswer, error) {
	a, err := m.connect(ctx, &c)
	var rejected *CMRejectedError
	what := "ok"
	switch {
	case errors.As(err, &rejected):
		what = "rejected"
	case errors.Is(err, ErrCMTimeout), errors.Is(err, context.DeadlineExceeded):
		what = "timed_out"
	case errors.Is(err, ErrClosed):
		what = "closed"
	case errors.Is(err, context.Canceled):
		what = "canceled"
	case err != nil:
		what = "failed"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Connects[what]++
	return a, err
}

func (m *CM) connect(ctx context.Context, c *CMConnect) (CMAnswer, error) {
	if len(c.Private) > CMAskPrivateLen || c.Port == 0 || !isHostPair(c.From, c.To) {
		return CMAnswer{}, fmt.Errorf("fabric: connect from %v to %v, port %d, with %d bytes of private data; use two addresses of one family, a port and at most %d bytes",
			c.From, c.To, c.Port, len(c.Private), CMAskPrivateLen)
	}
	select {
	case m.free <- struct{}{}:
		defer func() { <-m.free }()
	case <-ctx.Done():
		return CMAnswer{}, context.Cause(ctx)
	case <-m.closed:
		return CMAnswer{}, ErrClosed
	}
	if c.PKey == 0 {
		c.PKey = m.hca.own().PKeys[0]
	}
	in := slices.IndexFunc(m.hca.own().PKeys, c.PKey.Matches)
	if in < 0 {
		return CMAnswer{}, fmt.Errorf("fabric: connect to %v: the port is not in the partition of P_Key %v", c.To, c.PKey)
	}
	c.Route.PKeyIndex = uint16(in)
	a := &asking{route: c.Route, service: ib.ServiceIDFromPort(ib.PortSpaceUDP, c.Port), answer: make(chan ib.SIDRRepFields, 1)}
	id := m.enter(a)
	defer m.leave(id)
	rep, err := m.exchange(ctx, a, m.question(a, id, c))
	switch {
	case err != nil:
		return CMAnswer{}, err
	case rep.Status != ib.SIDRStatusOK:
		return CMAnswer{}, &CMRejectedError{netip.AddrPortFrom(c.To, c.Port), rep.Status, rep.Private}
	case rep.QPN <= ib.QP1 || rep.QPN >= ib.QPMulticast:
		return CMAnswer{}, fmt.Errorf("fabric: connect to %v: the answer has QPN %v", c.To, rep.QPN)
	}
	return CMAnswer{rep.QPN, rep.QKey, rep.Private}, nil
}

// enter gives a request an ID that no other request has or recently had, because a peer treats two requests of one port
// with the same ID as one.
func (m *CM) enter(a *asking) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for taken := true; taken; _, taken = m.asking[m.nextID] {
		m.nextID++
	}
	a.tid = uint64(m.nextID) | 1<<63
	m.asking[m.nextID] = a
	return m.nextID
}

func (m *CM) leave(id uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.asking, id)
}

func (m *CM) question(a *asking, id uint32, c *CMConnect) []byte {
	b := newCM(ib.AttrSIDRReq, a.tid)
	private := make([]byte, ib.CMAHdrLen, ib.SIDRReqPrivateLen)
	ib.PutCMAHeader(private, ib.CMAFields{SrcPort: c.FromPort, Src: c.From, Dst: c.To})
	ib.PutSIDRReq(b[ib.MADHdrLen:], ib.SIDRReqFields{
		RequestID: id, PKey: c.PKey, ServiceID: a.service, Private: append(private, c.Private...),
	})
	return b
}

// exchange sends a request and its retries until it is answered.
func (m *CM) exchange(ctx context.Context, a *asking, question []byte) (ib.SIDRRepFields, error) {
	again := time.NewTicker(m.cfg.Timeout)
	defer again.Stop()
	for try := range m.cfg.Tries {
		if try > 0 {
			m.mu.Lock()
			m.counts.Again++
			m.mu.Unlock()
		}
		switch cause := m.send(a.route, question); cause {
		case "":
		case DropPortClosed:
			return ib.SIDRRepFields{}, ErrClosed
		default:
			return ib.SIDRRepFields{}, fmt.Errorf("fabric: connect: send to LID %v: %s", a.route.LID, cause)
		}
		select {
		case rep := <-a.answer:
			return rep, nil
		case <-ctx.Done():
			return ib.SIDRRepFields{}, context.Cause(ctx)
		case <-m.closed:
			return ib.SIDRRepFields{}, ErrClosed
		case <-again.C:
		}
	}
	return ib.SIDRRepFields{}, ErrCMTimeout
}

// reply passes an answer to its request; false when there is none. Only the port that the request went to may answer, in its partition.
func (m *CM) reply(from MADAddress, mad ib.MAD, rep ib.SIDRRep) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.asking[rep.RequestID()]
	if a == nil || from.LID != a.route.LID || from.PKeyIndex != a.route.PKeyIndex || mad.TID() != a.tid || rep.ServiceID() != a.service {
		return false
	}
	f := rep.Fields()
	f.Private = slices.Clone(f.Private)
	a.answer <- f // has room for one, and there is no other: whoever asks may not have taken it when the next comes
	delete(m.asking, rep.RequestID())
	return true
}
