// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "probe/latency.h"
import "C"

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// LatencyEvery is how many bursts there are for each one that a worker times.
const LatencyEvery = C.LATENCY_EVERY

// Latency is a histogram of the time that packets spend in the bridge: from the reception of their burst until it is
// given to the other port. It is log-linear: a time that it returns is at most 1/32 too long. The zero value is empty.
//
// The wait of packets for a proxy QP or for another worker is included. Packets that injection delays count from their
// release.
type Latency struct {
	hz      uint64 // cycles in a second; 0: nothing was added yet
	sum     uint64 // cycles
	max     uint64 // cycles: no packet took longer
	buckets []uint64
}

// Count returns how many packets were timed.
func (l *Latency) Count() uint64 {
	var n uint64
	for _, c := range l.buckets {
		n += c
	}
	return n
}

// Sum returns the time of all of them together.
func (l *Latency) Sum() time.Duration { return l.time(l.sum) }

// Max returns the longest time.
func (l *Latency) Max() time.Duration { return l.Quantile(1) }

// Quantile returns the time that a share q of the packets did not exceed; 0 when there are none.
func (l *Latency) Quantile(q float64) time.Duration {
	all := l.Count()
	if all == 0 || math.IsNaN(q) {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(all)))
	rank = min(max(rank, 1), all)
	for i, n := range l.buckets {
		if n >= rank {
			return l.time(l.bound(i))
		}
		rank -= n
	}
	return 0
}

// Buckets returns the buckets that have packets, from the shortest time up: the longest time of each, and the number of
// packets.
func (l *Latency) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range l.buckets {
			if n != 0 && !yield(l.time(l.bound(i)), n) {
				return
			}
		}
	}
}

// Add adds another histogram of the same machine.
func (l *Latency) Add(o *Latency) {
	if o.hz == 0 {
		return
	}
	if l.hz == 0 {
		l.hz, l.buckets = o.hz, make([]uint64, C.LATENCY_BUCKETS)
	}
	l.sum += o.sum
	l.max = max(l.max, o.max)
	for i, n := range o.buckets {
		l.buckets[i] += n
	}
}

// Record adds n packets that took so long, at most an hour: for a histogram that no worker makes.
func (l *Latency) Record(d time.Duration, n uint64) {
	if l.hz == 0 {
		l.hz, l.buckets = uint64(time.Second), make([]uint64, C.LATENCY_BUCKETS)
	}
	hi, lo := bits.Mul64(uint64(min(max(d, 0), time.Hour)), l.hz)
	cycles, _ := bits.Div64(hi, lo, uint64(time.Second))
	l.buckets[C.latency_bucket(C.uint64_t(cycles))] += n
	l.sum += cycles * n
	l.max = max(l.max, cycles)
}

// minus returns the difference to before, an earlier reading of the same histogram.
func (l *Latency) minus(before *Latency) Latency {
	out := Latency{hz: l.hz, sum: l.sum - before.sum, max: l.max, buckets: slices.Clone(l.buckets)}
	for i, n := range before.buckets {
		out.buckets[i] -= n
	}
	return out
}

// bound returns the most cycles that bucket i has; no more than the longest time ever.
func (l *Latency) bound(i int) uint64 {
	const sub = 1 << C.LATENCY_SUB_BITS
	if i == C.LATENCY_BUCKETS-1 {
		return l.max
	}
	if i < 2*sub {
		return min(uint64(i), l.max)
	}
	shift := i/sub - 1
	return min(uint64(i%sub+sub+1)<<shift-1, l.max)
}

func (l *Latency) time(cycles uint64) time.Duration {
	if l.hz == 0 {
		return 0
	}
	return time.Duration(math.Round(float64(cycles) / float64(l.hz) * float64(time.Second)))
}

// cleared are the readings that are subtracted: workers' histograms only grow.
type cleared struct {
	mu     sync.Mutex
	before [][2]Latency // by worker; fewer than there are, when they were not cleared yet
}

// Latency returns the worker's histograms, by direction, since it was made. Any thread may call it at any time.
func (w *Worker) Latency() (out [2]Latency) {
	hz := TSCHz()
	for d := range out {
		c := &w.c.latency[d]
		out[d] = Latency{hz: hz, buckets: make([]uint64, C.LATENCY_BUCKETS)}
		out[d].sum = uint64(c.sum)
		for i := range out[d].buckets {
			out[d].buckets[i] = uint64(c.bucket[i])
		}
		out[d].max = uint64(c.max)
	}
	return out
}

// Latency returns the workers' histograms, by worker and direction, since they were cleared.
func (dp *Datapath) Latency() [][2]Latency {
	dp.latency.mu.Lock()
	defer dp.latency.mu.Unlock()
	out := make([][2]Latency, len(dp.workers))
	for i, w := range dp.workers {
		out[i] = w.Latency()
		if i >= len(dp.latency.before) {
			continue
		}
		for d := range out[i] {
			out[i][d] = out[i][d].minus(&dp.latency.before[i][d])
		}
	}
	return out
}

// ClearLatency makes Latency count from now. It does not touch the workers.
func (dp *Datapath) ClearLatency() {
	dp.latency.mu.Lock()
	defer dp.latency.mu.Unlock()
	dp.latency.before = nil
	for _, w := range dp.workers {
		dp.latency.before = append(dp.latency.before, w.Latency())
	}
}
