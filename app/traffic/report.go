// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"causeway/ibside/stamp"
)

// A StreamReport is what was received of one run of a sender, or of all.
type StreamReport struct {
	Stream string `json:"stream,omitempty"`
	From   string `json:"from,omitempty"` // the sender's address on this fabric
	QPN    string `json:"qpn,omitempty"`
	To     string `json:"to,omitempty"`

	Received   uint64 `json:"received"` // Unique + Duplicates + Old, and in the sum those with a damaged stamp
	Unique     uint64 `json:"unique"`   // different numbers
	Whole      uint64 `json:"whole"`    // of Unique: intact when first received
	Lost       uint64 `json:"lost"`     // numbers missing between the lowest and the highest received
	Before     uint64 `json:"before"`   // numbers below the lowest received
	Duplicates uint64 `json:"duplicates"`
	Reordered  uint64 `json:"reordered"`        // received after a higher number
	Extent     uint64 `json:"reordered_extent"` // numbers behind the highest, at most
	Old        uint64 `json:"old"`              // too far behind to tell whether they are duplicates or reordered
	Corrupted  uint64 `json:"corrupted"`
	Bytes      uint64 `json:"bytes"`

	Rate    float64       `json:"rate_pps"`
	Latency LatencyReport `json:"latency_us"`
}

// A LatencyReport is in microseconds.
type LatencyReport struct {
	Min      float64 `json:"min"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	P999     float64 `json:"p99_9"`
	Max      float64 `json:"max"`
	Negative uint64  `json:"negative"` // received before they were sent, by the clocks: they do not agree
}

// Rest counts the messages that belong to no stream.
type Rest struct {
	Foreign   uint64 `json:"foreign"`   // not test messages
	BadStamp  uint64 `json:"bad_stamp"` // they count as corrupted
	Untracked uint64 `json:"untracked"` // of streams beyond the 64th
}

func (s *stream) report() StreamReport {
	r := StreamReport{
		Received: s.received, Unique: s.Unique, Whole: s.Unique - s.firstBad, Lost: s.Lost(), Before: s.Before(), Duplicates: s.Duplicates,
		Reordered: s.Reordered, Extent: s.Extent, Old: s.Old, Corrupted: s.corrupted, Bytes: s.bytes, Latency: s.latency.report(),
	}
	r.Rate = rate(s.received, s.first, s.last)
	return r
}

// rate returns messages a second between the first and the last.
func rate(n uint64, first, last time.Time) float64 {
	if d := last.Sub(first).Seconds(); d > 0 {
		return float64(n-1) / d
	}
	return 0
}

func (r *StreamReport) add(x StreamReport) {
	r.Received += x.Received
	r.Unique += x.Unique
	r.Whole += x.Whole
	r.Lost += x.Lost
	r.Before += x.Before
	r.Duplicates += x.Duplicates
	r.Reordered += x.Reordered
	r.Extent = max(r.Extent, x.Extent)
	r.Old += x.Old
	r.Corrupted += x.Corrupted
	r.Bytes += x.Bytes
}

func (l *latency) report() LatencyReport {
	return LatencyReport{
		Min: micros(l.min), P50: micros(l.at(50)), P99: micros(l.at(99)), P999: micros(l.at(99.9)), Max: micros(l.max), Negative: l.negative,
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// shortly formats microseconds with three digits.
func shortly(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	step := 100 * time.Nanosecond
	for ; d.Abs() >= 1000*step; step *= 10 {
	}
	return d.Round(step).String()
}

// write writes the report as text.
func (r StreamReport) write(w io.Writer) {
	fmt.Fprintf(w, "  %d received, %.0f a second; %d lost, %d duplicates, %d corrupted, %d reordered%s\n", r.Received, r.Rate,
		r.Lost, r.Duplicates, r.Corrupted, r.Reordered, r.extent())
	if r.Before > 0 {
		fmt.Fprintf(w, "  %d numbers below the lowest received: sent before this listener started, or lost\n", r.Before)
	}
	if r.Old > 0 {
		fmt.Fprintf(w, "  %d were more than %d numbers behind: duplicates or reordered, which cannot be told\n", r.Old, stamp.Window)
	}
	if r.Unique > 0 {
		l := r.Latency
		fmt.Fprintf(w, "  one-way latency: min %s, median %s, 99%% %s, 99.9%% %s, max %s\n", shortly(l.Min), shortly(l.P50), shortly(l.P99),
			shortly(l.P999), shortly(l.Max))
	}
	if n := r.Latency.Negative; n > 0 {
		fmt.Fprintf(w, "  %d of these are negative: the two machines' clocks do not agree, and the others are off as much\n", n)
	}
}

func (r StreamReport) extent() string {
	if r.Reordered == 0 {
		return ""
	}
	return fmt.Sprintf(" (by up to %d)", r.Extent)
}

// reasons formats counts by name, in one line.
func reasons(counts map[string]uint64) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > 0 {
			words = append(words, fmt.Sprintf("%s %d", k, counts[k]))
		}
	}
	return strings.Join(words, ", ")
}
