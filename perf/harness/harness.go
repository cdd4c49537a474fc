// SPDX-License-Identifier: Apache-2.0

// Package harness runs a profile: for each case it has the device under test built, measures it, and fills a report.
package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/perf/profile"
	"causeway/perf/report"
	"causeway/perf/trial"
)

// Built is a device for one case.
type Built struct {
	trial.Groups
	Close func() error
}

// Builder builds devices under test. Tests have one with simulated devices.
type Builder interface {
	// Build builds the device for a case, with room for that many multicast groups.
	Build(c profile.Case, groups int) (Built, error)
	// Ceiling measures the generator by itself.
	Ceiling(ctx context.Context, payload profile.Payload, trial time.Duration) (report.Ceiling, error)
}

// Progress shows the progress of a run. Its methods are called from one goroutine.
type Progress interface {
	// Case is called when a case begins: the i-th of n.
	Case(i, n int, name string)
	// Test is called when a test of the case begins.
	Test(name string)
	// Trial is called after each trial.
	Trial(what string, s trial.Step)
	// Done is called with how much of a trial is done, 0 to 1.
	Done(part float64)
}

// Run measures all cases of a profile. The report has what was measured before an error or the end of ctx.
func Run(ctx context.Context, p *profile.Profile, b Builder, w Progress) (*report.Report, error) {
	r := &report.Report{Schema: report.Schema, Started: time.Now().UTC(), Profile: p, Host: report.ThisHost(), Method: method(p)}
	defer func() { r.Seconds = time.Since(r.Started).Seconds() }()
	for _, payload := range p.Payloads {
		c, err := b.Ceiling(ctx, payload, p.Throughput.Trial.D())
		if err != nil {
			return r, err
		}
		r.Ceiling = append(r.Ceiling, c)
	}
	cases := p.Cases()
	for i, c := range cases {
		w.Case(i+1, len(cases), c.Name)
		out, err := runCase(ctx, p, c, b, w)
		r.Cases = append(r.Cases, out)
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return r, nil
}

// run is one case in progress.
type run struct {
	*profile.Profile
	dev        trial.Groups
	directions []trial.Direction
	out        *report.Case
	groups     int
	share      float64
	progress   Progress
}

func runCase(ctx context.Context, p *profile.Profile, c profile.Case, b Builder, w Progress) (out report.Case, err error) {
	out = report.Case{Name: c.Name, Direction: c.Direction, Traffic: c.Traffic.Name, Payload: c.Payload.Name, Bytes: mean(c.Payload.Bytes)}
	groups := c.Traffic.Groups
	if slices.Contains(p.Tests, "multicast") {
		groups = max(groups, p.Multicast.Groups)
	}
	dev, err := b.Build(c, groups)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	r := &run{Profile: p, dev: sliced(p, dev.Groups, w), directions: directionsOf(c.Direction), out: &out, groups: c.Traffic.Groups, share: c.Traffic.Share, progress: w}
	for _, t := range profile.AllTests {
		if !slices.Contains(p.Tests, t) {
			continue
		}
		w.Test(t)
		err := tests[t](r, ctx)
		if errors.Is(err, errNoRate) {
			out.Problem = err.Error()
			continue
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// sliced makes trials run in slices, if the profile says so.
func sliced(p *profile.Profile, dev trial.Groups, w Progress) trial.Groups {
	if p.Device.Slice == 0 {
		return dev
	}
	return trial.SlicedGroups{Groups: dev, Sliced: trial.Sliced{
		Device: dev, Slice: p.Device.Slice.D(), Stall: Stall, Progress: w.Done,
	}}
}

// Stall is the longest stall in a slice that counts: a queue of 1024 messages fills in that time at 20 Mpps.
const Stall = 50 * time.Microsecond

var tests = map[string]func(*run, context.Context) error{
	"throughput": (*run).throughput, "latency": (*run).latency, "loss": (*run).loss, "burst": (*run).burst,
	"soak": (*run).soak, "multicast": (*run).multicast,
}

func directionsOf(name string) []trial.Direction {
	switch name {
	case "roce_to_ib":
		return []trial.Direction{trial.RoCEToIB}
	case "ib_to_roce":
		return []trial.Direction{trial.IBToRoCE}
	}
	return []trial.Direction{trial.RoCEToIB, trial.IBToRoCE}
}

func mean(v []int) float64 {
	sum := 0
	for _, x := range v {
		sum += x
	}
	return float64(sum) / float64(len(v))
}

func (r *run) search() trial.Search {
	t := &r.Throughput
	patience := 4
	if r.Device.Slice > 0 { // slices are repeated themselves
		patience = 0
	}
	return trial.Search{
		Directions: r.directions, MaxPPS: t.MaxPPS, Trial: t.Trial.D(), Resolution: t.Resolution, Retries: t.Retries, Patience: patience,
		Confirm: t.Confirm, Shortfall: Shortfall(r.Profile),
	}
}

// Shortfall is the part of a load that the generator may miss. In slices it is larger: messages that are due when a
// slice ends are a larger part of a short slice.
func Shortfall(p *profile.Profile) float64 {
	if p.Device.Slice > 0 {
		return max(p.Throughput.Shortfall, 0.02)
	}
	return p.Throughput.Shortfall
}

func (r *run) throughput(ctx context.Context) error {
	ndr, err := r.search().Find(ctx, r.dev, "NDR", 0, 0, r.progress.Trial)
	r.out.NDR = &ndr
	if err != nil {
		return err
	}
	pdr, err := r.search().Find(ctx, r.dev, "PDR", r.Throughput.PDR, ndr.PPS, r.progress.Trial)
	r.out.PDR = &pdr
	return err
}

var errNoRate = errors.New("no rate with little enough loss was found, so tests that need one were left out; is the machine busy?")

// pdr is the reference rate of later tests. If throughput was not measured, it is found by a coarse search.
func (r *run) pdr(ctx context.Context) (float64, error) {
	if r.out.PDR == nil {
		s := r.search()
		s.Resolution, s.Confirm = max(s.Resolution, 0.05), 0
		pdr, err := s.Find(ctx, r.dev, "PDR", r.Throughput.PDR, 0, r.progress.Trial)
		r.out.PDR = &pdr
		if err != nil {
			return 0, err
		}
	}
	if r.out.PDR.PPS == 0 {
		return 0, errNoRate
	}
	return r.out.PDR.PPS, nil
}

func (r *run) latency(ctx context.Context) error {
	pdr, err := r.pdr(ctx)
	if err != nil {
		return err
	}
	r.out.Latency, r.out.Trials, err = trial.LatencyAt(ctx, r.dev, r.directions, pdr, r.Latency.Parts, r.Latency.Trial.D(), r.progress.Trial)
	return err
}

// loss starts at max_pps, or a quarter above the PDR so that there is a curve.
func (r *run) loss(ctx context.Context) (err error) {
	top := r.Throughput.MaxPPS
	if top == 0 {
		if top, err = r.pdr(ctx); err != nil {
			return err
		}
		top *= 1.25
	}
	r.out.Loss, err = trial.LossCurve(ctx, r.dev, r.directions, top, r.Loss.Trial.D(), r.progress.Trial)
	return err
}

func (r *run) burst(ctx context.Context) error {
	throughput := 0.0
	if r.out.NDR != nil {
		throughput = r.out.NDR.PPS
	}
	b, err := trial.FindBurst(ctx, r.dev, r.directions, r.Burst.Limit, r.Burst.Repetitions, throughput, r.progress.Trial)
	r.out.Burst = &b
	return err
}

func (r *run) soak(ctx context.Context) error {
	pps, err := r.pdr(ctx)
	if err != nil {
		return err
	}
	if r.out.NDR != nil && r.out.NDR.PPS > 0 {
		pps = r.out.NDR.PPS
	}
	s, err := trial.RunSoak(ctx, r.dev, r.directions, pps*r.Soak.Part, r.Soak.Duration.D(), r.Soak.Piece.D(), r.progress.Trial)
	r.out.Soak = &s
	return err
}

// multicast is measured in one direction: of "both", RoCE to IB.
func (r *run) multicast(ctx context.Context) error {
	m := &r.Multicast
	plan := trial.MulticastPlan{
		Direction: r.directions[0], MaxGroups: m.Groups, CapacityPPS: m.PPS, Shares: m.Shares, Repetitions: m.Repetitions,
		Allowed: r.Throughput.PDR, Search: r.search(), LatencyPart: 0.5,
	}
	out, err := plan.Run(ctx, r.dev, r.progress.Trial)
	r.out.Multicast = &out
	return errors.Join(err, r.dev.SetShare(r.groups, r.share))
}
