// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"causeway/perf/trial"
)

// simulated is a device with a capacity and a buffer, on a machine with noise, and a generator with a maximum rate.
// Trials take no time.
type simulated struct {
	capacity  float64 // packets a second, all directions together
	buffer    float64 // packets
	generator float64 // packets a second in each direction; 0: any
	noise     float64 // probability that a trial loses 1 %, not through the device
	seen      bool    // noise is reported as a stall
	corrupt   float64 // probability of a trial with a corrupted message
	fail      error
	rng       *rand.Rand
	trials    int
	groups    int // joined
	most      int // groups that it forwards
	share     float64
	join      time.Duration
}

func newSimulated(capacity float64) *simulated {
	return &simulated{capacity: capacity, buffer: 1000, rng: rand.New(rand.NewPCG(1, 2)), most: 1 << 20}
}

func (s *simulated) Run(ctx context.Context, l trial.Load) (trial.Outcome, error) {
	s.trials++
	if s.fail != nil || ctx.Err() != nil {
		return trial.Outcome{}, errors.Join(s.fail, ctx.Err())
	}
	offered, total := s.offer(&l)
	through := 1.0
	if n := total * l.Duration.Seconds(); total > s.capacity {
		through = min(1, (s.capacity*l.Duration.Seconds()+s.buffer)/n)
	}
	o := trial.Outcome{Elapsed: l.Duration}
	if s.rng.Float64() < s.noise {
		through *= 0.99
		if s.seen {
			o.Away = time.Second
		}
	}
	for d := range o.Counts {
		n := offered[d] * l.Duration.Seconds()
		o.Counts[d] = trial.Counts{Offered: uint64(math.Round(n)), Received: uint64(math.Round(n * through))}
		o.Counts[d].Bytes = 64 * o.Counts[d].Received
		o.Latency[d] = hdrhistogram.New(1, 1e9, 3)
		for i := range min(o.Counts[d].Received, 1000) {
			_ = o.Latency[d].RecordValue(int64(100 + i)) // it is within its range
		}
	}
	if s.rng.Float64() < s.corrupt {
		o.Counts[0].Corrupted = 1
	}
	return o, nil
}

// offer is what the generator sends of a load; for a load in packets it sets the duration.
func (s *simulated) offer(l *trial.Load) (offered [trial.Directions]float64, total float64) {
	for d, pps := range l.PPS {
		if pps > 0 && s.generator > 0 {
			pps = min(pps, s.generator)
		}
		if math.IsInf(pps, 1) {
			pps = 50 * s.capacity
		}
		offered[d] = pps
		total += pps
		if l.Packets > 0 && pps > 0 {
			l.Duration = time.Duration(float64(l.Packets) / pps * 1e9)
		}
	}
	return offered, total
}

func (s *simulated) SetGroups(n int) error { return s.SetShare(n, 1) }

func (s *simulated) SetShare(n int, share float64) error {
	s.groups, s.share = n, share
	return nil
}

func (s *simulated) Missing() int { return max(0, s.groups-s.most) }

func (s *simulated) Join(context.Context, trial.Load, int) (time.Duration, error) {
	s.join += time.Microsecond
	return s.join, nil
}

func (s *simulated) Leave(context.Context, trial.Load, int) (time.Duration, error) {
	return 5 * time.Microsecond, nil
}
