// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/pending"
)

// The bridge is a connection manager's end on both sides. No request crosses it: it asks in its own name, and answers
// when it has an answer itself.
//
//	RoCE host ─ SIDR_REQ ─▶ requested ─▶ Services.Connect ──▶ IB node      sidr_roce_to_ib.go
//	          ◀ SIDR_REP ─  connected ◀─
//	IB node ──▶ Services.Serve ─▶ ask ─ SIDR_REQ ─▶ RoCE host              sidr_ib_to_roce.go
//	        ◀── a stand-in's QPN ─ replied ◀ SIDR_REP ─

// Directions that requests take.
const (
	roceToIB = iota
	ibToRoCE
)

// sidr is what management knows of requests for services.
type sidr struct {
	gids    map[netip.Addr]ib.GID // of nodes
	connect func(hostRequest)     // has the door ask an IB node

	roceToIB  quota // by RoCE host
	asking    map[requestKey]bool
	answers   answers
	ibToRoCE  quota // by IB node
	questions map[uint32]*serviceQuestion
	awaited   map[netip.Addr]*awaited // RoCE hosts whose MAC address the questions wait for
	heard     bool                    // ARP or ND since awaited ones were looked for

	handling chan struct{} // holds a token for each request of an IB node's
	tooMany  atomic.Uint64 // requests of IB nodes that got none
	serving  bool          // the door gives such
	serve    serveRound
	turn     int // of workers, to get the next stand-in
	psn      uint32

	translate atomic.Pointer[ib.Translations] // Config's, for goroutines other than the loop's
}

func newSIDR(nodes []Node) *sidr {
	s := &sidr{
		gids: map[netip.Addr]ib.GID{}, asking: map[requestKey]bool{}, questions: map[uint32]*serviceQuestion{},
		awaited: map[netip.Addr]*awaited{}, handling: make(chan struct{}, askedMost),
		roceToIB: newQuota(), ibToRoCE: newQuota(), answers: pending.NewAnswers[requestKey, outcome](answersMost, answersKept),
		serve: serveRound{one: make(chan struct{}, 1)},
	}
	for _, n := range nodes {
		for _, ip := range n.addrs() {
			s.gids[ip] = n.GID
		}
	}
	return s
}

// startServices begins to take requests of IB nodes, and makes it possible to ask them.
func (l *Loop) startServices(ctx context.Context) {
	l.sidr.connect = func(r hostRequest) { l.connectTo(ctx, r) }
	ts := l.cfg.Service.Translate
	l.sidr.translate.Store(&ts)
	if len(l.cfg.Service.Ports) > 0 {
		l.serve(ctx)
	}
}

func (l *Loop) stopServing() {
	if err := l.cfg.Service.Door.Serve(nil, nil); err != nil {
		l.log.Warn("services_not_ended", "error", err)
	}
}

// endServices takes no more requests, and waits for those that are being refused.
func (l *Loop) endServices() {
	l.work.DoPending() // served, perhaps
	if l.sidr.serving {
		l.stopServing()
	}
	for range cap(l.sidr.handling) {
		l.sidr.handling <- struct{}{}
	}
}

// tendServices does what is due: questions again, and the end of what takes too long.
func (l *Loop) tendServices(now time.Time) {
	l.sidr.answers.Age(now)
	l.tendAwaited(now)
	for _, q := range l.sidr.questions {
		l.tendQuestion(q, now)
	}
}

// serves reports whether a port is one of a configured service.
func (l *Loop) serves(port uint16) bool {
	return slices.ContainsFunc(l.cfg.Service.Ports, func(r PortRange) bool { return r.Contains(port) })
}

// mayUse reports whether policy lets a RoCE host ask for services, and be asked.
func (l *Loop) mayUse(host netip.Addr) bool {
	return slices.ContainsFunc(l.cfg.Service.Allow, func(p netip.Prefix) bool { return p.Contains(host) })
}

// countService counts one end of a request, and says so in the log when it is not the usual one.
func (l *Loop) countService(direction int, r ServiceResult, from, to netip.Addr, port uint16) {
	l.count.Services[direction][r]++
	if r > ServiceUnmatched && l.mayLog("service_"+r.String(), 1) {
		l.log.Warn("service_refused", "why", r, "from", from, "to", to, "port", port)
	}
}

// handleMAD takes a frame that holds a MAD for the bridge's own services. The worker has checked it.
func (l *Loop) handleMAD(w Worker, b []byte) {
	p, err := roce.Parse(b)
	mad, ok := ib.AsMAD(p.Payload)
	if err != nil || !ok || len(p.Payload) != ib.MADLen || !mad.IsCM() || p.SrcQP != ib.QP1 || p.DestQP != ib.QP1 {
		l.malformed("mad_bad")
		return
	}
	body := p.Payload[ib.MADHdrLen:]
	switch mad.AttrID() {
	case ib.AttrSIDRReq:
		req, _ := ib.AsSIDRReq(body) // as long as a MAD is
		l.requested(hostRequest{worker: w, packet: p, tid: mad.TID(), fields: req.Fields()})
	case ib.AttrSIDRRep:
		rep, ok := ib.AsSIDRRep(body)
		if !ok {
			l.malformed("mad_bad")
			return
		}
		l.replied(&p, rep)
	default:
		l.count.NotForUs++
	}
}

// datagram makes a MAD of the connection manager's from one address to another. put writes what follows its header.
func (l *Loop) datagram(p roce.Packet, attribute uint16, tid uint64, put func([]byte)) []byte {
	p.Payload = make([]byte, ib.MADLen)
	ib.PutMAD(p.Payload, ib.MADFields{
		Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: tid, AttrID: attribute,
	})
	put(p.Payload[ib.MADHdrLen:])
	if l.link.VID != 0 {
		p.Tag = &frame.VLANFields{PCP: l.link.PCP, VID: l.link.VID}
	}
	l.sidr.psn = (l.sidr.psn + 1) & 0xffffff
	p.Src, p.PKey, p.QKey, p.PSN, p.HopLimit = l.link.MAC, l.cfg.Service.RoCEPKey, ib.QKeyGSI, l.sidr.psn, echoTTL
	p.SrcQP, p.DestQP, p.SrcPort = ib.QP1, ib.QP1, ib.SrcPort(p.FlowLabel, ib.QP1, ib.QP1)
	return p.AppendTo(nil)
}
