// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// sidrLimits bound what requesters can take of us.
type sidrLimits struct {
	pending  int           // requests without an answer, of one listener
	answerIn time.Duration // then a request is refused: a requester gives up after about a minute
}

var usualLimits = sidrLimits{pending: 1024, answerIn: 30 * time.Second}

// sidrPorts is what the door has open of rdma_cm's connection set-up.
type sidrPorts struct {
	mu        sync.Mutex
	closing   bool
	listeners map[*Listener]bool
	connects  sync.WaitGroup
	free      chan struct{} // a place for each connection that may be under way
}

func newSIDRPorts() *sidrPorts {
	return &sidrPorts{listeners: map[*Listener]bool{}, free: make(chan struct{}, maxConnects)}
}

// Listener receives requests for the queue pair of a service.
type Listener struct {
	d      *Door
	limits sidrLimits
	handle func(Request)
	id     sidrID
	end    sync.Once

	mu      sync.Mutex
	closed  bool
	pending map[*pending]bool
	busy    sync.WaitGroup // answers being given
}

// pending is a request that has no answer yet.
type pending struct {
	l     *Listener
	id    sidrID
	timer *time.Timer
}

// sidrID is rdma_cm's side of a listener or a request. Each ends with one call of destroy, which tells a requester
// without an answer that it is refused.
type sidrID interface {
	accept(qpn ib.QPN, private []byte) error
	reject(private []byte) error
	destroy()
}

// Request is a peer's question for a service's queue pair. It wants one answer, by Accept or Reject, from any goroutine;
// without one it is refused after 30 seconds. The requester repeats itself till then, which rdma_cm hides.
type Request struct {
	Peer     netip.AddrPort // who asks
	Local    netip.Addr     // whom: one of the port's addresses
	Port     uint16         // of the service
	PeerGID  ib.GID
	LocalGID ib.GID
	PKey     ib.PKey // that of the IPoIB interface; 0 on Ethernet, where rdma_cm does not say
	Private  []byte  // all that rdma_cm carries, 180 bytes, what the peer did not fill zero; the receiver's own

	pending *pending
}

// What became of requests, as Counters.Requests counts them.
const (
	requestAccepted    = "accepted"
	requestRejected    = "rejected"     // by Reject
	requestTimedOut    = "timed_out"    // nobody has answered
	requestFull        = "full"         // too many wait for an answer
	requestOtherDevice = "other_device" // not sent to the door's port
	requestClosed      = "closed"       // the listener was closed
	requestFailed      = "failed"       // the answer could not be given
)

// longest private data that rdma_cm carries with a datagram service (rdma_connect(3), rdma_accept(3)).
const (
	maxAskPrivate    = 180
	maxAnswerPrivate = ib.SIDRRepPrivateLen
)

var errAnswered = errors.New("verbs: the request has been answered, or has waited for too long")

// Listen takes requests of rdma_cm (RDMA_PS_UDP) to one of its ports, 1 to 65535. Each is given to h in a goroutine of its
// own, at most 1024 at a time; those beyond are refused.
//
// It listens on all addresses of the machine and refuses what was not sent to the door's port. To listen on each of
// the port's addresses instead would mean to follow them as they come and go, and a bound rdma_cm_id makes librdmacm
// keep the device; this one stays through all changes of addresses and links, and serves a new address at once. The
// price: no other program of the machine (or network namespace) can listen on the same number, whatever its device.
//
// On InfiniBand, rdma_cm's addresses are those of IPoIB, so the port needs an IPoIB interface. Requests by GID (family
// AF_IB) may find this listener too; then Peer and Local are GIDs. Neither has ever run.
func (d *Door) Listen(port uint16, h func(Request)) (*Listener, error) {
	return d.listen(port, usualLimits, h)
}

func (d *Door) listen(port uint16, limits sidrLimits, h func(Request)) (*Listener, error) {
	if port == 0 {
		return nil, fmt.Errorf("verbs: %s: listen on port 0; use 1 to 65535", d.cfg.name())
	}
	l := &Listener{d: d, limits: limits, handle: h, pending: map[*pending]bool{}}
	s := d.sidr
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errClosed
	}
	if err := l.open(port); err != nil {
		return nil, fmt.Errorf("verbs: %s: listen on rdma_cm port %d: %w; another program may have it", d.cfg.name(), port, err)
	}
	s.listeners[l] = true
	return l, nil
}

// Close stops listening. Requests without an answer are refused.
func (l *Listener) Close() {
	l.end.Do(l.close)
	s := l.d.sidr
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (l *Listener) close() {
	l.mu.Lock()
	left := l.pending
	l.closed, l.pending = true, nil
	l.mu.Unlock()
	l.id.destroy()
	for p := range left {
		p.timer.Stop()
		p.id.destroy()
		l.d.countRequest(requestClosed)
	}
	l.busy.Wait()
}

// take takes over a request that has come, and its id.
func (l *Listener) take(r Request, id sidrID, here bool) {
	l.d.counts.count(func(c *Counters) { c.Requests++ })
	p := &pending{l: l, id: id}
	if why := l.admit(p, here); why != "" {
		id.destroy()
		l.d.countRequest(why)
		l.d.log.Debug("sidr_refused", "peer", r.Peer, "local", r.Local, "port", r.Port, "reason", why)
		return
	}
	r.pending = p
	go l.handle(r)
}

// admit returns why the request may not stay.
func (l *Listener) admit(p *pending, here bool) string {
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
		_ = p.answer(requestTimedOut, func() error { return nil }) // its error: answered
	})
	return ""
}

// answer gives the one answer, if that has not been done, and ends the request whatever comes of it.
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
	p.l.d.countRequest(what)
	return err
}

// claim makes the caller the one who answers; Close waits for it.
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

func (d *Door) countRequest(what string) {
	d.counts.count(func(c *Counters) { c.Answers.add(what, 1) })
}

// Accept tells the requester the service's queue pair, which need not be this machine's. rdma_cm knows one Q_Key for all
// datagram services, 0x01234567; with another the request is refused. Private data is 136 bytes at most. An error means
// that the requester has been refused, or if the kernel has said no, that it will ask again.
func (r Request) Accept(qpn ib.QPN, qkey ib.QKey, private []byte) error {
	return r.pending.answer(requestAccepted, func() error {
		switch {
		case qkey != ib.QKeyRDMAUDP:
			return fmt.Errorf("verbs: accept %v with Q_Key %v: rdma_cm can tell no other than %v", r.Peer, qkey, ib.QKeyRDMAUDP)
		case qpn == 0 || qpn > 0xffffff:
			return fmt.Errorf("verbs: accept %v: %v is no queue pair; use 0x000001 to 0xffffff", r.Peer, qpn)
		case len(private) > maxAnswerPrivate:
			return fmt.Errorf("verbs: accept %v with %d bytes of private data; use %d at most", r.Peer, len(private), maxAnswerPrivate)
		}
		if err := r.pending.id.accept(qpn, private); err != nil {
			return fmt.Errorf("verbs: accept %v to %v: %w", r.Peer, r.Local, err)
		}
		return nil
	})
}

// Reject refuses the request. The reason is for the log: rdma_cm says status 2 (ib.SIDRStatusRejected) to the requester
// always, and has no way to say another. Private data is 136 bytes at most; without room for it the refusal goes without.
func (r Request) Reject(reason string, private []byte) error {
	return r.pending.answer(requestRejected, func() error {
		r.pending.l.d.log.Info("sidr_rejected", "peer", r.Peer, "local", r.Local, "port", r.Port, "reason", reason)
		if len(private) > maxAnswerPrivate {
			return fmt.Errorf("verbs: reject %v with %d bytes of private data; use %d at most", r.Peer, len(private), maxAnswerPrivate)
		}
		if err := r.pending.id.reject(private); err != nil {
			return fmt.Errorf("verbs: reject %v to %v: %w", r.Peer, r.Local, err)
		}
		return nil
	})
}

// closeSIDR ends all listeners, and waits for connections under way, which d.ctx has ended.
func (d *Door) closeSIDR() {
	s := d.sidr
	s.mu.Lock()
	s.closing = true
	all := make([]*Listener, 0, len(s.listeners))
	for l := range s.listeners {
		all = append(all, l)
	}
	s.mu.Unlock()
	for _, l := range all {
		l.Close()
	}
	s.connects.Wait()
}
