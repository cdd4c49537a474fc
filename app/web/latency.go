// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"iter"
	"strconv"
	"time"

	"causeway/lcore"
)

// bounds are the histogram's upper bounds, as Prometheus wants them: few, and at the same places in every scrape.
var bounds = []time.Duration{
	100, 250, 500,
	1 * time.Microsecond, 2500, 5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
}

// fold puts a fine histogram's buckets, each an upper bound and what is in it, into the coarse ones. The last count is of
// what lies above every bound. A fine bucket that reaches over a bound counts above it: times are never told shorter.
func fold(fine iter.Seq2[time.Duration, uint64]) (counts []uint64) {
	counts = make([]uint64, len(bounds)+1)
	for upTo, n := range fine {
		i := 0
		for i < len(bounds) && bounds[i] < upTo {
			i++
		}
		counts[i] += n
	}
	return counts
}

// latency adds one direction's histogram. The count is what the buckets hold, so that both are of one reading.
func (s *scrape) latency(direction string, fine iter.Seq2[time.Duration, uint64], sum time.Duration) {
	const name = "causeway_latency_seconds"
	counts, total := fold(fine), uint64(0)
	for i, n := range counts {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		s.sample(name, "_bucket", fmt.Sprint(total), []string{"direction", direction, "le", le})
	}
	s.sample(name, "_sum", strconv.FormatFloat(sum.Seconds(), 'g', -1, 64), []string{"direction", direction})
	s.sample(name, "_count", fmt.Sprint(total), []string{"direction", direction})
}

// addLatency returns the histograms of all workers together, by direction.
func addLatency(b Bridge) (total [2]lcore.Latency) {
	for _, worker := range b.Latency() {
		for d := range worker {
			total[d].Add(&worker[d])
		}
	}
	return total
}

func (s *scrape) latencies(b Bridge) {
	for d, l := range addLatency(b) {
		direction := lcore.Direction(d).String()
		s.latency(direction, l.Buckets(), l.Sum())
		s.sample("causeway_latency_max_seconds", "", strconv.FormatFloat(l.Max().Seconds(), 'g', -1, 64), []string{"direction", direction})
	}
}
