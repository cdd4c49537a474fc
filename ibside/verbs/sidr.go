// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// sidrLimits bound the resources that requesters can occupy.
type sidrLimits struct {
	pending  int           // requests of one listener without an answer
	answerIn time.Duration // after this time a request is rejected: a requester gives up after about a minute
}

var usualLimits = sidrLimits{pending: 1024, answerIn: 30 * time.Second}

// sidrPorts are the port's listeners and connections of rdma_cm.
type sidrPorts struct {
	portReader
	cfg    *Config
	log    *slog.Logger
	ctx    context.Context // ends connections
	counts *managementCounts
	cm     *channel
	source func(ib.PKey, netip.Addr) (netip.Addr, bool) // the port's address in a partition, to connect to another from

	mu        sync.Mutex
	closing   bool
	listeners map[*listener]bool
	connects  sync.WaitGroup
	free      chan struct{} // a semaphore: bounds the connections under way
}

// listener receives requests for the queue pairs of a service.
type listener struct {
	sidr   *sidrPorts
	limits sidrLimits
	handle func(ibside.ServiceRequest)
	id     sidrID
	end    sync.Once

	mu      sync.Mutex
	closed  bool
	pending map[*pending]bool
	busy    sync.WaitGroup // answers being given
}

// pending is a request that has no answer yet.
type pending struct {
	l        *listener
	id       sidrID
	from, to netip.Addr
	port     uint16
	timer    *time.Timer
}

// sidrID is rdma_cm's side of a listener or a request. Each ends with one call of destroy, which rejects a request
// without an answer.
type sidrID interface {
	accept(qpn ib.QPN, private []byte) error
	reject(private []byte) error
	destroy()
}

// The results of requests, as counters.Answers counts them.
const (
	requestAccepted    = "accepted"
	requestRejected    = "rejected"     // by Reject
	requestTimedOut    = "timed_out"    // no answer in time
	requestFull        = "full"         // too many wait for an answer
	requestOtherDevice = "other_device" // not sent to the Port's port
	requestClosed      = "closed"       // the listener was closed
	requestFailed      = "failed"       // the answer could not be given
)

// longest private data that rdma_cm carries with a datagram service (rdma_connect(3), rdma_accept(3)).
const (
	maxAskPrivate    = 180
	maxAnswerPrivate = ib.SIDRRepPrivateLen
)

var errAnswered = errors.New("verbs: the request has been answered, or has waited for too long")

// serve listens on a port until closer is called.
func (s *sidrPorts) serve(port uint16, h func(ibside.ServiceRequest)) (closer func(), err error) {
	l, err := s.listen(port, usualLimits, h)
	if err != nil {
		return nil, err
	}
	return l.Close, nil
}

// listen takes rdma_cm's requests (RDMA_PS_UDP) to a port, 1 to 65535, and calls h in a goroutine of its own for each.
// At most 1024 wait for an answer; more are rejected.
//
// It listens on all addresses of the machine, and rejects requests that were not sent to the Port's port. Listeners on
// each address of the port would have to follow changes of the addresses, and an rdma_cm_id that is bound makes
// librdmacm keep the device; this one stays through all changes of addresses and links. So no other program of the
// machine (or network namespace) can listen on the same number, on any device.
//
// On InfiniBand, rdma_cm's addresses are those of IPoIB, so the port needs an IPoIB interface. Requests by GID (family
// AF_IB) may find this listener, too; then From and To are GIDs. Neither has ever been run.
func (s *sidrPorts) listen(port uint16, limits sidrLimits, h func(ibside.ServiceRequest)) (*listener, error) {
	if port == 0 {
		return nil, fmt.Errorf("verbs: %s: listen on port 0; use 1 to 65535", s.cfg.name())
	}
	l := &listener{sidr: s, limits: limits, handle: h, pending: map[*pending]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errClosed
	}
	if err := l.open(port); err != nil {
		return nil, fmt.Errorf("verbs: %s: listen on rdma_cm port %d: %w; another program may have it", s.cfg.name(), port, err)
	}
	s.listeners[l] = true
	return l, nil
}

// Close stops listening. Requests without an answer are rejected.
func (l *listener) Close() {
	l.end.Do(l.close)
	s := l.sidr
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (l *listener) close() {
	l.mu.Lock()
	left := l.pending
	l.closed, l.pending = true, nil
	l.mu.Unlock()
	l.id.destroy()
	for p := range left {
		p.timer.Stop()
		p.id.destroy()
		l.sidr.countRequest(requestClosed)
	}
	l.busy.Wait()
}

// take takes over a request and its id.
func (l *listener) take(r ibside.ServiceRequest, id sidrID, here bool) {
	l.sidr.counts.count(func(c *counters) { c.Requests++ })
	p := &pending{l: l, id: id, from: r.From, to: r.To, port: r.Port}
	if why := l.admit(p, here); why != "" {
		id.destroy()
		l.sidr.countRequest(why)
		l.sidr.log.Debug("sidr_unserved", "peer", r.From, "local", r.To, "port", r.Port, "reason", why)
		return
	}
	r.Answer, r.Reject = p.accept, p.reject
	go l.handle(r)
}

// admit returns why a request is rejected at once, or "".
func (l *listener) admit(p *pending, here bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return requestClosed
	case !here:
		return requestOtherDevice
	case len(l.pending) >= l.limits.pending:
		return requestFull
	}
	l.pending[p] = true
	p.timer = time.AfterFunc(l.limits.answerIn, func() {
		_ = p.answer(requestTimedOut, func() error { return nil }) // fails when it has been answered
	})
	return ""
}

// answer sends the one answer, if there was none, and ends the request even if that fails.
func (p *pending) answer(what string, give func() error) error {
	if !p.claim() {
		return errAnswered
	}
	defer p.l.busy.Done()
	p.timer.Stop()
	err := give()
	p.id.destroy()
	if err != nil {
		what = requestFailed
	}
	p.l.sidr.countRequest(what)
	return err
}

// claim reports whether the caller may answer; Close waits until it has.
func (p *pending) claim() bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if !p.l.pending[p] {
		return false
	}
	delete(p.l.pending, p)
	p.l.busy.Add(1)
	return true
}

func (s *sidrPorts) countRequest(what string) {
	s.counts.count(func(c *counters) { c.Answers.add(what, 1) })
}

// accept is a request's Answer. rdma_cm has one Q_Key for all datagram services, 0x01234567: with another the request
// is rejected. On an error the requester has been rejected, or will ask again where the kernel returned it.
func (p *pending) accept(a ibside.ServiceAnswer) error {
	return p.answer(requestAccepted, func() error {
		switch {
		case a.QKey != ib.QKeyRDMAUDP:
			return fmt.Errorf("verbs: accept %v with Q_Key %v: rdma_cm has no other than %v", p.from, a.QKey, ib.QKeyRDMAUDP)
		case a.QPN == 0 || a.QPN > 0xffffff:
			return fmt.Errorf("verbs: accept %v: %v is no queue pair; use 0x000001 to 0xffffff", p.from, a.QPN)
		case len(a.Private) > maxAnswerPrivate:
			return fmt.Errorf("verbs: accept %v with %d bytes of private data; use %d at most", p.from, len(a.Private), maxAnswerPrivate)
		}
		if err := p.id.accept(a.QPN, a.Private); err != nil {
			return fmt.Errorf("verbs: accept %v to %v: %w", p.from, p.to, err)
		}
		return nil
	})
}

// reject is a request's Reject. rdma_cm always sends status 2 (ib.SIDRStatusRejected): this status is for the log.
// Private data is at most 136 bytes; with more, the rejection goes without.
func (p *pending) reject(status uint8, private []byte) error {
	return p.answer(requestRejected, func() error {
		p.l.sidr.log.Info("sidr_rejected", "peer", p.from, "local", p.to, "port", p.port, "status", status)
		if len(private) > maxAnswerPrivate {
			return fmt.Errorf("verbs: reject %v with %d bytes of private data; use %d at most", p.from, len(private), maxAnswerPrivate)
		}
		if err := p.id.reject(private); err != nil {
			return fmt.Errorf("verbs: reject %v to %v: %w", p.from, p.to, err)
		}
		return nil
	})
}

// close closes all listeners, and waits for connections under way, which the context has ended.
func (s *sidrPorts) close() {
	s.mu.Lock()
	s.closing = true
	all := make([]*listener, 0, len(s.listeners))
	for l := range s.listeners {
		all = append(all, l)
	}
	s.mu.Unlock()
	for _, l := range all {
		l.Close()
	}
	s.connects.Wait()
}
