// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"causeway/ibside/ib"
)

// QPConfig describes a queue pair.
type QPConfig struct {
	QPN       ib.QPN // zero: one is chosen
	QKey      ib.QKey
	PKeyIndex uint16     // in the port's table
	Recv      *RecvQueue // receives its messages; may be shared
}

// QP is a queue pair of unreliable datagrams, ready to send and to receive.
type QP struct {
	hca     *HCA
	qpn     ib.QPN
	qkey    ib.QKey
	index   uint16
	pkey    ib.PKey
	recv    *RecvQueue
	psn     atomic.Uint32
	closed  atomic.Bool
	outside atomic.Bool // the port is not in its partition any more: see HCA.linkChanged
	mgids   []ib.GID    // attached; under hca.mu
}

// AH is an address handle: the destination of a message.
type AH struct {
	DLID ib.LID
	SL   ib.SL
	// PathBits chooses the source among the LIDs of the port, counted from the first.
	PathBits uint8
	GRH      *ib.GRHFields // nil: none. Send sets SGID and PayLen
}

// Send is one message to send. Payload is copied.
type Send struct {
	AH        AH
	DestQP    ib.QPN
	QKey      ib.QKey // the queue pair's own replaces a controlled one
	Imm       uint32
	HasImm    bool
	Solicited bool
	FECN      bool   // as if a switch had marked the packet
	PKeyIndex uint16 // of what QP1 sends; other queue pairs have one of their own
	Payload   []byte
}

// CreateQP makes a queue pair.
func (h *HCA) CreateQP(c QPConfig) (*QP, error) {
	if c.Recv == nil {
		return nil, fmt.Errorf("fabric: %s: a queue pair needs a receive queue", h.own().Name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	pkeys := h.own().PKeys
	if int(c.PKeyIndex) >= len(pkeys) {
		return nil, fmt.Errorf("fabric: %s: P_Key index %d: the port has %d P_Keys", h.own().Name, c.PKeyIndex, len(pkeys))
	}
	qpn, err := h.qpnFor(c.QPN)
	if err != nil {
		return nil, err
	}
	q := &QP{hca: h, qpn: qpn, qkey: c.QKey, index: c.PKeyIndex, pkey: pkeys[c.PKeyIndex], recv: c.Recv}
	q.psn.Store(rand.Uint32())
	h.qps[qpn] = q
	return q, nil
}

// qpnFor checks a wanted QPN or chooses one. A freed QPN is reused only after all others, so that late packets for the
// old queue pair do not reach a new one.
func (h *HCA) qpnFor(want ib.QPN) (ib.QPN, error) {
	if want != 0 {
		if want == ib.QP1 || want >= ib.QPMulticast || h.qps[want] != nil {
			return 0, fmt.Errorf("fabric: %s: QPN %v is reserved or in use", h.own().Name, want)
		}
		return want, nil
	}
	for range 1 << 24 {
		h.nextQPN = (h.nextQPN + 1) & 0xffffff
		if q := h.nextQPN; q > ib.QP1 && q != ib.QPMulticast && h.qps[q] == nil {
			return q, nil
		}
	}
	return 0, fmt.Errorf("fabric: %s: all QPNs are in use", h.own().Name)
}

// QPN returns the queue pair's number.
func (q *QP) QPN() ib.QPN { return q.qpn }

// QKey returns the queue pair's Q_Key.
func (q *QP) QKey() ib.QKey { return q.qkey }

// AttachMulticast makes the queue pair receive messages to mgid. The port's membership is separate: see NewSAClient.
func (q *QP) AttachMulticast(mgid ib.GID) error {
	if !mgid.IsIBMulticast() {
		return fmt.Errorf("fabric: attach: %v is not a multicast GID", mgid)
	}
	h := q.hca
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.closed.Load() {
		return ErrClosed
	}
	if !slices.Contains(q.mgids, mgid) {
		q.mgids = append(q.mgids, mgid)
		h.groups[mgid] = append(h.groups[mgid], q)
	}
	return nil
}

// DetachMulticast undoes AttachMulticast.
func (q *QP) DetachMulticast(mgid ib.GID) {
	q.hca.mu.Lock()
	defer q.hca.mu.Unlock()
	q.mgids = slices.DeleteFunc(q.mgids, func(m ib.GID) bool { return m == mgid })
	q.detach(mgid)
}

func (q *QP) detach(mgid ib.GID) {
	h := q.hca
	h.groups[mgid] = slices.DeleteFunc(h.groups[mgid], func(o *QP) bool { return o == q })
	if len(h.groups[mgid]) == 0 {
		delete(h.groups, mgid)
	}
}

// Destroy destroys the queue pair. Received messages stay in its receive queue.
func (q *QP) Destroy() {
	h := q.hca
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.closed.Swap(true) {
		return
	}
	for _, mgid := range q.mgids {
		q.detach(mgid)
	}
	q.mgids = nil
	delete(h.qps, q.qpn)
}

// Send sends one message and returns "", or drops and counts it and returns the reason.
func (q *QP) Send(s *Send) string {
	var why [1]string
	q.hca.SendBurst([]Post{{q, *s}}, why[:])
	return why[0]
}

func (q *QP) check(s *Send) string {
	dlid, multicast := s.AH.DLID, s.AH.DLID.IsMulticast()
	switch {
	case q.closed.Load():
		return DropNoQP
	case s.DestQP == ib.QP0:
		return DropQP0
	case !multicast && !dlid.IsUnicast(), multicast != (s.DestQP == ib.QPMulticast), s.DestQP > ib.QPMulticast:
		return DropAH
	case multicast && s.AH.GRH == nil, s.AH.GRH != nil && multicast != s.AH.GRH.DGID.IsIBMulticast():
		return DropAH
	case len(s.Payload) > q.hca.own().MTU.Bytes():
		return DropMTU
	case q.outside.Load():
		return DropPKey
	case q.qpn == ib.QP1 && int(s.PKeyIndex) >= len(q.hca.own().PKeys):
		return DropPKey
	}
	return ""
}

// appendPacket appends the packet of a message to b.
func (q *QP) appendPacket(b []byte, s *Send) []byte {
	info := q.hca.own()
	p := ib.Packet{
		SL: s.AH.SL, SLID: info.LID | ib.LID(s.AH.PathBits&(1<<info.LMC-1)), DLID: s.AH.DLID, OpCode: ib.OpUDSendOnly,
		Solicited: s.Solicited, FECN: s.FECN, PKey: q.pkey, DestQP: s.DestQP, PSN: q.psn.Add(1) & 0xffffff, QKey: s.QKey,
		SrcQP: q.qpn, Payload: s.Payload,
	}
	if s.QKey.IsControlled() {
		p.QKey = q.qkey
	}
	if q.qpn == ib.QP1 && int(s.PKeyIndex) < len(info.PKeys) { // the table may be another since check
		p.PKey = info.PKeys[s.PKeyIndex]
	}
	if s.HasImm {
		p.OpCode, p.Imm = ib.OpUDSendOnlyImm, s.Imm
	}
	if s.AH.GRH != nil {
		grh := *s.AH.GRH
		grh.SGID = info.GID
		p.GRH = &grh
	}
	return p.AppendTo(b)
}
