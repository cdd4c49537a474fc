// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"sync"
	"time"

	"causeway/app/bridge"
	"causeway/app/condition"
	"causeway/dpdk"
	"causeway/lcore"
)

// A reading is all counters at one time, but for the groups'.
type reading struct {
	at      time.Time
	total   lcore.Counters
	workers []lcore.Counters
	port    dpdk.Stats
}

// A groupReading is the groups' counters at one time. Groups are many, so only two readings are kept.
type groupReading struct {
	at time.Time
	of map[bridge.GroupPlace]lcore.GroupCounters
}

const (
	sampleEvery = time.Second
	// samplesKept gives an average over ten seconds: one reading more than intervals.
	samplesKept = 11
	// pointsKept gives ten minutes.
	pointsKept = 600
)

// A Point is the rates between two readings, the later one at At.
type Point struct {
	At    time.Time
	Rates [2]Rates // by direction
}

// A CounterSource has the counters that rates are computed from.
type CounterSource interface {
	Counters() lcore.Counters
	Workers() []lcore.Counters
	Ethernet() (s dpdk.Stats, up bool)
	Groups() map[bridge.GroupPlace]lcore.GroupCounters
}

// A Sampler reads the counters once a second, so that rates are known at any time, also those of the last ten minutes.
// Console and web page share one.
type Sampler struct {
	source CounterSource

	mu     sync.Mutex
	ring   []reading       // oldest first, samplesKept at most
	groups [2]groupReading // the last two
	points []Point         // oldest first, pointsKept at most
}

// NewSampler returns a sampler with a first reading.
func NewSampler(from CounterSource) *Sampler {
	s := &Sampler{source: from}
	s.sample(time.Now())
	return s
}

// Run samples until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sample(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

func (s *Sampler) sample(now time.Time) {
	port, _ := s.source.Ethernet()
	r := reading{now, s.source.Counters(), s.source.Workers(), port}
	g := groupReading{now, s.source.Groups()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.ring); n > 0 {
		s.addPoint(&s.ring[n-1], &r)
	}
	s.ring = append(s.ring, r)
	if len(s.ring) > samplesKept {
		s.ring = append(s.ring[:0], s.ring[1:]...)
	}
	s.groups[0], s.groups[1] = s.groups[1], g
}

func (s *Sampler) addPoint(from, to *reading) {
	p := Point{At: to.at}
	for d := range p.Rates {
		p.Rates[d] = rateOf(from, to, d)
	}
	s.points = append(s.points, p)
	if len(s.points) > pointsKept {
		s.points = append(s.points[:0], s.points[1:]...)
	}
}

// History returns the rates of the last ten minutes, a point a second, the oldest first.
func (s *Sampler) History() []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.points)
}

// span returns the last reading and the one that is about back older. Both are the same when there is only one.
func (s *Sampler) span(back time.Duration) (from, to reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to = s.ring[len(s.ring)-1]
	from = to
	for i := len(s.ring) - 2; i >= 0; i-- {
		from = s.ring[i]
		if to.at.Sub(from.at) >= back-sampleEvery/2 {
			break
		}
	}
	return from, to
}

// Dropping returns in which directions most of what came in the last ten seconds was dropped, and why, one a line.
func (s *Sampler) Dropping() []string {
	from, to := s.span((samplesKept - 1) * sampleEvery)
	return condition.Dropping(&from.total, &to.total)
}

// groupRates returns each group's rates over the last second.
func (s *Sampler) groupRates() map[bridge.GroupPlace]groupRate {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to := s.groups[0], s.groups[1]
	out := make(map[bridge.GroupPlace]groupRate, len(to.of))
	seconds := to.at.Sub(from.at).Seconds()
	for at, now := range to.of {
		r := groupRate{}
		if was, known := from.of[at]; known && seconds > 0 {
			for d := range now.Packets {
				r.packets[d] = perSecond(now.Packets[d], was.Packets[d], seconds)
				r.bits[d] = 8 * perSecond(now.Bytes[d], was.Bytes[d], seconds)
			}
		}
		out[at] = r
	}
	return out
}

// A groupRate is the rate of one group, by direction.
type groupRate struct{ packets, bits [2]Rate }

// perSecond returns a rate; 0 for a counter that has been reset meanwhile.
func perSecond(now, was uint64, seconds float64) Rate {
	if now < was || seconds <= 0 {
		return 0
	}
	return Rate(float64(now-was) / seconds)
}
