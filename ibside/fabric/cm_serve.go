// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// CMRequest is a peer's request for a service's queue pair. The handler answers it once, by Accept or Reject, within
// CMConfig.AnswerIn. The CM answers retries itself, with the same answer.
type CMRequest struct {
	From, To netip.Addr // requester and service
	FromPort uint16
	Port     uint16     // of the service
	PKey     ib.PKey    // the partition of the request
	Peer     MADAddress // the requester's port
	Private  []byte     // after the CMAHeader: 180 bytes, zero-padded

	cm      *CM
	entry   *cmEntry
	tid     uint64
	id      uint32
	service ib.ServiceID
}

// Serve starts to serve ports: it calls h for each request in a new goroutine. A second call replaces ports and h.
// Requests for other services get ib.SIDRStatusUnsupported. Before the first call, requests get no answer, so that
// peers retry while the process starts.
func (m *CM) Serve(ports []CMPorts, h func(*CMRequest)) error {
	if err := checkPorts(ports); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports, m.handler = slices.Clone(ports), h
	return nil
}

// request processes a SIDR_REQ; false when there is no handler.
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
		r.readPrivate(req.Private())
		go handler(r)
	}
	return handler != nil
}

// look adds a new request; for a retry it returns the reply, if there is one. The caller holds the lock.
func (m *CM) look(r *CMRequest, mad ib.MAD, req ib.SIDRReq, key *cmKey) (reply []byte, isNew bool) {
	m.state.expire(time.Now())
	if e := m.state.entries[*key]; e != nil {
		m.counts.Repeats++
		return e.reply, false
	}
	m.counts.Requests++
	status, why := m.judge(mad, req, r.Peer.PKeyIndex)
	if why == "" {
		status, why = ib.SIDRStatusNoQP, m.admit(r, key)
	}
	if why == "" {
		return nil, true
	}
	m.counts.Answers[why]++
	return r.reply(ib.SIDRRepFields{Status: status}), false
}

// isAt reports whether a P_Key is of the partition at an index of the port's table.
func (m *CM) isAt(index uint16, pkey ib.PKey) bool {
	pkeys := m.hca.own().PKeys
	return int(index) < len(pkeys) && pkey.Matches(pkeys[index])
}

// judge checks a request before it is stored, which came with the P_Key of that index: the partition that it names must
// be that one, which an HCA has checked. The caller holds the lock.
func (m *CM) judge(mad ib.MAD, req ib.SIDRReq, in uint16) (status uint8, why string) {
	if !mad.IsCM() {
		return ib.SIDRStatusVersion, CMBad
	}
	service := req.ServiceID()
	served := func(p CMPorts) bool { return p.First <= service.Port() && service.Port() <= p.Last }
	if !service.IsIP() || service.PortSpace() != ib.PortSpaceUDP || !slices.ContainsFunc(m.ports, served) {
		return ib.SIDRStatusUnsupported, CMUnsupported
	}
	// Linux gives this answer to an invalid CMAHeader.
	if cma, _ := ib.AsCMAHeader(req.Private()); !cma.IsSane() || !m.isAt(in, req.PKey()) {
		return ib.SIDRStatusRejected, CMBad
	}
	return ib.SIDRStatusOK, ""
}

// admit stores a request, or returns why it cannot. The caller holds the lock.
func (m *CM) admit(r *CMRequest, key *cmKey) (why string) {
	if r.entry, why = m.state.open(key); why != "" {
		return why
	}
	r.entry.timer = time.AfterFunc(m.cfg.AnswerIn, func() {
		_ = r.answer(CMTimedOut, ib.SIDRRepFields{Status: ib.SIDRStatusRejected}) // the error means: already answered
	})
	return ""
}

// readPrivate parses the private data and copies it, because the handler may keep it.
func (r *CMRequest) readPrivate(private []byte) {
	cma, _ := ib.AsCMAHeader(private)
	f := cma.Fields()
	r.From, r.To, r.FromPort = f.Src, f.Dst, f.SrcPort
	r.Private = slices.Clone(private[ib.CMAHdrLen:])
}

// Accept answers with the service's queue pair. Private data is at most ib.SIDRRepPrivateLen bytes.
func (r *CMRequest) Accept(qpn ib.QPN, qkey ib.QKey, private []byte) error {
	switch {
	case qpn <= ib.QP1 || qpn >= ib.QPMulticast:
		return fmt.Errorf("fabric: accept %v: %v is not a queue pair of a service", r.From, qpn)
	case len(private) > ib.SIDRRepPrivateLen:
		return fmt.Errorf("fabric: accept %v with %d bytes of private data; use %d at most", r.From, len(private), ib.SIDRRepPrivateLen)
	}
	return r.answer(CMAccepted, ib.SIDRRepFields{QPN: qpn, QKey: qkey, Private: private})
}

// Reject rejects the request with one of the ib.SIDRStatus constants except that of success.
func (r *CMRequest) Reject(status uint8, private []byte) error {
	switch {
	case status == ib.SIDRStatusOK:
		return fmt.Errorf("fabric: reject %v with the status of success", r.From)
	case len(private) > ib.SIDRRepPrivateLen:
		return fmt.Errorf("fabric: reject %v with %d bytes of private data; use %d at most", r.From, len(private), ib.SIDRRepPrivateLen)
	}
	return r.answer(CMRejected, ib.SIDRRepFields{Status: status, Private: private})
}

// answer sends the answer and stores it for retries.
func (r *CMRequest) answer(what string, f ib.SIDRRepFields) error {
	m, reply := r.cm, r.reply(f)
	m.mu.Lock()
	first := m.state.answer(r.entry, reply, time.Now().Add(m.cfg.Remember))
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

// reply makes the MAD of an answer.
func (r *CMRequest) reply(f ib.SIDRRepFields) []byte {
	b := newCM(ib.AttrSIDRRep, r.tid)
	f.RequestID, f.ServiceID = r.id, r.service
	ib.PutSIDRRep(b[ib.MADHdrLen:], f)
	return b
}
