// SPDX-License-Identifier: Apache-2.0

package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"causeway/perf/harness"
	"causeway/perf/profile"
	"causeway/perf/report"
	"causeway/perf/trial"
)

// fakeBuilder makes devices that forward a million packets a second, and counts them.
type fakeBuilder struct {
	built, closed int
	groups        int
	fail          error
	broken        bool
}

type fakeDevice struct{ broken bool }

func (f fakeDevice) Run(_ context.Context, l trial.Load) (trial.Outcome, error) {
	o := trial.Outcome{Elapsed: max(l.Duration, time.Millisecond)}
	for d, pps := range l.PPS {
		offered := min(pps, 1e8) * o.Elapsed.Seconds()
		if l.Packets > 0 && pps > 0 {
			offered = float64(l.Packets)
		}
		o.Counts[d] = trial.Counts{Offered: uint64(offered), Received: uint64(min(offered, 1e6*o.Elapsed.Seconds()))}
		if f.broken {
			o.Counts[d].Received /= 2
		}
		o.Latency[d] = hdrhistogram.New(1, 1e9, 3)
		_ = o.Latency[d].RecordValues(1000, int64(o.Counts[d].Received)) // it is within its range
	}
	return o, nil
}
func (fakeDevice) SetGroups(int) error         { return nil }
func (fakeDevice) SetShare(int, float64) error { return nil }
func (fakeDevice) Missing() int                { return 0 }
func (fakeDevice) Join(context.Context, trial.Load, int) (time.Duration, error) {
	return time.Microsecond, nil
}
func (fakeDevice) Leave(context.Context, trial.Load, int) (time.Duration, error) {
	return time.Microsecond, nil
}

func (b *fakeBuilder) Build(_ profile.Case, groups int) (harness.Built, error) {
	b.built++
	b.groups = groups
	return harness.Built{Groups: fakeDevice{b.broken}, Close: func() error { b.closed++; return b.fail }}, nil
}

func (b *fakeBuilder) Ceiling(_ context.Context, p profile.Payload, _ time.Duration) (report.Ceiling, error) {
	return report.Ceiling{Payload: p.Name, PPS: 2e7}, nil
}

type silent struct{ tests []string }

func (*silent) Case(int, int, string)    {}
func (s *silent) Test(name string)       { s.tests = append(s.tests, name) }
func (*silent) Trial(string, trial.Step) {}
func (*silent) Done(float64)             {}

func load(t *testing.T, text string) *profile.Profile {
	t.Helper()
	p, err := profile.Parse("test.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRun(t *testing.T) {
	p := load(t, `tests = ["multicast", "soak", "burst", "loss", "latency", "throughput"]
directions = ["roce_to_ib", "both"]
[soak]
duration = "3s"
[device]
slice = "10ms"
`)
	b, w := &fakeBuilder{}, &silent{}
	r, err := harness.Run(t.Context(), p, b, w)
	if err != nil {
		t.Fatal(err)
	}
	if b.built != 2 || b.closed != 2 || b.groups != 1024 || len(r.Cases) != 2 || len(r.Ceiling) != 1 {
		t.Errorf("built %d, closed %d, %d groups, %d cases", b.built, b.closed, b.groups, len(r.Cases))
	}
	if got := strings.Join(w.tests[:6], " "); got != strings.Join(profile.AllTests, " ") {
		t.Errorf("ran %s", got)
	}
	c := r.Cases[1]
	if c.NDR == nil || c.NDR.TotalPPS < 1.97e6 || c.NDR.TotalPPS > 2e6 || len(c.Latency) != 6 || c.Loss == nil || c.Burst == nil || c.Multicast == nil ||
		len(c.Soak.Pieces) != 3 {
		t.Errorf("%+v", c)
	}
}

// What was measured before an error is kept, and the device is taken down.
func TestErrors(t *testing.T) {
	b := &fakeBuilder{fail: errors.New("3 mbufs are in use")}
	r, err := harness.Run(t.Context(), load(t, `payloads = [64, 128]`), b, &silent{})
	if !errors.Is(err, b.fail) || len(r.Cases) != 1 || r.Cases[0].PDR == nil || b.closed != 1 {
		t.Errorf("%v, %d cases, closed %d", err, len(r.Cases), b.closed)
	}
	if !strings.Contains(err.Error(), "roce_to_ib IPv4 64 B") {
		t.Errorf("%v does not say which case", err)
	}
}

// Latency without throughput finds its reference rate itself.
func TestLatencyAlone(t *testing.T) {
	r, err := harness.Run(t.Context(), load(t, `tests = ["latency"]`), &fakeBuilder{}, &silent{})
	if err != nil || r.Cases[0].NDR != nil || r.Cases[0].PDR.PPS < 9e5 || len(r.Cases[0].Latency) != 3 {
		t.Errorf("%+v, %v", r.Cases, err)
	}
}

// A device without a throughput does not end the run: tests that need one are left out, and the case has a note.
func TestNoRate(t *testing.T) {
	r, err := harness.Run(t.Context(), load(t, `tests = ["throughput", "latency", "loss", "burst"]`), &fakeBuilder{broken: true}, &silent{})
	if err != nil || len(r.Cases) != 2 || r.Cases[1].Problem == "" || r.Cases[1].Latency != nil || r.Cases[1].Burst == nil {
		t.Errorf("%+v, %v", r.Cases, err)
	}
}
