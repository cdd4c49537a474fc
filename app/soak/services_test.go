// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

// services are requests for rdma_cm's services, both ways: hosts ask for the first node's, that node asks for the
// hosts'. One request of each asker is under way, and is sent again until it is answered, as rdma_cm does.
type services struct {
	node    int         // the one that serves
	still   atomic.Bool // nobody asks anew
	mu      sync.Mutex
	ends    []serviceEnd // by fabric
	back    time.Time    // when the first node came back last
	pending map[uint32]chan ib.SIDRRep
	asked   uint32
	turns   map[int]int // requests of the node by host: each goes by the next fabric
	tries   int
	answers [2]map[int]int // by direction and host: how many were right
	wrong   []string
}

// A serviceEnd is the first node's on a fabric.
type serviceEnd struct {
	cm  *fabric.CM // nil while it is detached
	lid ib.LID     // of the bridge; 0: not known yet
}

const (
	fromHost = iota
	fromNode
)

const (
	askPause = 200 * time.Millisecond // between an answer and the next request
	tryFor   = time.Second            // until a request is sent again
)

// hostService is the queue pair that a host has for a client that asks from a port.
func hostService(port uint16) ib.QPN { return 0x4000 + ib.QPN(port) }

// serve makes the first node's connection manager.
func (s *services) serve(n *fabric.Node, on int) error {
	cm := fabric.NewCM(n.HCA(), fabric.CMConfig{Timeout: tryFor})
	s.mu.Lock()
	s.ends[on].cm = cm
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.back = time.Now()
	}()
	return cm.Serve([]fabric.CMPorts{{First: servicePort, Last: servicePort}}, func(r *fabric.CMRequest) {
		s.mu.Lock()
		s.ends[on].lid = r.Peer.LID
		s.mu.Unlock()
		_ = r.Accept(nodeQPN(s.node), ib.QKeyRDMAUDP, nil) // the node may have gone
	})
}

// close ends it.
func (s *services) close(on int) {
	s.mu.Lock()
	cm := s.ends[on].cm
	s.ends[on] = serviceEnd{}
	s.mu.Unlock()
	if cm != nil {
		cm.Close()
	}
}

// run asks both ways for a host until ctx ends.
func (s *services) run(ctx context.Context, h *host) {
	var both sync.WaitGroup
	for from, ask := range [2]func(context.Context, *host) error{s.hostAsks, s.nodeAsks} {
		both.Go(func() {
			for ctx.Err() == nil {
				if !s.still.Load() {
					s.answered(from, h, ask(ctx, h))
				}
				time.Sleep(askPause)
			}
		})
	}
	both.Wait()
}

// answered takes what came of a request.
func (s *services) answered(from int, h *host, err error) {
	const most = 20
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.answers[from][h.i]++
	case !errors.Is(err, errUnanswered) && len(s.wrong) < most:
		s.wrong = append(s.wrong, err.Error())
	}
}

// faults returns what was wrong since the last time.
func (s *services) faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong := s.wrong
	s.wrong = nil
	return wrong
}

func newServices(fabrics, node int) *services {
	return &services{node: node, ends: make([]serviceEnd, fabrics), turns: map[int]int{}, pending: map[uint32]chan ib.SIDRRep{}, answers: [2]map[int]int{{}, {}}}
}

// toQP1 is a management datagram to an address.
func toQP1(to netip.Addr, mad []byte) roce.Packet {
	return roce.Packet{DstIP: to, DestQP: ib.QP1, SrcQP: ib.QP1, QKey: ib.QKeyGSI, Payload: mad}
}

// errUnanswered says that a request had no answer yet, or that the node was not there.
var errUnanswered = errors.New("no answer")

// hostAsks has a host ask for the node's service.
func (s *services) hostAsks(ctx context.Context, h *host) error {
	answer := make(chan ib.SIDRRep, 1)
	s.mu.Lock()
	s.asked++
	id := s.asked
	s.pending[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, id)
	}()
	request, began := sidrRequest(id, h.IP4, nodeIP4(s.node)), time.Now()
	for ctx.Err() == nil {
		s.mu.Lock()
		s.tries++
		s.mu.Unlock()
		_ = h.Send(toQP1(nodeIP4(s.node), request)) // lost: it is sent again
		select {
		case a := <-answer:
			if a.Status() == ib.SIDRStatusUnsupported && s.awaySince(began) {
				return errUnanswered // nobody serves it where there is no node
			}
			return judgeAnswer(h, nodeQPN(s.node), a)
		case <-time.After(tryFor):
		case <-ctx.Done():
		}
	}
	return errUnanswered
}

// awaySince reports whether the first node has been away at some time since.
func (s *services) awaySince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.ends, func(e serviceEnd) bool { return e.cm == nil }) || s.back.After(t)
}

// judgeAnswer judges the node's answer to a host, as the bridge has passed it on.
func judgeAnswer(h *host, serves ib.QPN, a ib.SIDRRep) error {
	wrong := fmt.Errorf("%v asked for the node's service, and the answer is %+v", h, a.Fields())
	switch status := a.Status(); {
	case status == ib.SIDRStatusNoQP: // it has far fewer proxy QPs than it may
		return wrong
	case status != ib.SIDRStatusOK:
		return refused(status, wrong)
	case a.QPN() != serves || a.QKey() != ib.QKeyRDMAUDP:
		return wrong
	}
	return nil
}

// sidrRequest is a request for the service.
func sidrRequest(id uint32, from, to netip.Addr) []byte {
	private := make([]byte, ib.CMAHdrLen)
	ib.PutCMAHeader(private, ib.CMAFields{SrcPort: uint16(id), Src: from, Dst: to})
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: uint64(id), AttrID: ib.AttrSIDRReq})
	ib.PutSIDRReq(b[ib.MADHdrLen:], ib.SIDRReqFields{
		RequestID: id, PKey: ib.PKeyDefault, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, servicePort), Private: private,
	})
	return b
}

// refused returns the error for an answer. A service that is busy or was not found in time may be asked again.
func refused(status uint8, err error) error {
	if status == ib.SIDRStatusRejected || status == ib.SIDRStatusNoQP {
		return errUnanswered
	}
	return err
}

// datagram takes a datagram for QP1 of a host: an answer, or a request for its service.
func (s *services) datagram(h *host, p *roce.Packet) {
	mad, ok := ib.AsMAD(p.Payload)
	if !ok || len(p.Payload) != ib.MADLen {
		return
	}
	switch mad.AttrID() {
	case ib.AttrSIDRRep:
		rep, ok := ib.AsSIDRRep(append([]byte(nil), p.Payload[ib.MADHdrLen:]...))
		if !ok {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if answer := s.pending[rep.RequestID()]; answer != nil {
			select {
			case answer <- rep:
			default: // the answer to a repetition
			}
		}
	case ib.AttrSIDRReq:
		req, ok := ib.AsSIDRReq(p.Payload[ib.MADHdrLen:])
		if !ok {
			return
		}
		cma, ok := ib.AsCMAHeader(req.Private())
		if !ok {
			return
		}
		answer := make([]byte, ib.MADLen)
		ib.PutMAD(answer, ib.MADFields{Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: mad.TID(), AttrID: ib.AttrSIDRRep})
		ib.PutSIDRRep(answer[ib.MADHdrLen:], ib.SIDRRepFields{
			RequestID: req.RequestID(), QPN: hostService(cma.SrcPort()), ServiceID: req.ServiceID(), QKey: ib.QKeyRDMAUDP,
		})
		_ = h.Send(toQP1(p.SrcIP, answer)) // lost: the request comes again
	}
}

// nodeAsks has the first node ask for a host's service. The answer has the proxy QP of the host's queue pair.
func (s *services) nodeAsks(ctx context.Context, h *host) error {
	s.mu.Lock()
	s.asked++
	at := s.ends[s.turns[h.i]%len(s.ends)]
	s.turns[h.i]++
	port := uint16(s.asked)%100 + 1 // a host has few queue pairs for it
	s.mu.Unlock()
	if at.cm == nil || at.lid == 0 {
		return errUnanswered
	}
	if len(s.ends) > 1 { // a fabric that is cut brings no answer: the other is asked next
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, 2*tryFor)
		defer stop()
	}
	a, err := at.cm.Connect(ctx, fabric.CMConnect{Route: fabric.MADAddress{LID: at.lid}, From: nodeIP4(s.node), To: h.IP4, FromPort: port, Port: servicePort})
	var rejected *fabric.CMRejectedError
	switch {
	case errors.As(err, &rejected):
		return refused(rejected.Status, fmt.Errorf("node %d asked for the service of %v: %w", s.node, h, err))
	case err != nil:
		return errUnanswered
	case a.QKey != ib.QKeyRDMAUDP || a.QPN <= ib.QP1:
		return fmt.Errorf("node %d asked for the service of %v, and the answer is %+v", s.node, h, a)
	}
	return nil
}

// count returns how many requests of each asker were answered.
func (s *services) count() [2]map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]map[int]int{maps.Clone(s.answers[0]), maps.Clone(s.answers[1])}
}
