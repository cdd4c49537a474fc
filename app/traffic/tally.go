// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// maxStreams bounds the memory that senders can make a listener use: some 230 KiB each.
const maxStreams = 64

const (
	longest = int64(time.Minute) // latency in a histogram; longer ones count as this
	figures = 3                  // significant digits of a latency
)

// An origin identifies a stream.
type origin struct {
	from   netip.Addr
	lid    ib.LID
	qpn    ib.QPN
	to     netip.Addr
	stream uint32
}

// A tally is what a listener counts.
type tally struct {
	mu        sync.Mutex
	foreign   uint64
	badStamp  uint64
	untracked uint64 // of streams beyond maxStreams
	streams   map[origin]*stream
	anySource bool
	last      time.Time // arrival of the last test message
	all       latency

	lineAt       time.Time // of the last status line, and what had been received then
	lineReceived uint64
}

// A stream is what was received of one run of a sender.
type stream struct {
	stamp.Sequence
	received    uint64
	corrupted   uint64
	firstBad    uint64 // of Unique: corrupted when first received
	bytes       uint64
	first, last time.Time
	latency     latency
}

// A latency is of one-way latencies. The zero value has none.
type latency struct {
	times    *hdrhistogram.Histogram // of those that are not negative
	min, max time.Duration           // of all
	count    uint64                  // of all
	negative uint64
}

func (l *latency) record(d time.Duration) {
	if l.times == nil {
		l.times = hdrhistogram.New(1, longest, figures)
		l.min, l.max = d, d
	}
	l.min, l.max = min(l.min, d), max(l.max, d)
	l.count++
	if d < 0 {
		l.negative++
		return
	}
	_ = l.times.RecordValue(min(int64(d), longest)) // fails for longer ones only
}

// at returns a percentile; negative latencies count as the shortest.
func (l *latency) at(percent float64) time.Duration {
	if l.times == nil {
		return 0
	}
	rank := percent / 100 * float64(l.count)
	if rank < float64(l.negative) || l.negative == l.count {
		return l.min
	}
	among := (rank - float64(l.negative)) / float64(l.count-l.negative) * 100
	return min(max(time.Duration(l.times.ValueAtPercentile(among)), l.min), l.max)
}

func newTally() *tally { return &tally{streams: map[origin]*stream{}} }

// note counts a message.
func (t *tally) note(m *Message) {
	h, v := stamp.Read(m.Payload)
	if v.Stamped() && h.Number == callNumber {
		return // a call, for a sender
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v == stamp.Foreign || v == stamp.Short {
		t.foreign++
		return
	}
	t.last = m.At
	if v == stamp.BadStamp {
		t.badStamp++
		return
	}
	from := origin{m.From, m.lid, m.SrcQP, m.To, h.Stream}
	if t.anySource {
		from = origin{to: m.To, stream: h.Stream}
	}
	s := t.stream(from)
	if s == nil {
		t.untracked++
		return
	}
	s.add(m, h, v)
	if v == stamp.Whole {
		t.all.record(m.At.Sub(h.Sent()))
	}
}

// stream returns a stream, a new one if needed; nil: there are too many.
func (t *tally) stream(o origin) *stream {
	s := t.streams[o]
	if s == nil && len(t.streams) < maxStreams {
		s = &stream{}
		t.streams[o] = s
	}
	return s
}

func (s *stream) add(m *Message, h stamp.Stamp, v stamp.Verdict) {
	if s.received == 0 {
		s.first = m.At
	}
	s.last = m.At
	s.received++
	s.bytes += uint64(len(m.Payload))
	first := s.Note(h.Number)
	if v != stamp.Whole {
		s.corrupted++
		if first {
			s.firstBad++
		}
		return
	}
	s.latency.record(m.At.Sub(h.Sent()))
}

// progress returns how many different messages were received intact, and when the last message was.
func (t *tally) progress() (intact uint64, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.streams {
		intact += s.Unique - s.firstBad
	}
	return intact, t.last
}

// report returns the counts: their sum, those of each stream, and of messages that belong to none.
func (t *tally) report() (sum StreamReport, each []StreamReport, r Rest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var first, last time.Time
	each = []StreamReport{} // in JSON no null
	for o, s := range t.streams {
		x := s.report()
		x.Stream, x.From, x.QPN, x.To = fmt.Sprintf("0x%08x", o.stream), o.sender(), o.qpn.String(), text(o.to)
		each = append(each, x)
		sum.add(x)
		if first.IsZero() || s.first.Before(first) {
			first = s.first
		}
		if s.last.After(last) {
			last = s.last
		}
	}
	sum.Latency, sum.Rate = t.all.report(), rate(sum.Received, first, last)
	sum.Corrupted += t.badStamp
	sum.Received += t.badStamp
	slices.SortFunc(each, func(a, b StreamReport) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.To, b.To))
	})
	return sum, each, Rest{Foreign: t.foreign, BadStamp: t.badStamp, Untracked: t.untracked}
}

// sender returns the sender's address; on InfiniBand, where a message need not have one, its LID.
func (o origin) sender() string {
	if !o.from.IsValid() && o.lid != 0 {
		return "LID " + o.lid.String()
	}
	return text(o.from)
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
