// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"causeway/ibside/ib"
)

// maxStreams bounds what senders can make a listener remember: some 230 KiB each.
const maxStreams = 64

const (
	longest = int64(time.Minute) // latency that a histogram holds; longer ones count as that
	figures = 3                  // significant, of a latency
)

// origin tells streams apart.
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
	headless  uint64
	untracked uint64 // of streams beyond maxStreams
	streams   map[origin]*stream
	last      time.Time // when the last message of ours came
	all       latency

	lineAt   time.Time // of the last live line, and what had come then
	lineCame uint64
}

// A stream is what came of one sender's run.
type stream struct {
	sequence
	received    uint64
	corrupted   uint64
	spoilt      uint64 // of unique: corrupted when they first came
	bytes       uint64
	first, last time.Time
	latency     latency
}

// A latency is how long messages took one way. The zero value has none.
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
	_ = l.times.RecordValue(min(int64(d), longest)) // it fails for longer ones only
}

// at returns a percentile; the negative ones count, as the shortest.
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

// note accounts for a message.
func (t *tally) note(m *Message) {
	h, state := read(m.Payload)
	if state >= corrupted && h.Number == callNumber {
		return // a call, which came to a listener
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if state == foreign {
		t.foreign++
		return
	}
	t.last = m.At
	if state == headless {
		t.headless++
		return
	}
	s := t.stream(origin{m.From, m.lid, m.SrcQP, m.To, h.Stream})
	if s == nil {
		t.untracked++
		return
	}
	s.take(m, h, state)
	if state == whole {
		t.all.record(m.At.Sub(h.Sent))
	}
}

// stream returns a stream, a new one if need be; nil: there are too many.
func (t *tally) stream(o origin) *stream {
	s := t.streams[o]
	if s == nil && len(t.streams) < maxStreams {
		s = &stream{}
		t.streams[o] = s
	}
	return s
}

func (s *stream) take(m *Message, h Head, state condition) {
	if s.received == 0 {
		s.first = m.At
	}
	s.last = m.At
	s.received++
	s.bytes += uint64(len(m.Payload))
	first := s.note(h.Number)
	if state == corrupted {
		s.corrupted++
		if first {
			s.spoilt++
		}
		return
	}
	s.latency.record(m.At.Sub(h.Sent))
}

// came is how many different messages came whole, and when the last did.
func (t *tally) came() (whole uint64, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.streams {
		whole += s.unique - s.spoilt
	}
	return whole, t.last
}

// report puts in words what was counted.
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
	sum.Corrupted += t.headless
	sum.Received += t.headless
	slices.SortFunc(each, func(a, b StreamReport) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.To, b.To))
	})
	return sum, each, Rest{Foreign: t.foreign, Headless: t.headless, Untracked: t.untracked}
}

// sender names the sender by its address; on InfiniBand, where a message need not have one, by its LID.
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
