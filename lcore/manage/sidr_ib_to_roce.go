// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/neighbour"
)

const (
	// firstResend is when a RoCE host is asked again; after twice as long the next time, at most lastResend. A kernel asks
	// every 4.1 s, and takes a request that it has under way for the same as this one: asking sooner costs a datagram, and
	// mends a loss sooner.
	firstResend = time.Second
	lastResend  = 4 * time.Second
	// questionTimeout bounds a question to a RoCE host. An IB node asks for 65 s.
	questionTimeout = 30 * time.Second
)

// A serviceQuestion is a request of an IB node's that a RoCE host is asked.
type serviceQuestion struct {
	ServiceRequest
	id     uint32 // RequestID on Ethernet, where every request comes from the same place
	result chan<- outcome
	end    time.Time
	due    time.Time // when it is sent again; zero: it waits for the host's MAC address
	wait   time.Duration
}

// handleRequest takes a request of an IB node's, in a goroutine of its own, and answers it.
func (l *Loop) handleRequest(ctx context.Context, r ServiceRequest) {
	o := refusal(ib.SIDRStatusNoQP)
	known := l.sidr.toRoCE(&r)
	select {
	case l.sidr.handling <- struct{}{}:
		defer func() { <-l.sidr.handling }()
		o = l.askHost(ctx, r, known)
	default: // no room; at the end, never again
		l.sidr.tooMany.Add(1)
	}
	var err error
	if o.status == ib.SIDRStatusOK {
		err = r.Answer(o.ServiceAnswer)
	} else {
		err = r.Refuse(o.status, o.Private)
	}
	if err != nil {
		l.log.Debug("service_answer", "from", r.From, "to", r.To, "port", r.Port, "error", err)
	}
}

// askHost has the loop ask, and waits for what comes of it. The RoCE side knows the addresses, or it does not.
func (l *Loop) askHost(ctx context.Context, r ServiceRequest, known bool) outcome {
	result := make(chan outcome, 1)
	if l.work.Later(ctx, func() { l.askService(r, known, result) }) {
		select {
		case o := <-result:
			return o
		case <-ctx.Done():
		}
	}
	return refusal(ib.SIDRStatusNoQP)
}

// askService asks a RoCE host, when the request is one that may cross.
func (l *Loop) askService(r ServiceRequest, known bool, result chan<- outcome) {
	why, status := l.judgeRequest(&r, known)
	if why == ServiceAnswered {
		why, status = l.sidr.ibToRoCE.take(r.From), ib.SIDRStatusNoQP
	}
	if why != ServiceAnswered {
		l.countService(ibToRoCE, why, r.From, r.To, r.Port)
		result <- refusal(status)
		return
	}
	r.Private = bytes.Clone(r.Private)
	q := &serviceQuestion{ServiceRequest: r, id: l.freshID(), result: result, end: time.Now().Add(questionTimeout), wait: firstResend}
	l.sidr.questions[q.id] = q
	if h, _, known := l.tables.FindHost(r.To); known {
		l.sendQuestion(q, frame.MAC(h.MAC), h.Version, time.Now())
		return
	}
	l.await(q)
}

// judgeRequest reports whether a request may be passed on; else why not, and with which status it is refused.
func (l *Loop) judgeRequest(r *ServiceRequest, known bool) (ServiceResult, uint8) {
	switch {
	case !l.serves(r.Port):
		return ServiceUnsupported, ib.SIDRStatusUnsupported
	case !known:
		return ServiceUntranslated, ib.SIDRStatusRejected
	case !l.nodes[r.From]:
		return ServiceNoNode, ib.SIDRStatusRejected
	case r.From.Is4() != r.To.Is4() || len(r.Private) > ib.SIDRReqPrivateLen-ib.CMAHdrLen:
		return ServiceMalformed, ib.SIDRStatusRejected
	case l.answersFor(r.To): // nobody listens on the bridge itself, and nodes are asked without it
		return ServiceUnsupported, ib.SIDRStatusUnsupported
	case !l.mayUse(r.To), r.PKey != 0 && !r.PKey.Matches(l.cfg.Service.PKey): // 0: the door does not know
		return ServiceDenied, ib.SIDRStatusRejected
	}
	return ServiceAnswered, ib.SIDRStatusOK
}

// freshID returns a RequestID that no question has, and that nobody can guess who is to answer for another.
func (l *Loop) freshID() uint32 {
	for {
		id := rand.Uint32()
		if _, taken := l.sidr.questions[id]; !taken {
			return id
		}
	}
}

// sendQuestion sends a SIDR_REQ in the node's name. Where it is lost, or no room is in the worker's ring, it is sent again.
func (l *Loop) sendQuestion(q *serviceQuestion, mac frame.MAC, version uint8, now time.Time) {
	q.due, q.wait = now.Add(q.wait), min(2*q.wait, lastResend)
	flow := ib.CMFlowLabel(q.SrcPort, q.Port)
	b := l.datagram(roce.Packet{Version: int(version), Dst: mac, SrcIP: q.From, DstIP: q.To, FlowLabel: flow}, ib.AttrSIDRReq, q.tid(),
		func(body []byte) {
			private := make([]byte, ib.SIDRReqPrivateLen)
			ib.PutCMAHeader(private, ib.CMAFields{SrcPort: q.SrcPort, Src: q.From, Dst: q.To})
			copy(private[ib.CMAHdrLen:], q.Private)
			ib.PutSIDRReq(body, ib.SIDRReqFields{
				RequestID: q.id, PKey: l.cfg.Service.RoCEPKey, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, q.Port), Private: private,
			})
		})
	l.send(l.workers[0], b)
}

// tid is the transaction's number: that of the request is as good as any.
func (q *serviceQuestion) tid() uint64 { return uint64(q.id) }

// tendQuestion sends a question again when it is time, and gives it up when it has been time enough.
func (l *Loop) tendQuestion(q *serviceQuestion, now time.Time) {
	switch {
	case !now.Before(q.end):
		l.endQuestion(q, ServiceTimedOut, refusal(ib.SIDRStatusUnsupported))
	case !q.due.IsZero() && !now.Before(q.due):
		h, _, known := l.tables.FindHost(q.To)
		if !known { // forgotten meanwhile
			l.await(q)
			return
		}
		l.count.Services[ibToRoCE][ServiceResent]++
		l.sendQuestion(q, frame.MAC(h.MAC), h.Version, now)
	}
}

func (l *Loop) endQuestion(q *serviceQuestion, why ServiceResult, o outcome) {
	delete(l.sidr.questions, q.id)
	l.sidr.ibToRoCE.Give(q.From)
	l.countService(ibToRoCE, why, q.From, q.To, q.Port)
	q.result <- o // there is room for the one
}

// replied takes a SIDR_REP. It must be an answer of the host that was asked to what it was asked.
func (l *Loop) replied(p *roce.Packet, rep ib.SIDRRep) {
	q := l.sidr.questions[rep.RequestID()]
	if q == nil || p.SrcIP != q.To || p.DstIP != q.From || rep.ServiceID() != ib.ServiceIDFromPort(ib.PortSpaceUDP, q.Port) ||
		l.isSpoofed(p.SrcIP, p.Src) {
		l.countService(ibToRoCE, ServiceUnmatched, p.SrcIP, p.DstIP, rep.ServiceID().Port())
		return
	}
	private := bytes.Clone(rep.Private())
	switch {
	case rep.Status() != ib.SIDRStatusOK:
		l.endQuestion(q, ServiceRefused, outcome{ServiceAnswer{Private: private}, refusedStatus(rep.Status())})
		return
	case !isServiceQP(rep.QPN(), rep.QKey()):
		l.endQuestion(q, ServiceMalformed, refusal(ib.SIDRStatusNoQP))
		return
	}
	qpn, err := l.standInForService(p, rep)
	if err != nil {
		l.count.StandInsDenied++
		if l.mayLog("standin_refused", 1) {
			l.log.Warn("standin_refused", "host", p.SrcIP, "qpn", rep.QPN(), "error", err)
		}
		l.endQuestion(q, ServiceNoStandIn, refusal(ib.SIDRStatusNoQP))
		return
	}
	l.endQuestion(q, ServiceAnswered, outcome{ServiceAnswer: ServiceAnswer{QPN: qpn, QKey: rep.QKey(), Private: private}})
}

// standInForService finds or makes the stand-in of a service. One with another Q_Key is of a queue pair that the host has
// no more: its number has been given to this one.
func (l *Loop) standInForService(p *roce.Packet, rep ib.SIDRRep) (ib.QPN, error) {
	key := standInKey{p.SrcIP, rep.QPN()}
	if s, there := l.standIns[key]; there {
		if t, _, _ := l.tables.FindStandIn(key.host, key.qpn); t.QKey == rep.QKey() {
			s.usedAt = time.Now()
			l.standIns[key] = s
			return s.qpn, nil
		}
		l.removeStandIn(key, "other Q_Key")
		if _, still := l.standIns[key]; still {
			return 0, fmt.Errorf("manage: the stand-in of %v QPN %v has another Q_Key, and cannot be removed", key.host, key.qpn)
		}
	}
	if err := l.roomFor(key.host); err != nil {
		return 0, err
	}
	var vlan uint16
	if p.Tag != nil {
		vlan = p.Tag.VID
	}
	if why, ok := l.learn(key.host, p.Src, vlan, uint8(p.Version)); !ok {
		if why == RefuseFull {
			return 0, errHosts(l.cfg.MaxHosts)
		}
		return 0, fmt.Errorf("manage: %v contradicts what is known of the host %v", p.Src, key.host)
	}
	l.sidr.turn++
	if err := l.makeStandIn(key, l.sidr.turn%len(l.workers), rep.QKey(), uint8(p.Version)); err != nil {
		return 0, err
	}
	return l.standIns[key].qpn, nil
}

// awaited is a RoCE host that questions wait for.
type awaited struct {
	questions []uint32
	at        time.Time // when it is asked for again
	left      int       // how often still
}

// asksForHost is how often a RoCE host is asked for its MAC address, a second apart, before nobody is taken to be there
// (RFC 4861 §10, MAX_MULTICAST_SOLICIT; Linux does the same with ARP).
const asksForHost = 3

// await keeps a question until its host's MAC address is known. A host behind a router cannot be asked for it.
func (l *Loop) await(q *serviceQuestion) {
	if !l.onLink(q.To) {
		l.endQuestion(q, ServiceUnreachable, refusal(ib.SIDRStatusUnsupported))
		return
	}
	q.due = time.Time{}
	a := l.sidr.awaited[q.To]
	if a == nil {
		a = &awaited{left: asksForHost}
		l.sidr.awaited[q.To] = a
	}
	a.questions = append(a.questions, q.id)
	l.tendHost(q.To, a, time.Now())
}

func (l *Loop) tendAwaited(now time.Time) {
	for ip, a := range l.sidr.awaited {
		l.tendHost(ip, a, now)
	}
}

// tendHost asks for a host when it is time, and gives it up after the last time.
func (l *Loop) tendHost(ip netip.Addr, a *awaited, now time.Time) {
	switch {
	case now.Before(a.at):
	case a.left > 0:
		if l.askFor(ip) {
			a.left--
			a.at = now.Add(neighbour.AskEvery)
		}
	default:
		delete(l.sidr.awaited, ip)
		for _, id := range a.questions {
			if q := l.sidr.questions[id]; q != nil {
				l.endQuestion(q, ServiceUnreachable, refusal(ib.SIDRStatusUnsupported))
			}
		}
	}
}

// findAwaited sends the questions whose hosts have become known, when there was something to learn from.
func (l *Loop) findAwaited() {
	if !l.sidr.heard {
		return
	}
	l.sidr.heard = false
	for ip, a := range l.sidr.awaited {
		h, _, known := l.tables.FindHost(ip)
		if !known {
			continue
		}
		delete(l.sidr.awaited, ip)
		for _, id := range a.questions {
			if q := l.sidr.questions[id]; q != nil {
				l.sendQuestion(q, frame.MAC(h.MAC), h.Version, time.Now())
			}
		}
	}
}
