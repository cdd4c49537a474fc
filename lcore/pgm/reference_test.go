// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"net/netip"

	"causeway/lcore/pgm/pgmtest"
)

// A streamName identifies a stream.
type streamName struct {
	tsi       TSI
	group     uint32
	direction Direction
}

// A model is a second implementation of the tracker: its numbers do not wrap, and received numbers are a set. It has
// room for everything and drops nothing.
type model struct {
	checksum bool
	streams  map[streamName]*modelStream
	totals   Totals
}

// A modelStream holds sequence numbers as whole numbers that do not wrap.
type modelStream struct {
	Stream
	lead, first int64 // first is the first number of the stream
	come        map[int64]bool
	strays      []uint32 // consecutive ones
	spmStrays   []uint32
	spmKnown    bool
}

func newModel(checksum bool) *model {
	return &model{checksum: checksum, streams: map[streamName]*modelStream{}}
}

// near returns the number closest to at whose low 32 bits are sqn.
func near(at int64, sqn uint32) int64 { return at + int64(int32(sqn-uint32(at))) }

func (m *model) see(payload []byte, group uint32, d Direction, tsc uint64) {
	p, f := parse(payload, m.checksum)
	name := streamName{p.tsi, group, d}
	s := m.streams[name]
	total := &m.totals.Direction[d]
	if f != Fine {
		total.Faults[f]++
		if s != nil && p.named {
			s.Counts[Malformed]++
			total.Counts[Malformed]++
		}
		return
	}
	if s == nil {
		s = &modelStream{Stream: Stream{TSI: p.tsi, Group: group, Direction: d, DstPort: p.dport, Since: tsc}}
		m.streams[name] = s
		m.totals.Begun++
		m.totals.Streams++
	}
	before := s.Counts
	s.Seen = tsc
	s.take(&p)
	for c := range s.Counts {
		total.Counts[c] += s.Counts[c] - before[c]
	}
}

func (s *modelStream) take(p *parsed) {
	packets := map[pgmtest.Type]Count{
		pgmtest.SPM: SPM, pgmtest.POLL: POLL, pgmtest.POLR: POLR, pgmtest.ODATA: ODATA, pgmtest.RDATA: RDATA,
		pgmtest.NAK: NAK, pgmtest.NNAK: NNAK, pgmtest.NCF: NCF, pgmtest.SPMR: SPMR, pgmtest.ACK: ACK,
	}
	s.Counts[packets[p.kind]]++
	switch p.kind {
	case pgmtest.NAK:
		s.Counts[NAKSQNs] += p.sqns
	case pgmtest.NCF:
		s.Counts[NCFSQNs] += p.sqns
	case pgmtest.ODATA, pgmtest.RDATA:
		s.data(p)
	case pgmtest.SPM:
		s.sourcePath(p)
	}
	s.note(p)
}

func (s *modelStream) note(p *parsed) {
	for o := range p.options {
		s.Options |= 1 << o
	}
	s.Counts[Unknown] += uint64(len(p.unknown))
	for _, o := range p.unknown {
		s.UnknownType = o
	}
	if p.unsummed {
		s.Counts[Unsummed]++
	}
	if p.trailing {
		s.Counts[Trailing]++
	}
	s.Finished = s.Finished || p.options[pgmtest.OptFIN]
	s.Reset = s.Reset || p.options[pgmtest.OptRST]
}

func (s *modelStream) begin(sqn, trail uint32, come bool) {
	s.lead = int64(sqn) + 1<<32 // room to go back
	s.first, s.come, s.strays = s.lead, map[int64]bool{s.lead: true}, nil
	if !come {
		s.first++
	}
	s.Begun, s.Lead, s.Trail, s.Finished, s.Reset = true, sqn, trail, false, false
}

// row appends a number to the consecutive ones, and reports whether they are enough to prove a new sequence.
func row(strays *[]uint32, sqn uint32) bool {
	if n := len(*strays); n > 0 && (*strays)[n-1]+1 != sqn {
		*strays = nil
	}
	*strays = append(*strays, sqn)
	if len(*strays) < 4 {
		return false
	}
	*strays = nil
	return true
}

func (s *modelStream) moveTrail(trail uint32) {
	if d := int32(trail - s.Trail); d > 0 && d <= 1<<20 {
		s.Trail = trail
	}
}

func (s *modelStream) data(p *parsed) {
	s.Counts[Bytes] += p.tsdu
	switch {
	case p.parity:
		s.Counts[Parity]++
	case int32(p.sqn-p.trail) < 0:
		s.Counts[Window]++
	case !s.Begun:
		s.begin(p.sqn, p.trail, true)
	default:
		s.place(p)
	}
}

func (s *modelStream) place(p *parsed) {
	at, repair := near(s.lead, p.sqn), p.kind == pgmtest.RDATA
	far := at > s.lead+1<<20 || at < s.lead-1<<20
	old := at <= s.lead && (at < s.first || at <= s.lead-1024)
	opening := !repair && p.options[pgmtest.OptSYN] && (far || old || at > s.lead+1)
	switch {
	case opening || !repair && (far || old) && row(&s.strays, p.sqn):
		s.Counts[Restarts]++
		s.spmKnown = false
		s.begin(p.sqn, p.trail, true)
	case far:
		s.Counts[Far]++
	case old:
		s.Counts[Old]++
	default:
		s.strays = nil
		s.arrive(at, repair)
		s.moveTrail(p.trail)
	}
}

// arrive takes a number inside the window, or a newer one.
func (s *modelStream) arrive(at int64, repair bool) {
	odata, rdata := Late, Repaired
	if s.come[at] {
		odata, rdata = Duplicates, Repeated
	}
	if at > s.lead {
		s.skipTo(at - 1)
		s.lead, s.Lead = at, uint32(at)
		s.come[at] = true
		return
	}
	if repair {
		odata = rdata
	}
	s.Counts[odata]++
	s.come[at] = true
}

// skipTo records that the source has sent all numbers up to this one.
func (s *modelStream) skipTo(at int64) {
	if at > s.lead {
		s.Counts[Gaps]++
		s.Counts[Missed] += uint64(at - s.lead)
		s.lead, s.Lead = at, uint32(at)
	}
}

func (s *modelStream) sourcePath(p *parsed) {
	if d := int64(int32(p.sqn - s.Stream.SPM)); s.spmKnown && (d <= 0 || d > 1<<20) {
		if !row(&s.spmStrays, p.sqn) {
			if d > 0 || d < -1<<20 {
				s.Counts[Far]++
			} else {
				s.Counts[SPMLate]++
			}
			return
		}
	} else if s.spmKnown {
		s.Counts[SPMMissed] += uint64(d - 1)
	}
	s.spmKnown, s.Stream.SPM, s.spmStrays = true, p.sqn, nil
	if int32(p.lead-p.trail) < -1 {
		s.Counts[Window]++
		return
	}
	s.NLA, _ = netip.AddrFromSlice(p.nla)
	if !s.Begun {
		s.begin(p.lead, p.trail, false)
		return
	}
	s.moveTrail(p.trail)
	if at := near(s.lead, p.lead); at <= s.lead+1<<20 {
		s.skipTo(at)
	}
}
