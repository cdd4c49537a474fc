// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// sends takes one worker's messages to the HCA, a burst at a time.
type sends struct {
	port  *Port
	w     *workerSide
	msgs  [burst]Sent
	grhs  [burst]ib.GRHFields
	posts []fabric.Post
	why   [burst]string
}

func newSends(p *Port, w *workerSide) *sends {
	return &sends{port: p, w: w, posts: make([]fabric.Post, 0, burst)}
}

// pump sends a burst, and returns how many messages the worker had.
func (s *sends) pump() int {
	n := s.port.rings.Take(s.w.id, s.msgs[:])
	if n == 0 {
		return 0
	}
	s.prepare(s.msgs[:n])
	why := s.why[:len(s.posts)]
	s.port.hca.SendWhile(s.port.may(), s.posts, why)
	sent := uint64(0)
	for _, cause := range why {
		if cause == "" {
			sent++
		} else {
			s.port.notSent.add(cause, 1)
		}
	}
	s.port.sent.Add(sent)
	s.port.posted.Add(uint64(n))
	return n
}

// prepare drops what cannot be sent.
func (s *sends) prepare(msgs []Sent) {
	s.posts = s.posts[:0]
	s.port.mu.RLock()
	defer s.port.mu.RUnlock()
	for i := range msgs {
		qp, cause := s.port.sender(s.w, &msgs[i])
		if cause != "" {
			s.port.notSent.add(cause, 1)
			continue
		}
		s.posts = append(s.posts, fabric.Post{QP: qp, Send: sendOf(&msgs[i], &s.grhs[i])})
	}
}

// SendWhile implements ibside.Entitled.
func (p *Port) SendWhile(may func() bool) { p.entitled.Store(&may) }

// may is what SendWhile has set; nil: nothing.
func (p *Port) may() func() bool {
	if may := p.entitled.Load(); may != nil {
		return *may
	}
	return nil
}

// sender returns the queue pair of a message, or why it is dropped. The caller holds the lock.
func (p *Port) sender(w *workerSide, m *Sent) (*fabric.QP, string) {
	h, ok := p.qps[m.QP]
	switch {
	case !ok:
		return nil, fabric.DropNoQP
	case h.worker != w.id:
		return nil, DropWrongWorker
	case m.Len != len(m.Payload):
		return nil, fabric.DropMTU
	case m.Source != 0: // the port has one GID
		return nil, fabric.DropAH
	}
	return h.qp, ""
}

// sendOf may put the message's GRH where the caller keeps it.
func sendOf(m *Sent, grh *ib.GRHFields) fabric.Send {
	s := fabric.Send{
		AH: fabric.AH{DLID: m.DLID, SL: m.SL}, DestQP: m.DestQP, QKey: m.QKey, Imm: m.Imm, HasImm: m.HasImm,
		Solicited: m.Solicited, FECN: m.FECN, Payload: m.Payload,
	}
	if m.HasGRH {
		*grh = ib.GRHFields{DGID: m.DGID, TClass: m.TClass, FlowLabel: m.FlowLabel, HopLimit: m.HopLimit}
		s.AH.GRH = grh
	}
	return s
}
