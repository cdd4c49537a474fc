// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
)

// A reading is all counters at one time.
type reading struct {
	at      time.Time
	total   lcore.Counters
	workers []lcore.Counters
	port    dpdk.Stats
}

// A groupReading is the groups' counters at one time. They are many, so fewer readings of them are kept.
type groupReading struct {
	at time.Time
	of map[netip.Addr]lcore.GroupCounters
}

const (
	sampleEvery = time.Second
	// samplesKept is one more than the seconds that the longer average is over.
	samplesKept = 11
)

// A Sampler reads the counters once a second, so that rates are there when somebody asks.
type Sampler struct {
	bridge Bridge

	mu     sync.Mutex
	ring   []reading       // oldest first, samplesKept at most
	groups [2]groupReading // the last two
}

// NewSampler makes a sampler with a first reading.
func NewSampler(b Bridge) *Sampler {
	s := &Sampler{bridge: b}
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
	port, _ := s.bridge.Ethernet()
	r := reading{now, s.bridge.Counters(), s.bridge.Workers(), port}
	g := groupReading{now, s.bridge.Groups()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring = append(s.ring, r)
	if len(s.ring) > samplesKept {
		s.ring = append(s.ring[:0], s.ring[1:]...)
	}
	s.groups[0], s.groups[1] = s.groups[1], g
}

// span returns the last reading and the one before it by about so long; both the same: there is one only.
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

// groupRates returns what crossed of each group in the last second.
func (s *Sampler) groupRates() map[netip.Addr]groupRate {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to := s.groups[0], s.groups[1]
	out := make(map[netip.Addr]groupRate, len(to.of))
	seconds := to.at.Sub(from.at).Seconds()
	for ip, now := range to.of {
		r := groupRate{}
		if was, known := from.of[ip]; known && seconds > 0 {
			for d := range now.Packets {
				r.packets[d] = perSecond(now.Packets[d], was.Packets[d], seconds)
				r.bits[d] = 8 * perSecond(now.Bytes[d], was.Bytes[d], seconds)
			}
		}
		out[ip] = r
	}
	return out
}

// A groupRate is a group's, by direction.
type groupRate struct{ packets, bits [2]Rate }

// perSecond returns a rate; what went back has begun anew.
func perSecond(now, was uint64, seconds float64) Rate {
	if now < was || seconds <= 0 {
		return 0
	}
	return Rate(float64(now-was) / seconds)
}
