// SPDX-License-Identifier: Apache-2.0

// Package sidr proxies requests for rdma_cm's datagram services (SIDR, IBTA vol 1 §12.11). The bridge is a connection
// manager on each side: no request crosses it. It requests in its own name, and answers when it has an answer itself.
//
//	RoCE host ─ SIDR_REQ ─▶ requested ─▶ Services.Connect ──▶ IB node      roce_to_ib.go
//	          ◀ SIDR_REP ─  connected ◀─
//	IB node ──▶ Services.Serve ─▶ ask ─ SIDR_REQ ─▶ RoCE host              ib_to_roce.go
//	        ◀── a proxy QP's QPN ─ replied ◀ SIDR_REP ─
//
// A request ends with one Result. Sent again, it is still one request, and gets the same answer. A RoCE host above its
// limit of requests gets no answer and sends again 4 s later; an IB node is told that there is no queue pair. So is
// either (status 3) when the RoCE host has no room for another proxy QP: what its program sent later would not cross.
// When nothing answers within 30 s, no process listens (status 1).
//
// All methods belong to the loop's goroutine, unless they say otherwise.
package sidr

import (
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/punt"
)

// Directions that requests take.
const (
	roceToIB = iota
	ibToRoCE
)

// SIDR is all requests for services. New makes it.
type SIDR struct {
	*shared
	requests  *requests
	questions *questions
	serving   *serving
}

// shared is what both directions have in common.
type shared struct {
	Deps
	cfg   Config
	count [2]Counts
	psn   uint32 // of the last datagram

	stopped bool // the segment is there no more
}

// New makes a SIDR that serves nothing yet.
func New(c Config, d Deps) *SIDR {
	s := &shared{Deps: d, cfg: c}
	return &SIDR{s, newRequests(s), newQuestions(s), &serving{one: make(chan struct{}, 1)}}
}

// Start begins to take requests of IB nodes.
func (s *SIDR) Start() {
	if len(s.cfg.Ports) > 0 {
		s.serve()
	}
}

// Tick does what is due: it repeats requests, and ends those that take too long.
func (s *SIDR) Tick(now time.Time) {
	s.requests.answers.Age(now)
	s.questions.tick(now)
}

// SetAllow lets these RoCE hosts request services and offer them, and no others. Requests under way go on.
func (s *SIDR) SetAllow(allow []netip.Prefix) { s.cfg.Allow = slices.Clone(allow) }

// Waiting returns 1 while the list of served ports is being passed to the IB port, else 0.
func (s *SIDR) Waiting() int {
	if s.serving.waiting {
		return 1
	}
	return 0
}

// Stop ends all requests, and takes no more: the segment is there no more.
func (s *SIDR) Stop() {
	s.stopped = true
	for _, x := range s.questions.all {
		s.questions.end(x, Unreachable, rejection(ib.SIDRStatusNoQP))
	}
	s.SetPorts(nil)
}

// Stopped reports whether nothing is under way any more after Stop.
func (s *SIDR) Stopped() bool { return s.Pending() == [2]int{} && !s.serving.waiting }

// Pending returns how many requests are under way, by direction: from RoCE, from IB.
func (s *SIDR) Pending() [2]int { return [2]int{s.requests.quota.Taken(), s.questions.quota.Taken()} }

// Counts returns a copy of the counters, by direction: from RoCE, from IB.
func (s *SIDR) Counts() [2]Counts {
	c := s.count
	c[ibToRoCE][Busy] += s.questions.tooMany.Load()
	return c
}

// counted counts a Result, and logs it when it is not the usual one.
func (s *shared) counted(direction int, r Result, from, to netip.Addr, port uint16) {
	s.count[direction][r]++
	if r > Unmatched && s.Log.Allow("service_"+r.String(), 1) {
		s.Log.Warn("service_rejected", "why", r, "from", from, "to", to, "port", port)
	}
}

// HandleMAD takes a frame with a MAD for the bridge's own services. The worker has checked it.
func (s *SIDR) HandleMAD(worker int, b []byte, now time.Time) {
	p, err := roce.Parse(b)
	mad, ok := ib.AsMAD(p.Payload)
	if err != nil || !ok || len(p.Payload) != ib.MADLen || !mad.IsCM() || p.SrcQP != ib.QP1 || p.DestQP != ib.QP1 {
		s.Frames.Malformed("mad_bad")
		return
	}
	body := p.Payload[ib.MADHdrLen:]
	switch mad.AttrID() {
	case ib.AttrSIDRReq:
		req, _ := ib.AsSIDRReq(body) // as long as a MAD is
		s.requests.requested(request{worker: worker, packet: p, tid: mad.TID(), fields: req.Fields()})
	case ib.AttrSIDRRep:
		rep, ok := ib.AsSIDRRep(body)
		if !ok {
			s.Frames.Malformed("mad_bad")
			return
		}
		s.questions.replied(&p, rep, now)
	default:
		s.Frames.NotForUs()
	}
}

// datagram makes a connection manager's MAD from one address to another. put writes what follows its header.
func (s *shared) datagram(p roce.Packet, attribute uint16, tid uint64, put func([]byte)) []byte {
	p.Payload = make([]byte, ib.MADLen)
	ib.PutMAD(p.Payload, ib.MADFields{
		Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: tid, AttrID: attribute,
	})
	put(p.Payload[ib.MADHdrLen:])
	link := s.Local.Link
	if link.VID != 0 {
		p.Tag = &frame.VLANFields{PCP: link.PCP, VID: link.VID}
	}
	s.psn = (s.psn + 1) & 0xffffff
	p.Src, p.PKey, p.QKey, p.PSN, p.HopLimit = link.MAC, s.cfg.RoCEPKey, ib.QKeyGSI, s.psn, punt.TTL
	p.SrcQP, p.DestQP, p.SrcPort = ib.QP1, ib.QP1, ib.SrcPort(p.FlowLabel, ib.QP1, ib.QP1)
	return p.AppendTo(nil)
}

// A Request is a request that is under way.
type Request struct {
	Direction int // 0: from RoCE; 1: from IB
	From, To  netip.Addr
	Port      uint16
	Left      time.Duration // until it times out; 0: not known
	Waits     string        // for what
}

// Requests lists the requests that are under way.
func (s *SIDR) Requests(now time.Time) []Request {
	var list []Request
	for k := range s.requests.asking {
		list = append(list, Request{Direction: roceToIB, From: k.from, To: k.to, Port: k.service.Port(), Waits: "the node's answer"})
	}
	for _, q := range s.questions.all {
		r := Request{Direction: ibToRoCE, From: q.From, To: q.To, Port: q.Port, Left: max(0, q.end.Sub(now)), Waits: "the host's answer"}
		switch {
		case q.answered:
			r.Waits = "a proxy QP"
		case q.due.IsZero():
			r.Waits = "the host's MAC address"
		}
		list = append(list, r)
	}
	return list
}
