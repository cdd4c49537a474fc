// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// connectTimeout bounds how long the door may ask an IB node. A RoCE host asks 16 times in 65 s and then gives up: before
// that it is told.
const connectTimeout = 30 * time.Second

// A hostRequest is a RoCE host's SIDR_REQ.
type hostRequest struct {
	worker Worker
	packet roce.Packet
	tid    uint64
	fields ib.SIDRReqFields
}

func (r *hostRequest) key() requestKey {
	return requestKey{r.packet.SrcIP, r.packet.DstIP, r.fields.RequestID, r.tid, r.fields.ServiceID}
}

func (r *hostRequest) port() uint16 { return r.fields.ServiceID.Port() }

// requested takes a request. One that is sent again is not passed on again. Who is over his limit gets no answer: he asks
// again, and there may be room then.
func (l *Loop) requested(r hostRequest) {
	key := r.key()
	if l.sidr.asking[key] {
		l.countRequest(&r, ServiceRepeated)
		return
	}
	if o, given := l.sidr.answers.Find(key); given {
		l.countRequest(&r, ServiceRepeated)
		l.reply(&r, o)
		return
	}
	result, status := l.judge(&r)
	if result == ServiceAnswered {
		result = l.sidr.roceToIB.take(key.from)
	}
	if result != ServiceAnswered {
		l.countRequest(&r, result)
		if status != ib.SIDRStatusOK {
			l.reply(&r, refusal(status))
		}
		return
	}
	l.sidr.asking[key] = true
	l.sidr.connect(r)
}

// judge reports whether a request may be passed on; else why not, and with which status it is refused: OK means that it
// gets no answer.
func (l *Loop) judge(r *hostRequest) (ServiceResult, uint8) {
	from, to := r.packet.SrcIP, r.packet.DstIP
	switch {
	case l.isSpoofed(from, r.packet.Src):
		l.count.Spoofs++
		return ServiceDenied, ib.SIDRStatusOK
	case l.isOwn(to): // nobody listens on the bridge itself
		return ServiceUnsupported, ib.SIDRStatusUnsupported
	case !l.nodes[to]:
		return ServiceNoNode, ib.SIDRStatusOK
	case !l.mayUse(from):
		return ServiceDenied, ib.SIDRStatusRejected
	case l.cfg.Service.Door == nil, r.fields.ServiceID != ib.ServiceIDFromPort(ib.PortSpaceUDP, r.port()), !l.serves(r.port()):
		return ServiceUnsupported, ib.SIDRStatusUnsupported
	case !isConsistent(r):
		return ServiceMalformed, ib.SIDRStatusRejected
	}
	if _, _, ok := l.toIB(from, to); !ok {
		return ServiceUntranslated, ib.SIDRStatusRejected
	}
	return ServiceAnswered, ib.SIDRStatusOK
}

// isSpoofed reports whether who sends from an address is not the one that has it by configuration.
func (l *Loop) isSpoofed(ip netip.Addr, mac frame.MAC) bool {
	h, _, known := l.tables.FindHost(ip)
	return l.answersFor(ip) || known && h.Static && h.MAC != mac
}

// isConsistent reports whether the header of rdma_cm's says of a request what IP says of it, and is of the partition that
// the packet is of.
func isConsistent(r *hostRequest) bool {
	h, _ := ib.AsCMAHeader(r.fields.Private) // as long as a MAD is
	return h.IsSane() && h.Src() == r.packet.SrcIP && h.Dst() == r.packet.DstIP && r.fields.PKey.Matches(r.packet.PKey)
}

// connectTo has the door ask the node, in a goroutine of its own: there are as many at most as requests under way.
func (l *Loop) connectTo(ctx context.Context, r hostRequest) {
	from, to, _ := l.toIB(r.packet.SrcIP, r.packet.DstIP) // judge has seen that they can
	h, _ := ib.AsCMAHeader(r.fields.Private)
	c := ServiceConnect{
		From: from, To: to, ToGID: l.sidr.gids[r.packet.DstIP], SrcPort: h.SrcPort(), Port: r.port(), PKey: l.cfg.Service.PKey,
		Private: bytes.Clone(r.fields.Private[ib.CMAHdrLen:]),
	}
	l.asking.Go(func() {
		asking, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		a, err := l.cfg.Service.Door.Connect(asking, c)
		l.work.Later(ctx, func() { l.connected(r, a, err) })
	})
}

// connected answers a request.
func (l *Loop) connected(r hostRequest, a ServiceAnswer, err error) {
	key := r.key()
	delete(l.sidr.asking, key)
	l.sidr.roceToIB.Give(key.from)
	result, o := judgeAnswer(a, err)
	if result != ServiceAnswered && l.mayLog("service_failed", 1) {
		l.log.Warn("service_failed", "from", key.from, "to", key.to, "port", r.port(), "why", result, "status", o.status, "error", err)
	}
	l.count.Services[roceToIB][result]++
	l.sidr.answers.Put(key, o, time.Now())
	l.reply(&r, o)
}

// judgeAnswer maps what the door says to what a RoCE host is told. Where nobody is, nobody listens: that is what the kernel
// of a server without the service would say.
func judgeAnswer(a ServiceAnswer, err error) (ServiceResult, outcome) {
	var refused *Refused
	switch {
	case err == nil && isServiceQP(a.QPN, a.QKey):
		return ServiceAnswered, outcome{ServiceAnswer: a}
	case err == nil:
		return ServiceMalformed, refusal(ib.SIDRStatusNoQP)
	case errors.As(err, &refused):
		return ServiceRefused, outcome{ServiceAnswer{Private: refused.Private}, refusedStatus(refused.Status)}
	case errors.Is(err, context.DeadlineExceeded):
		return ServiceTimedOut, refusal(ib.SIDRStatusUnsupported)
	}
	return ServiceUnreachable, refusal(ib.SIDRStatusUnsupported)
}

// isServiceQP reports whether datagrams can go to a queue pair through the bridge.
func isServiceQP(q ib.QPN, k ib.QKey) bool {
	return q > ib.QP1 && q < ib.QPMulticast && !k.IsControlled()
}

// refusedStatus is what the status of a refusal is on the other side. The one that a redirection leads to is not on the
// other side, and what is not a refusal that is known is one nevertheless.
func refusedStatus(s uint8) uint8 {
	switch s {
	case ib.SIDRStatusUnsupported, ib.SIDRStatusRejected, ib.SIDRStatusNoQP, ib.SIDRStatusVersion:
		return s
	}
	return ib.SIDRStatusRejected
}

// reply sends a SIDR_REP to where the request came from.
func (l *Loop) reply(r *hostRequest, o outcome) {
	const ecn = 3
	q := &r.packet
	b := l.datagram(roce.Packet{
		Version: q.Version, Dst: q.Src, SrcIP: q.DstIP, DstIP: q.SrcIP, TClass: q.TClass &^ ecn, FlowLabel: q.FlowLabel,
	}, ib.AttrSIDRRep, r.tid, func(body []byte) {
		ib.PutSIDRRep(body, ib.SIDRRepFields{
			RequestID: r.fields.RequestID, Status: o.status, QPN: o.QPN, ServiceID: r.fields.ServiceID, QKey: o.QKey, Private: o.Private,
		})
	})
	l.send(r.worker, b)
}

func (l *Loop) countRequest(r *hostRequest, result ServiceResult) {
	l.countService(roceToIB, result, r.packet.SrcIP, r.packet.DstIP, r.port())
}
