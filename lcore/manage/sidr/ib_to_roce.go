// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/sidr/pending"
	"causeway/tables"
)

const (
	// firstResend is when the request to a RoCE host is sent again; then after twice as long each, at most
	// lastResend. A kernel sends every 4.1 s, and recognizes a request that it has under way: sending sooner costs
	// a datagram, and repairs a loss sooner.
	firstResend = time.Second
	lastResend  = 4 * time.Second
	// questionTimeout bounds a request to a RoCE host. An IB node tries for 65 s.
	questionTimeout = 30 * time.Second
)

// A question is a request of an IB node's that a RoCE host is asked.
type question struct {
	ibside.ServiceRequest
	id     uint32     // RequestID on Ethernet, where all requests come from the bridge
	as     netip.Addr // whose name the host was asked in last, and answers to
	in     uint8      // the number of the node's partition
	result chan<- outcome
	end    time.Time
	due    time.Time // when it is sent again; zero: it waits for the host's MAC address, or for a proxy QP
	wait   time.Duration

	answered bool // by the host; a proxy QP is being made
}

// questions are the requests of IB nodes to RoCE hosts.
type questions struct {
	*shared
	quota    pending.Quota[payer]
	awaiting pending.Quota[payer] // requests of nodes that are being learned
	all      map[uint32]*question
	unknown  map[netip.Addr]*unknownHost
	learning bool // hosts may have been learned since findHosts

	// For goroutines other than the loop's.
	handling  chan struct{} // holds a token for each request
	tooMany   atomic.Uint64 // requests that got none
	translate atomic.Pointer[ib.Translations]
}

// A payer is who sent a request: not whom it names, who may know nothing of it, unless the port cannot tell.
type payer struct {
	sender string
	named  netip.Addr // if sender is ""
}

func payerOf(r *ibside.ServiceRequest) payer {
	if r.Sender != "" {
		return payer{sender: r.Sender}
	}
	return payer{named: r.From}
}

func newQuestions(s *shared) *questions {
	q := &questions{
		shared: s, quota: pending.NewQuota[payer](PendingMost, pendingBySource), awaiting: pending.NewQuota[payer](PendingMost/4, awaitedOfOne), all: map[uint32]*question{}, unknown: map[netip.Addr]*unknownHost{},
		handling: make(chan struct{}, PendingMost),
	}
	q.setTranslate(s.cfg.Translate)
	return q
}

func (q *questions) setTranslate(ts ib.Translations) { q.translate.Store(&ts) }

// wait waits until no request is being handled any more, and lets none begin.
func (q *questions) wait() {
	for range cap(q.handling) {
		q.handling <- struct{}{}
	}
}

// handle takes a request of an IB node's, in a goroutine of its own, and answers it.
func (q *questions) handle(running context.Context, r ibside.ServiceRequest) {
	o := rejection(ib.SIDRStatusNoQP)
	known := q.toRoCE(&r)
	select {
	case q.handling <- struct{}{}:
		defer func() { <-q.handling }()
		q.awaitNode(running, &r)
		o = q.askHost(running, r, known)
	default: // no room; at the end, never again
		q.tooMany.Add(1)
	}
	var err error
	if o.status == ib.SIDRStatusOK {
		err = r.Answer(o.ServiceAnswer)
	} else {
		err = r.Reject(o.status, o.Private)
	}
	if err != nil {
		q.Log.Debug("service_answer", "from", r.From, "to", r.To, "port", r.Port, "error", err)
	}
}

// awaitedOfOne is how many requests of one sender wait for nodes that are being learned: a program asks for one service at a time.
const awaitedOfOne = 16

// awaitNode waits until a node is known whose request is the first that is seen of it: a rejection would be final. Those of nodes
// that are not known leave most of the room to others.
func (q *questions) awaitNode(running context.Context, r *ibside.ServiceRequest) {
	const tries, pause = 20, 100 * time.Millisecond
	waits := false
	defer func() {
		if waits {
			q.Ask.Later(running, func() { q.awaiting.Give(payerOf(r)) })
		}
	}()
	for range tries {
		first, wait := !waits, make(chan bool, 1)
		if !q.Ask.Later(running, func() { wait <- q.isAwaited(r, first) }) {
			return
		}
		select {
		case unknown := <-wait:
			if !unknown {
				return
			}
			waits = true
		case <-running.Done():
			return
		}
		ask.Pause(running, pause)
	}
}

// isAwaited reports whether a request has to wait for its node, and is counted if it has for the first time.
func (q *questions) isAwaited(r *ibside.ServiceRequest, first bool) bool {
	if q.Nodes.Has(r.From) || first && q.awaiting.Take(payerOf(r)) != pending.Free {
		return false
	}
	wanted := q.Wanted(r.From, time.Now())
	if first && !wanted {
		q.awaiting.Give(payerOf(r))
	}
	return wanted
}

// askHost makes the loop ask the host, and waits for the outcome. known: its addresses could be translated.
func (q *questions) askHost(running context.Context, r ibside.ServiceRequest, known bool) outcome {
	result := make(chan outcome, 1)
	if q.Ask.Later(running, func() { q.ask(r, known, result, time.Now()) }) {
		select {
		case o := <-result:
			return o
		case <-running.Done():
		}
	}
	return rejection(ib.SIDRStatusNoQP)
}

// ask asks a RoCE host, when the request is one that may cross.
func (q *questions) ask(r ibside.ServiceRequest, known bool, result chan<- outcome, now time.Time) {
	why, status := q.judge(&r, known)
	if why == Answered {
		why, status = take(&q.quota, payerOf(&r)), ib.SIDRStatusNoQP
	}
	if why != Answered {
		q.counted(ibToRoCE, why, r.From, r.To, r.Port)
		result <- rejection(status)
		return
	}
	r.Private = bytes.Clone(r.Private)
	x := &question{ServiceRequest: r, id: q.newID(), result: result, end: now.Add(questionTimeout), wait: firstResend}
	x.in, _ = q.partitionOf(&r)
	q.all[x.id] = x
	if h, known := q.Hosts.Find(r.To); known {
		q.send(x, frame.MAC(h.MAC), h.Version, now)
		return
	}
	q.await(x, now)
}

// judge reports whether a request may be passed on; else why not, and with which status it is rejected.
func (q *questions) judge(r *ibside.ServiceRequest, known bool) (Result, uint8) {
	switch {
	case !q.cfg.serves(r.Port):
		return Unsupported, ib.SIDRStatusUnsupported
	case !known:
		return Untranslated, ib.SIDRStatusRejected
	case !q.Nodes.Has(r.From):
		return NoNode, ib.SIDRStatusRejected
	case r.From.Is4() != r.To.Is4() || len(r.Private) > ib.SIDRReqPrivateLen-ib.CMAHdrLen:
		return Malformed, ib.SIDRStatusRejected
	case q.Hosts.AnswersFor(r.To): // the bridge itself has no services, and nodes are asked without it
		return Unsupported, ib.SIDRStatusUnsupported
	case !q.cfg.allows(r.To):
		return Denied, ib.SIDRStatusRejected
	}
	if _, ok := q.partitionOf(r); !ok {
		return Denied, ib.SIDRStatusRejected
	}
	return Answered, ib.SIDRStatusOK
}

// partitionOf returns the number of the partition that a node asks in, where it gets its answers, too. A node with a
// P_Key by configuration gets them in that partition alone.
func (q *questions) partitionOf(r *ibside.ServiceRequest) (uint8, bool) {
	own := q.Nodes.PKey(r.From)
	switch {
	case r.PKey == 0: // the port does not know
		return q.PartitionOf(q.Nodes.GID(r.From)), true
	case own != 0 && !own.Matches(r.PKey):
		return 0, false
	}
	return q.Partitions.Matching(r.PKey)
}

// newID returns a RequestID that no question has. It is random: another host must not be able to guess it and answer.
func (q *questions) newID() uint32 {
	for {
		id := rand.Uint32()
		if _, taken := q.all[id]; !taken {
			return id
		}
	}
}

// askedFrom returns the address that a host gets a request from: the node's. Where another bridge of a fleet has the host, and would
// hear what that answers to a node, it is the bridge's own.
func (q *questions) askedFrom(x *question, host frame.MAC) netip.Addr {
	if _, own := q.Local.NodesLink(host); own {
		return x.From
	}
	return q.Local.Toward(x.To, x.From)
}

// send sends a SIDR_REQ in the node's name. When it is lost, or the worker's ring has no room, it is sent again.
func (q *questions) send(x *question, mac frame.MAC, version uint8, now time.Time) {
	x.due, x.wait = now.Add(x.wait), min(2*x.wait, lastResend)
	x.as = q.askedFrom(x, mac)
	flow := ib.CMFlowLabel(x.SrcPort, x.Port)
	b := q.datagram(roce.Packet{Version: int(version), Dst: mac, SrcIP: x.as, DstIP: x.To, FlowLabel: flow}, ib.AttrSIDRReq, x.tid(),
		func(body []byte) {
			private := make([]byte, ib.SIDRReqPrivateLen)
			ib.PutCMAHeader(private, ib.CMAFields{SrcPort: x.SrcPort, Src: x.From, Dst: x.To})
			copy(private[ib.CMAHdrLen:], x.Private)
			ib.PutSIDRReq(body, ib.SIDRReqFields{
				RequestID: x.id, PKey: q.cfg.RoCEPKey, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, x.Port), Private: private,
			})
		})
	q.Frames.Send(0, b)
}

// tid is the transaction ID, which may be any: the RequestID identifies the request.
func (x *question) tid() uint64 { return uint64(x.id) }

// tick does what is due.
func (q *questions) tick(now time.Time) {
	q.tickUnknown(now)
	for _, x := range q.all {
		q.tickOne(x, now)
	}
}

// tickOne sends a question again when it is due, and ends it when its time is over.
func (q *questions) tickOne(x *question, now time.Time) {
	switch {
	case !now.Before(x.end):
		q.end(x, TimedOut, rejection(ib.SIDRStatusUnsupported))
	case !x.due.IsZero() && !now.Before(x.due):
		h, known := q.Hosts.Find(x.To)
		if !known { // removed meanwhile
			q.await(x, now)
			return
		}
		q.count[ibToRoCE][Resent]++
		q.send(x, frame.MAC(h.MAC), h.Version, now)
	}
}

func (q *questions) end(x *question, why Result, o outcome) {
	delete(q.all, x.id)
	q.quota.Give(payerOf(&x.ServiceRequest))
	q.counted(ibToRoCE, why, x.From, x.To, x.Port)
	x.result <- o // has room for one
}

// replied takes a SIDR_REP. It must be an answer of the host that was asked to what it was asked.
func (q *questions) replied(p *roce.Packet, rep ib.SIDRRep, now time.Time) {
	x := q.all[rep.RequestID()]
	if x == nil || p.SrcIP != x.To || p.DstIP != x.as || rep.ServiceID() != ib.ServiceIDFromPort(ib.PortSpaceUDP, x.Port) ||
		q.Hosts.IsSpoofed(p.SrcIP, p.Src, false) {
		q.counted(ibToRoCE, Unmatched, p.SrcIP, p.DstIP, rep.ServiceID().Port())
		return
	}
	private := bytes.Clone(rep.Private())
	switch {
	case x.answered: // the host repeats itself
		q.counted(ibToRoCE, Repeated, x.From, x.To, x.Port)
		return
	case rep.Status() != ib.SIDRStatusOK:
		q.end(x, Refused, outcome{ibside.ServiceAnswer{Private: private}, statusAcross(rep.Status())})
		return
	case !isServiceQP(rep.QPN(), rep.QKey()):
		q.end(x, Malformed, rejection(ib.SIDRStatusNoQP))
		return
	}
	s := proxyqps.Service{HostQP: tables.HostQP{Host: p.SrcIP, HostQPN: rep.QPN(), Partition: x.in}, QKey: rep.QKey(), MAC: p.Src, Version: uint8(p.Version)}
	if p.Tag != nil {
		s.VLAN = p.Tag.VID
	}
	x.answered, x.due = true, time.Time{}
	answer := ibside.ServiceAnswer{QKey: rep.QKey(), Private: private} // rep is the frame's, which goes
	q.ProxyQPs.ForService(s, now, func(qpn ib.QPN, err error) {
		answer.QPN = qpn
		switch {
		case q.all[x.id] != x: // it took too long
		case err != nil:
			q.end(x, NoProxyQP, rejection(ib.SIDRStatusNoQP))
		default:
			q.end(x, Answered, outcome{ServiceAnswer: answer})
		}
	})
}
