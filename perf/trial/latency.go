// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Percentiles are the percentiles of a report.
var Percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99, 99.999}

// Latency is the latency of one direction at one load, in nanoseconds.
type Latency struct {
	Direction  string    `json:"direction"`
	Part       float64   `json:"part"` // of the reference rate
	PPS        float64   `json:"pps"`  // offered
	Loss       float64   `json:"loss_ratio"`
	Samples    int64     `json:"samples"`
	Min        int64     `json:"min_ns"`
	Mean       float64   `json:"mean_ns"`
	Deviation  float64   `json:"stddev_ns"`
	Max        int64     `json:"max_ns"`
	Percentile []float64 `json:"percentiles"`
	At         []int64   `json:"at_ns"` // at those percentiles
	PerBurst   float64   `json:"messages_per_burst,omitempty"`
	Verdict    string    `json:"verdict,omitempty"`
}

// Valid reports whether it is a valid figure of the device at that load.
func (l Latency) Valid() bool { return Valid(l.Verdict) }

// LatencyAt measures latency at parts of a rate.
func LatencyAt(ctx context.Context, dev Device, directions []Direction, pps float64, parts []float64, d time.Duration, observe Observer) ([]Latency, []Step, error) {
	var out []Latency
	var steps []Step
	for _, part := range parts {
		l := At(directions, pps*part, d)
		o, err := runCalm(ctx, dev, l)
		if err != nil {
			return out, steps, err
		}
		s := stepOf(l, o, verdictOf(l, o))
		steps = append(steps, s)
		observe.notify("latency", s)
		for _, dir := range directions {
			x := summary(o.Latency[dir])
			x.Direction, x.Part, x.PPS, x.Loss = dir.String(), part, o.OfferedRate(dir), o.Counts[dir].LossRatio()
			x.PerBurst, x.Verdict = s.PerBurst, s.Verdict
			out = append(out, x)
		}
	}
	return out, steps, nil
}

// verdictOf is the verdict on a trial that may lose messages. If much less was offered than wanted, it is not a trial
// of that load.
func verdictOf(l Load, o Outcome) string {
	const least = 0.95
	if faults(o) != "" {
		return Faulty
	}
	for d, pps := range l.PPS {
		if l.Packets == 0 && !math.IsInf(pps, 1) && o.OfferedRate(Direction(d)) < least*pps {
			return unlessDisturbed(o, TooSlow)
		}
	}
	if o.LossRatio() > 0 {
		return unlessDisturbed(o, Informs)
	}
	return Informs
}

// runCalm runs a trial, and repeats it a few times if it lost messages while other programs used the CPUs.
func runCalm(ctx context.Context, dev Device, l Load) (o Outcome, err error) {
	for range 3 {
		if o, err = dev.Run(ctx, l); err != nil || verdictOf(l, o) != Disturbed {
			return o, err
		}
	}
	return o, nil
}

// summary reduces a histogram of nanoseconds to percentiles. Percentiles with less than one sample above them would be
// the maximum, and are left out.
func summary(h *hdrhistogram.Histogram) Latency {
	var x Latency
	if h == nil || h.TotalCount() == 0 {
		return x
	}
	x.Samples, x.Min, x.Mean, x.Deviation, x.Max = h.TotalCount(), h.Min(), h.Mean(), h.StdDev(), h.Max()
	for _, p := range Percentiles {
		if float64(x.Samples)*(100-p)/100 < 1-1e-9 {
			break
		}
		x.Percentile = append(x.Percentile, p)
		x.At = append(x.At, min(h.ValueAtQuantile(p), x.Max))
	}
	return x
}
