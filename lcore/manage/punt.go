// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/messages"
	"causeway/lcore/manage/punt"
)

// handle gives a punted frame to the part that it is for. worker is the one that punted it.
func (l *Loop) handle(worker int, p Punted) {
	now := time.Now()
	if u := p.Unknown; u != (ib.NodeKey{}) {
		if u.IP.IsValid() {
			l.learner.Wanted(u.IP, false, now)
		} else {
			l.learner.Unknown(u.LID, u.GID, now)
		}
		return
	}
	f, fault := frame.Open(p.Data)
	if fault != "" {
		l.frames.Malformed(fault.Counter())
		if p.Pending != nil { // cannot be: the worker has parsed the same frame
			p.Pending.Reject(RejectSource)
		}
		return
	}
	s := l.segmentOf(Place{p.Port, punt.VID(f)})
	if s == nil { // cannot be: the worker has found it
		l.frames.NotForUs()
		if p.Pending != nil {
			p.Pending.Reject(RejectSource)
		}
		return
	}
	s.handle(l, worker, f, p, now)
}

// handle gives a frame of the segment to the part that it is for.
func (s *segment) handle(l *Loop, worker int, f frame.Frame, p Punted, now time.Time) {
	switch {
	case p.Pending != nil:
		s.proxyQPs.HandlePending(f, p.Pending, now)
	case messages.Is(f):
		l.messages.Handle(p.Data, s.local)
	case f.Type == frame.TypeRoCEv1 || f.IsIP() && f.Protocol() == frame.ProtoUDP:
		s.sidr.HandleMAD(worker, p.Data, now)
	case f.Type == frame.TypeRARP:
		s.contradict(l, worker, f.Eth.Src(), now)
	case f.Type == frame.TypeARP:
		s.neighbours.HandleARP(worker, f, now)
		s.sidr.HostsLearned()
	case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
		m, fault := frame.ParseIGMP(f.IPv4, f.Payload)
		s.groups.HandleMembership(f, m, fault, now)
	case f.IPv6 != nil && f.Protocol() == frame.ProtoHopByHop:
		m, fault := frame.ParseMLD(f.IPv6, f.Payload)
		s.groups.HandleMembership(f, m, fault, now)
	case f.IPv4 != nil && f.Protocol() == frame.ProtoICMP:
		l.handleEcho(s, worker, f)
	case f.IPv6 != nil && len(f.Payload) > 0 && f.Payload[0] == frame.EchoRequest6:
		l.handleEcho(s, worker, f)
	case f.IPv6 != nil:
		s.neighbours.HandleND(worker, f, now)
		s.sidr.HostsLearned()
	default:
		l.frames.NotForUs()
	}
}

// handleEcho answers echo requests (ping) to the bridge's own addresses, so that an operator sees it from the RoCE
// side. Those to nodes are not answered: the answer would claim more than the bridge knows.
func (l *Loop) handleEcho(s *segment, worker int, f frame.Frame) {
	m, from, to := f.Payload, f.Src(), f.Dst()
	request, sum := frame.EchoRequest4, frame.Checksum
	if f.IPv6 != nil {
		request = frame.EchoRequest6
		sum = func(m []byte) uint16 { return frame.PseudoChecksum(from, to, frame.ProtoICMPv6, m) }
	}
	switch {
	case len(m) < frame.EchoLen:
		l.frames.Malformed("icmp_bad")
		return
	case m[0] != request || !s.local.Has(to) || from.IsMulticast() || from.IsUnspecified() || !f.Eth.Src().IsStation():
		l.frames.NotForUs()
		return
	case m[1] != 0 || sum(m) != 0:
		l.frames.Malformed("icmp_bad")
		return
	}
	if l.frames.By(s.cfg.Port).Send(worker, frame.AppendEchoReply(nil, s.local.Link, f, punt.TTL)) {
		l.echoAnswered++
	}
}
