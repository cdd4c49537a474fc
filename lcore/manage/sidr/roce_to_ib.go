// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/sidr/pending"
)

// connectTimeout bounds how long a request may wait for its turn, and the port may then ask an IB node. A RoCE host
// sends its request 16 times in 65 s and then gives up: it gets an answer before that.
const connectTimeout = 30 * time.Second

// A request is a RoCE host's SIDR_REQ.
type request struct {
	worker int
	packet roce.Packet
	tid    uint64
	fields ib.SIDRReqFields

	partition uint8     // of the node
	stranger  bool      // the host had not shown that it exists
	until     time.Time // it is too late for an answer then
}

func (r *request) key() requestKey {
	return requestKey{r.packet.SrcIP, r.packet.DstIP, r.fields.RequestID, r.tid, r.fields.ServiceID}
}

func (r *request) port() uint16 { return r.fields.ServiceID.Port() }

// srcPort returns the host's port, which identifies its rdma_cm identifier.
func (r *request) srcPort() uint16 {
	h, _ := ib.AsCMAHeader(r.fields.Private) // as long as a MAD is
	return h.SrcPort()
}

// requests are those of RoCE hosts to IB nodes.
type requests struct {
	*shared
	quota   pending.Quota[netip.Addr] // by RoCE host
	strange int                       // of those under way: strangers'
	asking  map[requestKey]bool
	turns   turns
	answers pending.Answers[requestKey, outcome] // the last ones given, for hosts that send again
}

func newRequests(s *shared) *requests {
	return &requests{
		shared: s, quota: pending.NewQuota[netip.Addr](PendingMost, pendingBySource), asking: map[requestKey]bool{}, turns: turns{},
		answers: pending.NewAnswers[requestKey, outcome](answersMost, answersKept),
	}
}

// requested takes a request. One that is sent again is not passed on again. A host above its limit gets no answer: it
// sends again, and there may be room then.
func (q *requests) requested(r request) {
	key := r.key()
	if q.asking[key] {
		q.end(&r, Repeated)
		return
	}
	if o, given := q.answers.Find(key); given {
		q.end(&r, Repeated)
		q.reply(&r, o)
		return
	}
	result, status := q.judge(&r)
	if result == Answered {
		result, status = q.admit(&r)
	}
	if result != Answered {
		q.end(&r, result)
		if status != ib.SIDRStatusOK {
			q.reply(&r, rejection(status))
		}
		return
	}
	q.asking[key] = true
	r.until = time.Now().Add(connectTimeout)
	if q.turns.take(&r) {
		q.connect(r)
	}
}

// admit takes a request's place, and that of a proxy QP. A host that has not shown that it exists is asked to; when
// there are too many of these, it gets no answer, and sends again.
func (q *requests) admit(r *request) (Result, uint8) {
	from, now := r.packet.SrcIP, time.Now()
	q.Hosts.Confirm(from, r.packet.Src, r.vid(), now)
	confirmed, _ := q.Hosts.Standing(from)
	if r.stranger = !confirmed; r.stranger && q.strange >= strangersMost {
		return Busy, ib.SIDRStatusOK
	}
	if result := take(&q.quota, from); result != Answered {
		return result, ib.SIDRStatusOK
	}
	r.partition = q.PartitionOf(q.Nodes.GID(r.packet.DstIP))
	switch err := q.ProxyQPs.Promise(from, r.srcPort(), r.partition, now); {
	case proxyqps.IsOfStranger(err):
		q.quota.Give(from)
		return BusySource, ib.SIDRStatusOK
	case err != nil:
		q.quota.Give(from)
		return NoProxyQP, ib.SIDRStatusNoQP
	}
	if r.stranger {
		q.strange++
	}
	return Answered, ib.SIDRStatusOK
}

// vid returns the VLAN of a request, 0 when it has no tag.
func (r *request) vid() uint16 {
	if r.packet.Tag == nil {
		return 0
	}
	return r.packet.Tag.VID
}

func (q *requests) end(r *request, result Result) {
	q.counted(roceToIB, result, r.packet.SrcIP, r.packet.DstIP, r.port())
}

// judge reports whether a request may be passed on; else why not, and with which status it is rejected: OK means that
// it gets no answer.
func (q *requests) judge(r *request) (Result, uint8) {
	from, to := r.packet.SrcIP, r.packet.DstIP
	switch {
	case q.Hosts.IsSpoofed(from, r.packet.Src, true), q.isOthers(r):
		return Denied, ib.SIDRStatusOK
	case q.Local.Has(to): // the bridge itself has no services
		return Unsupported, ib.SIDRStatusUnsupported
	case !q.Nodes.Has(to):
		return NoNode, ib.SIDRStatusOK
	case !q.cfg.allows(from):
		return Denied, ib.SIDRStatusRejected
	case q.cfg.Port == nil, r.fields.ServiceID != ib.ServiceIDFromPort(ib.PortSpaceUDP, r.port()), !q.cfg.serves(r.port()):
		return Unsupported, ib.SIDRStatusUnsupported
	case !isConsistent(r):
		return Malformed, ib.SIDRStatusRejected
	}
	if _, _, ok := q.cfg.toIB(from, to); !ok {
		return Untranslated, ib.SIDRStatusRejected
	}
	return Answered, ib.SIDRStatusOK
}

// isOthers reports whether a request comes from an address that is known to be another station's. That one is asked whether it
// still is, as by data: who only has written an address into a request uses up nothing of it.
func (q *requests) isOthers(r *request) bool {
	ip, mac := r.packet.SrcIP, r.packet.Src
	h, known := q.Hosts.Find(ip)
	if !known || frame.MAC(h.MAC) == mac {
		return false
	}
	_, err := q.Hosts.Learn(ip, mac, r.vid(), h.Version, time.Now())
	return err != nil
}

// isConsistent reports whether the CMA header agrees with the IP header, and the request's partition with the packet's.
func isConsistent(r *request) bool {
	h, _ := ib.AsCMAHeader(r.fields.Private) // as long as a MAD is
	return h.IsSane() && h.Src() == r.packet.SrcIP && h.Dst() == r.packet.DstIP && r.fields.PKey.Matches(r.packet.PKey)
}

// errStopped is the error of requests whose segment is there no more.
var errStopped = errors.New("manage: the RoCE segment was removed")

// connect makes the port ask the node, in a goroutine of its own: there are at most as many as requests that have their
// turn.
func (q *requests) connect(r request) {
	from, to, _ := q.cfg.toIB(r.packet.SrcIP, r.packet.DstIP) // judge has checked it
	c := ibside.ServiceConnect{
		From: from, To: to, ToGID: q.Nodes.GID(r.packet.DstIP), SrcPort: r.srcPort(), Port: r.port(),
		PKey:    q.Partitions.PKey(r.partition),
		Private: bytes.Clone(r.fields.Private[ib.CMAHdrLen:]),
	}
	if q.stopped {
		q.connected(r, ibside.ServiceAnswer{}, errStopped)
		return
	}
	running, port := q.Ask.Running(), q.cfg.Port
	q.Ask.Go(func() {
		asking, cancel := context.WithDeadline(running, r.until)
		defer cancel()
		a, err := port.Connect(asking, c)
		q.Ask.Later(running, func() { q.connected(r, a, err) })
	})
}

// connected answers a request.
func (q *requests) connected(r request, a ibside.ServiceAnswer, err error) {
	key := r.key()
	delete(q.asking, key)
	q.quota.Give(key.from)
	if next, waits := q.turns.pass(key.from); waits {
		q.connect(next)
	}
	if r.stranger {
		q.strange--
	}
	result, o := judgeAnswer(a, err)
	if result != Answered {
		q.ProxyQPs.Release(key.from, r.srcPort(), r.partition)
	}
	if q.stopped || result == Unreachable && q.Ask.Running().Err() != nil {
		q.count[roceToIB][result]++ // the bridge ends: the host sends again, and may find the next one
		return
	}
	if result != Answered && q.Log.Allow("service_failed", 1) {
		q.Log.Warn("service_failed", "from", key.from, "to", key.to, "port", r.port(), "why", result, "status", o.status, "error", err)
	}
	q.count[roceToIB][result]++
	q.answers.Put(key, o, time.Now())
	q.reply(&r, o)
}

// judgeAnswer maps the port's answer to the RoCE host's. Where no node answers, no process listens: that is what the
// kernel of a server without the service would answer.
func judgeAnswer(a ibside.ServiceAnswer, err error) (Result, outcome) {
	var rejected *ibside.Rejected
	switch {
	case err == nil && isServiceQP(a.QPN, a.QKey):
		return Answered, outcome{ServiceAnswer: a}
	case err == nil:
		return Malformed, rejection(ib.SIDRStatusNoQP)
	case errors.As(err, &rejected):
		return Refused, outcome{ibside.ServiceAnswer{Private: rejected.Private}, statusAcross(rejected.Status)}
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut, rejection(ib.SIDRStatusUnsupported)
	}
	return Unreachable, rejection(ib.SIDRStatusUnsupported)
}

// isServiceQP reports whether datagrams can go to a queue pair through the bridge.
func isServiceQP(q ib.QPN, k ib.QKey) bool {
	return q > ib.QP1 && q < ib.QPMulticast && !k.IsControlled()
}

// statusAcross returns the status of a rejection on the other side. A redirection leads to nothing there, and an
// unknown status is still a rejection.
func statusAcross(s uint8) uint8 {
	switch s {
	case ib.SIDRStatusUnsupported, ib.SIDRStatusRejected, ib.SIDRStatusNoQP, ib.SIDRStatusVersion:
		return s
	}
	return ib.SIDRStatusRejected
}

// reply sends a SIDR_REP to the source of the request.
func (q *requests) reply(r *request, o outcome) {
	const ecn = 3
	p := &r.packet
	b := q.datagram(roce.Packet{
		Version: p.Version, Dst: p.Src, SrcIP: p.DstIP, DstIP: p.SrcIP, TClass: p.TClass &^ ecn, FlowLabel: p.FlowLabel,
	}, ib.AttrSIDRRep, r.tid, func(body []byte) {
		ib.PutSIDRRep(body, ib.SIDRRepFields{
			RequestID: r.fields.RequestID, Status: o.status, QPN: o.QPN, ServiceID: r.fields.ServiceID, QKey: o.QKey, Private: o.Private,
		})
	})
	q.Frames.Send(r.worker, b)
}
