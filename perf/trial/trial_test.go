// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"causeway/perf/trial"
)

var (
	one  = []trial.Direction{trial.RoCEToIB}
	both = []trial.Direction{trial.RoCEToIB, trial.IBToRoCE}
)

func search() trial.Search {
	return trial.Search{Directions: one, Trial: time.Second, Resolution: 0.005, Retries: 2, Confirm: 2, Shortfall: 0.01}
}

// near reports whether got is within a part of want.
func near(got, want, part float64) bool { return math.Abs(got-want) <= want*part }

func TestThroughput(t *testing.T) {
	for _, x := range []struct {
		name    string
		change  func(d *simulated, s *trial.Search)
		allowed float64
		want    float64 // of each direction
		limit   string
	}{
		{"no loss", func(*simulated, *trial.Search) {}, 0, 1e6, trial.ByDevice},
		{"a thousandth", func(*simulated, *trial.Search) {}, 0.001, 1.001e6, trial.ByDevice},
		{"a tenth", func(*simulated, *trial.Search) {}, 0.1, 1e6 / 0.9, trial.ByDevice},
		{"both ways", func(_ *simulated, s *trial.Search) { s.Directions = both }, 0, 5e5, trial.ByDevice},
		{"maximum", func(_ *simulated, s *trial.Search) { s.MaxPPS = 3e5 }, 0, 3e5, trial.ByMaximum},
		{"weak generator", func(d *simulated, _ *trial.Search) { d.generator = 4e5 }, 0, 4e5 / 0.99, trial.ByGenerator},
		{"weak generator, asked for more", func(d *simulated, s *trial.Search) { d.generator, s.MaxPPS = 4e5, 8e5 }, 0, 4e5 / 0.99, trial.ByGenerator},
		{"noise", func(d *simulated, _ *trial.Search) { d.noise = 0.2 }, 0, 1e6, trial.ByDevice},
		{"tiny", func(d *simulated, _ *trial.Search) { d.capacity, d.buffer = 400, 0 }, 0, 400, trial.ByDevice},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, s := newSimulated(1e6), search()
			x.change(d, &s)
			steps := 0
			got, err := s.Find(t.Context(), d, "test", x.allowed, 0, func(string, trial.Step) { steps++ })
			if err != nil {
				t.Fatal(err)
			}
			if !near(got.PPS, x.want, 0.02) || got.Limit != x.limit || !near(got.TotalPPS, got.PPS*float64(len(s.Directions)), 1e-9) {
				t.Errorf("got %.0f pps, %.0f in all, limited by the %s, after %d trials; want %.0f, %s", got.PPS, got.TotalPPS, got.Limit, len(got.Steps), x.want, x.limit)
			}
			if steps != len(got.Steps) || steps != d.trials || steps > 60 {
				t.Errorf("%d trials, %d observed, %d in the result", d.trials, steps, len(got.Steps))
			}
		})
	}
}

// A rate that is known to pass is the least result, even if a flood shows less.
func TestKnown(t *testing.T) {
	got, err := search().Find(t.Context(), newSimulated(1e6), "test", 0, 2e6, nil)
	if err != nil || got.PPS != 2e6 {
		t.Errorf("found %.0f pps, %v; 2 Mpps passed before", got.PPS, err)
	}
}

// Without retries, noise affects the result.
func TestNoiseWithoutRetries(t *testing.T) {
	d, s := newSimulated(1e6), search()
	d.noise, s.Retries, s.Confirm = 0.5, 0, 3
	got, err := s.Find(t.Context(), d, "test", 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if near(got.PPS, 1e6, 0.02) {
		t.Errorf("found %.0f pps though every second trial fails", got.PPS)
	}
}

// A device that corrupts has no throughput, and the result says why.
func TestFaultsFail(t *testing.T) {
	d, s := newSimulated(1e6), search()
	d.corrupt = 1
	got, err := s.Find(t.Context(), d, "test", 0.5, 0, nil)
	if err != nil || got.PPS != 0 || got.Faults != "roce_to_ib: 1 messages corrupted" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, step := range got.Steps[1:] {
		if step.Verdict != trial.Faulty {
			t.Fatalf("a trial with a corrupted message: %q", step.Verdict)
		}
	}
}

func TestErrorsEnd(t *testing.T) {
	d := newSimulated(1e6)
	d.fail = errors.New("unplugged")
	if _, err := search().Find(t.Context(), d, "test", 0, 0, nil); !errors.Is(err, d.fail) || d.trials != 1 {
		t.Errorf("%v after %d trials", err, d.trials)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := search().Find(ctx, newSimulated(1e6), "test", 0, 0, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Disturbed slices do not count; slices in which the device loses messages do.
func TestSliced(t *testing.T) {
	d := newSimulated(1e6)
	d.noise, d.seen = 0.6, true
	s := trial.Sliced{Device: d, Slice: 10 * time.Millisecond, Stall: time.Millisecond}
	o, err := s.Run(t.Context(), trial.At(one, 9e5, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if o.LossRatio() != 0 || o.Elapsed != time.Second || o.Counts[0].Offered != 9e5 || o.Discarded < time.Second || o.Away != 0 {
		t.Errorf("loss %v, elapsed %v, %+v, discarded %v", o.LossRatio(), o.Elapsed, o.Counts[0], o.Discarded)
	}
	d.noise, d.buffer = 0, 0
	if o, err = s.Run(t.Context(), trial.At(one, 2e6, time.Second)); err != nil || !near(o.LossRatio(), 0.5, 0.01) {
		t.Errorf("overload: loss %v, %v", o.LossRatio(), err)
	}
	d.noise = 1
	if o, err = s.Run(t.Context(), trial.At(one, 9e5, time.Second)); err != nil || o.Disturbed == 0 || o.Counts[0].Offered == 0 {
		t.Errorf("nothing but noise: %+v, %v; it must say that it was disturbed", o, err)
	}
	// The search then reports that the machine was the limit.
	found, err := search().Find(t.Context(), s, "test", 0, 0, nil)
	if err != nil || found.PPS > 1e4 || found.Limit != trial.ByMachine {
		t.Errorf("found %v by %v, %v", found.PPS, found.Limit, err)
	}
	// A fault counts, disturbed or not.
	d.corrupt = 1
	if o, err = s.Run(t.Context(), trial.At(one, 9e5, time.Second)); err != nil || o.Counts[0].Corrupted == 0 {
		t.Errorf("a corrupted message was discarded: %+v, %v", o, err)
	}
}

func TestLatency(t *testing.T) {
	lat, steps, err := trial.LatencyAt(t.Context(), newSimulated(1e6), both, 2e5, []float64{0.1, 0.5}, time.Second, nil)
	if err != nil || len(lat) != 4 || len(steps) != 2 {
		t.Fatalf("%d figures of %d trials, %v", len(lat), len(steps), err)
	}
	l := lat[2]
	if l.Direction != "roce_to_ib" || l.Part != 0.5 || !near(l.PPS, 1e5, 0.001) || l.Samples != 1000 || l.Min != 100 || l.Max < 1099 {
		t.Errorf("%+v", l)
	}
	// 1000 samples: p99.9 has one above it, p99.99 none.
	if n := len(l.Percentile); l.Percentile[n-1] != 99.9 || !near(float64(l.At[0]), 600, 0.01) || !near(float64(l.At[n-1]), 1098, 0.01) {
		t.Errorf("percentiles %v at %v", l.Percentile, l.At)
	}
}

func TestLossCurve(t *testing.T) {
	d := newSimulated(7.5e5)
	d.buffer = 0
	steps, err := trial.LossCurve(t.Context(), d, one, 1e6, time.Second, nil)
	if err != nil || len(steps) != 5 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	for i, want := range []float64{0.25, 1 - 7.5/9, 1 - 7.5/8, 0, 0} {
		if math.Abs(steps[i].Loss-want) > 1e-3 {
			t.Errorf("step %d at %.0f pps lost %v, want %v", i, steps[i].PPS, steps[i].Loss, want)
		}
	}
}

func TestBurst(t *testing.T) {
	d := newSimulated(1e6)
	d.generator = 2e6 // the buffer fills at 1e6 a second: 2000 packets fit
	b, err := trial.FindBurst(t.Context(), d, one, 1<<20, 3, 1e6, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Packets) != 3 || !near(b.Mean, 2000, 0.01) || b.Deviation != 0 || !near(b.RatePPS, 2e6, 0.01) || !near(b.BufferSeconds, 1000/2e6, 0.02) {
		t.Errorf("%+v", b)
	}
	d.generator = 5e5
	if b, err = trial.FindBurst(t.Context(), d, one, 5000, 1, 0, nil); err != nil || b.Min != 5000 || b.BufferSeconds != 0 {
		t.Errorf("a device faster than its generator: %+v, %v", b, err)
	}
}

func TestSoak(t *testing.T) {
	d := newSimulated(1e6)
	s, err := trial.RunSoak(t.Context(), d, both, 1e5, 10500*time.Millisecond, time.Second, nil)
	if err != nil || len(s.Pieces) != 11 || !near(s.Seconds, 10.5, 1e-6) || s.Counts["ib_to_roce"].Offered != 1.05e6 || s.Latency[1].Samples != 11000 {
		t.Errorf("%+v, %v", s, err)
	}
	d.corrupt = 1
	if s, err = trial.RunSoak(t.Context(), d, both, 1e5, time.Minute, time.Second, nil); err != nil || len(s.Pieces) != 1 || s.Faults == "" {
		t.Errorf("a fault does not end it: %d pieces, %q, %v", len(s.Pieces), s.Faults, err)
	}
}

func TestMulticast(t *testing.T) {
	d := newSimulated(1e6)
	d.most = 300
	plan := trial.MulticastPlan{MaxGroups: 1000, Shares: []float64{0, 0.5, 1}, Repetitions: 4, Search: search(), LatencyPart: 0.5}
	m, err := plan.Run(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Capacity.Groups < 294 || m.Capacity.Groups > 300 || !near(m.Capacity.PPS, 1e5, 0.02) {
		t.Errorf("capacity %+v", m.Capacity)
	}
	if len(m.Mixed) != 3 || !near(m.Mixed[1].Throughput.PPS, 1e6, 0.02) || m.Mixed[1].Share != 0.5 {
		t.Errorf("mixed %+v", m.Mixed)
	}
	want := trial.Delays{N: 4, Min: time.Microsecond, Avg: 2500, Max: 4 * time.Microsecond}
	if m.Join != want || m.Leave.Max != 5*time.Microsecond || len(m.Latency) != 1 {
		t.Errorf("join %+v, leave %+v, %d latencies", m.Join, m.Leave, len(m.Latency))
	}
	d.most = 5000
	if m, err = plan.Run(t.Context(), d, nil); err != nil || m.Capacity.Groups != 1000 {
		t.Errorf("more than was asked for: %+v, %v", m.Capacity, err)
	}
}
