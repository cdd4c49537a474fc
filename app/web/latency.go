// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"iter"
	"strconv"
	"time"

	"causeway/lcore"
)

// bounds are the upper bounds of the histogram's buckets: few, and the same in every scrape, as Prometheus requires.
var bounds = []time.Duration{
	100, 250, 500,
	1 * time.Microsecond, 2500, 5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
}

// fold sums a fine histogram's buckets, each with its upper bound, into the coarse buckets. The last count is above all
// bounds. A fine bucket that spans a bound counts above it, so that no time is reported too short.
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

// latency adds one direction's histogram. The count is the sum of the buckets, so that both are of one reading.
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

// addLatency adds up the histograms of all workers, by direction.
func addLatency(workers [][2]lcore.Latency) (total [2]lcore.Latency) {
	for _, worker := range workers {
		for d := range worker {
			total[d].Add(&worker[d])
		}
	}
	return total
}

func (s *scrape) latencies(src Source) {
	for d, l := range addLatency(src.Latency()) {
		direction := lcore.Direction(d).String()
		s.latency(direction, l.Buckets(), l.Sum())
		s.sample("causeway_latency_max_seconds", "", strconv.FormatFloat(l.Max().Seconds(), 'g', -1, 64), []string{"direction", direction})
	}
}
