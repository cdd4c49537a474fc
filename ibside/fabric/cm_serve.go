// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// CMRequest is a peer's question for a service's queue pair. It wants one answer, by Accept or Refuse; CMConfig.AnswerIn
// says how soon. Repetitions of it are hidden: they get the same answer.
type CMRequest struct {
	From, To netip.Addr // who asks whom
	FromPort uint16
	Port     uint16     // of the service
	PKey     ib.PKey    // the partition it is wanted in
	Peer     MADAddress // where it came from
	Private  []byte     // what comes after the CMAHeader: 180 bytes, what the peer did not fill zero

	cm      *CM
	entry   *cmEntry
	tid     uint64
	id      uint32
	service ib.ServiceID
}

// Serve takes requests for services: each is given to h in a goroutine of its own. Called again, it replaces ports and h.
// A request for another service is answered with ib.SIDRStatusUnsupported; before the first call no request is answered: who
// starts should not turn away whom he will serve in a moment.
func (m *CM) Serve(ports []CMPorts, h func(*CMRequest)) error {
	if err := checkPorts(ports); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports, m.handler = slices.Clone(ports), h
	return nil
}

// request takes a SIDR_REQ; false when nobody serves anything.
func (m *CM) request(from MADAddress, mad ib.MAD, b []byte) bool {
	req, _ := ib.AsSIDRReq(b[ib.MADHdrLen:])
	key := cmKey{lid: from.LID, mad: [ib.MADLen]byte(b)}
	if from.GRH != nil {
		key.gid = from.GRH.SGID
	}
	r := &CMRequest{
		Peer: from, PKey: req.PKey(), Port: req.ServiceID().Port(),
		cm: m, tid: mad.TID(), id: req.RequestID(), service: req.ServiceID(),
	}
	m.mu.Lock()
	handler, reply, isNew := m.handler, []byte(nil), false
	if handler != nil {
		reply, isNew = m.look(r, mad, req, &key)
	}
	m.mu.Unlock()
	if reply != nil {
		m.send(from.back(), reply)
	}
	if isNew {
		r.whoAsksWhom(req.Private())
		go handler(r)
	}
	return handler != nil
}

// look enters a request that is new; else it returns the reply to it, if there is one. It has the lock.
func (m *CM) look(r *CMRequest, mad ib.MAD, req ib.SIDRReq, key *cmKey) (reply []byte, isNew bool) {
	m.book.expire(time.Now())
	if e := m.book.entries[*key]; e != nil {
		m.counts.Repeats++
		return e.reply, false
	}
	m.counts.Requests++
	status, why := m.judge(mad, req)
	if why == "" {
		status, why = ib.SIDRStatusNoQP, m.admit(r, key)
	}
	if why == "" {
		return nil, true
	}
	m.counts.Answers[why]++
	return r.reply(ib.SIDRRepFields{Status: status}), false
}

// judge returns why a request is refused that is not even kept. It has the lock.
func (m *CM) judge(mad ib.MAD, req ib.SIDRReq) (status uint8, why string) {
	if !mad.IsCM() {
		return ib.SIDRStatusVersion, CMBad
	}
	service := req.ServiceID()
	served := func(p CMPorts) bool { return p.First <= service.Port() && service.Port() <= p.Last }
	if !service.IsIP() || service.PortSpace() != ib.PortSpaceUDP || !slices.ContainsFunc(m.ports, served) {
		return ib.SIDRStatusUnsupported, CMUnsupported
	}
	// Linux answers so when it does not like what the header says.
	if cma, _ := ib.AsCMAHeader(req.Private()); !cma.IsSane() || !slices.ContainsFunc(m.hca.info.PKeys, req.PKey().Matches) {
		return ib.SIDRStatusRejected, CMBad
	}
	return ib.SIDRStatusOK, ""
}

// admit enters a request in the book, or returns why that cannot be. It has the lock.
func (m *CM) admit(r *CMRequest, key *cmKey) (why string) {
	if r.entry, why = m.book.open(key); why != "" {
		return why
	}
	r.entry.timer = time.AfterFunc(m.cfg.AnswerIn, func() {
		_ = r.answer(CMTimedOut, ib.SIDRRepFields{Status: ib.SIDRStatusRejected}) // its error: answered
	})
	return ""
}

// whoAsksWhom reads the private data, which it copies: the handler may keep it.
func (r *CMRequest) whoAsksWhom(private []byte) {
	cma, _ := ib.AsCMAHeader(private)
	f := cma.Fields()
	r.From, r.To, r.FromPort = f.Src, f.Dst, f.SrcPort
	r.Private = slices.Clone(private[ib.CMAHdrLen:])
}

// Accept tells the requester the service's queue pair. Private data is ib.SIDRRepPrivateLen bytes at most.
func (r *CMRequest) Accept(qpn ib.QPN, qkey ib.QKey, private []byte) error {
	switch {
	case qpn <= ib.QP1 || qpn >= ib.QPMulticast:
		return fmt.Errorf("fabric: accept %v: %v is no queue pair of a service", r.From, qpn)
	case len(private) > ib.SIDRRepPrivateLen:
		return fmt.Errorf("fabric: accept %v with %d bytes of private data; use %d at most", r.From, len(private), ib.SIDRRepPrivateLen)
	}
	return r.answer(CMAccepted, ib.SIDRRepFields{QPN: qpn, QKey: qkey, Private: private})
}

// Refuse refuses the request with one of the ib.SIDRStatus constants but that of success.
func (r *CMRequest) Refuse(status uint8, private []byte) error {
	switch {
	case status == ib.SIDRStatusOK:
		return fmt.Errorf("fabric: refuse %v with the status of success", r.From)
	case len(private) > ib.SIDRRepPrivateLen:
		return fmt.Errorf("fabric: refuse %v with %d bytes of private data; use %d at most", r.From, len(private), ib.SIDRRepPrivateLen)
	}
	return r.answer(CMRejected, ib.SIDRRepFields{Status: status, Private: private})
}

// answer gives the one answer and keeps it for repetitions.
func (r *CMRequest) answer(what string, f ib.SIDRRepFields) error {
	m, reply := r.cm, r.reply(f)
	m.mu.Lock()
	first := m.book.answer(r.entry, reply, time.Now().Add(m.cfg.Remember))
	if first {
		m.counts.Answers[what]++
	}
	m.mu.Unlock()
	if !first {
		return errCMAnswered
	}
	if cause := m.send(r.Peer.back(), reply); cause != "" {
		return fmt.Errorf("fabric: answer %v: %s", r.From, cause)
	}
	return nil
}

// reply makes the datagram of an answer.
func (r *CMRequest) reply(f ib.SIDRRepFields) []byte {
	b := newCM(ib.AttrSIDRRep, r.tid)
	f.RequestID, f.ServiceID = r.id, r.service
	ib.PutSIDRRep(b[ib.MADHdrLen:], f)
	return b
}
