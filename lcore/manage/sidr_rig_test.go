// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/tables"
)

// services is an ibside.Services without a subnet.
type services struct {
	mu       sync.Mutex
	ports    []ibside.PortRange
	h        func(ibside.ServiceRequest)
	serves   int
	serveErr error
	serving  time.Duration // how long it takes
	connect  func(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error)
	asked    []ibside.ServiceConnect
	busy     int
	busiest  int
}

func (s *services) Serve(ports []ibside.PortRange, h func(ibside.ServiceRequest)) error {
	time.Sleep(s.serving)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves++
	if s.serveErr == nil {
		s.ports, s.h = ports, h
	}
	return s.serveErr
}

func (s *services) Connect(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, c)
	s.busy++
	s.busiest = max(s.busiest, s.busy)
	s.mu.Unlock()
	a, err := s.connect(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	return a, err
}

func (s *services) connects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

const (
	roceToIB = iota
	ibToRoCE
)

var nodeAnswer = ibside.ServiceAnswer{QPN: 0x456, QKey: 0x1ee7, Private: []byte("from the node")}

func answering(context.Context, ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	return nodeAnswer, nil
}

func silent(ctx context.Context, _ ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	<-ctx.Done()
	return ibside.ServiceAnswer{}, ctx.Err()
}

// serviceRig is a rig with services.
type serviceRig struct {
	*rig
	cm *services
}

func startServices(t *testing.T, edit func(*manageConfig, *services)) *serviceRig {
	t.Helper()
	return startServicesWith(t, smallTables, edit)
}

func startServicesWith(t *testing.T, size tables.Config, edit func(*manageConfig, *services)) *serviceRig {
	t.Helper()
	cm := &services{connect: answering}
	s := startWith(t, size, func(c *manageConfig, _ *ibPort) {
		c.Services, c.RoCEPKey = cm, ib.PKeyDefault
		c.Ports = []ibside.PortRange{{First: 7174, Last: 7174}, {First: 8000, Last: 8010}}
		c.Allow = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/25"), netip.MustParsePrefix("fd09::/64")}
		c.PKey = 0x8001
		if edit != nil {
			edit(c, cm)
		}
	})
	return &serviceRig{s, cm}
}

// mad is a whole MAD of the connection manager's.
func mad(attribute uint16, tid uint64, put func([]byte)) []byte {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: tid, AttrID: attribute})
	put(b[ib.MADHdrLen:])
	return b
}

// A question is a SIDR_REQ of a RoCE host, correct unless a test changes it.
type question struct {
	roce.Packet
	tid    uint64
	fields ib.SIDRReqFields
	cma    ib.CMAFields
	spoil  func(mad []byte)
}

func ask(src, dst netip.Addr, edit ...func(*question)) *question {
	q := &question{
		Packet: roce.Packet{
			Version: 2, Src: hostMAC, Dst: bridgeMAC, SrcIP: src, DstIP: dst, HopLimit: 64, TClass: 0x69, SrcPort: 0xc123, PKey: ib.PKeyDefault,
			DestQP: ib.QP1, SrcQP: ib.QP1, QKey: ib.QKeyGSI,
		},
		tid:    0x1122334455667788,
		fields: ib.SIDRReqFields{RequestID: 0xabcd0001, PKey: ib.PKeyDefault, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, 7174)},
		cma:    ib.CMAFields{SrcPort: 50000, Src: src, Dst: dst},
	}
	for _, f := range edit {
		f(q)
	}
	return q
}

// frame is the question on the wire.
func (q *question) frame() []byte {
	q.Payload = mad(ib.AttrSIDRReq, q.tid, func(body []byte) {
		private := make([]byte, ib.SIDRReqPrivateLen)
		ib.PutCMAHeader(private, q.cma)
		copy(private[ib.CMAHdrLen:], "from the host")
		q.fields.Private = private
		ib.PutSIDRReq(body, q.fields)
	})
	if q.spoil != nil {
		q.spoil(q.Payload)
	}
	return q.AppendTo(nil)
}

// A datagram is a SIDR MAD that the bridge sent.
type datagram struct {
	roce.Packet
	mad ib.MAD
	rep ib.SIDRRep // of AttrSIDRRep
	req ib.SIDRReq // of AttrSIDRReq
}

// datagrams parses the frames that the loop sent: SIDR, and others, of which there must be none unless others is not
// nil.
func (s *rig) datagrams(sent [][]byte, others *int) (out []datagram) {
	s.t.Helper()
	for _, b := range sent {
		if f, _ := frame.Open(b); f.Type == frame.TypeARP || f.IPv6 != nil && f.Protocol() == frame.ProtoICMPv6 {
			if others == nil {
				s.t.Fatalf("sent %x", b)
			}
			*others++
			continue
		}
		p, err := roce.Parse(b)
		m, ok := ib.AsMAD(p.Payload)
		if err != nil || !ok || len(p.Payload) != ib.MADLen || !m.IsCM() || p.SrcQP != ib.QP1 || p.DestQP != ib.QP1 ||
			p.QKey != ib.QKeyGSI || p.PKey != ib.PKeyDefault || p.Src != bridgeMAC || p.HopLimit == 0 {
			s.t.Fatalf("sent a bad MAD: %v, %+v", err, p)
		}
		d := datagram{Packet: p, mad: m}
		switch body := p.Payload[ib.MADHdrLen:]; m.AttrID() {
		case ib.AttrSIDRReq:
			d.req, _ = ib.AsSIDRReq(body)
		case ib.AttrSIDRRep:
			d.rep, _ = ib.AsSIDRRep(body)
		default:
			s.t.Fatalf("sent attribute %#x", m.AttrID())
		}
		out = append(out, d)
	}
	return out
}

// asks passes a SIDR_REQ to the loop and returns the status of the answer, -1 if there is none.
func (s *serviceRig) asks(q *question) int {
	s.t.Helper()
	switch got := s.datagrams(s.give(q.frame()), nil); {
	case len(got) == 0:
		return -1
	case len(got) > 1 || got[0].rep == nil:
		s.t.Fatalf("%d datagrams", len(got))
		return 0
	default:
		return int(got[0].rep.Status())
	}
}

// want compares the counters of a direction with the wanted ones.
func (s *serviceRig) want(direction int, want manage.ServiceCounts) {
	s.t.Helper()
	if got := s.count().Services[direction]; got != want {
		for r := range got {
			if got[r] != want[r] {
				s.t.Errorf("%v: %d, want %d", manage.ServiceResult(r), got[r], want[r])
			}
		}
	}
}

// An asker is an IB node that has sent a request.
type asker struct {
	mu       sync.Mutex
	answers  []ibside.ServiceAnswer
	rejected []uint8
	private  string
}

func (a *asker) ends() (answers []ibside.ServiceAnswer, rejected []uint8) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answers, a.rejected
}

// request has an IB node ask.
func (s *serviceRig) request(from, to netip.Addr, edit ...func(*ibside.ServiceRequest)) *asker {
	s.t.Helper()
	a := &asker{}
	r := ibside.ServiceRequest{
		From: from, To: to, SrcPort: 40000, Port: 7174, PKey: 0x8001, Private: []byte("from the node"),
		Answer: func(x ibside.ServiceAnswer) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.answers, a.private = append(a.answers, x), string(x.Private)
			return nil
		},
		Reject: func(status uint8, private []byte) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.rejected, a.private = append(a.rejected, status), string(private)
			return errors.New("it has gone")
		},
	}
	for _, f := range edit {
		f(&r)
	}
	s.cm.mu.Lock()
	h := s.cm.h
	s.cm.mu.Unlock()
	if h == nil {
		s.t.Fatal("nobody serves")
	}
	go h(r)
	s.settle()
	return a
}

// rejectedWith reports whether a was rejected with this status, once, and not answered.
func (a *asker) rejectedWith(status uint8) bool {
	answers, rejected := a.ends()
	return len(answers) == 0 && len(rejected) == 1 && rejected[0] == status
}

// waits reports whether a has no answer yet.
func (a *asker) waits() bool {
	answers, rejected := a.ends()
	return len(answers)+len(rejected) == 0
}

// only returns counters with one request that ended in this way.
func only(r manage.ServiceResult) (c manage.ServiceCounts) {
	c[r] = 1
	return c
}
