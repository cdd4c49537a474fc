// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/dut"
	"causeway/perf/harness"
	"causeway/perf/profile"
	"causeway/perf/report"
	"causeway/perf/trial"
)

// local builds devices in this process. It implements harness.Builder.
type local struct {
	eal          *dpdk.EAL
	profile      *profile.Profile
	workers      []uint // lcores
	generators   []uint
	cpus         string
	workerCPU    int   // of the first worker
	generatorCPU int   // of the first generator
	usedCPUs     []int // all workers' and generators'
	memif        string
	progress     func(done float64)
}

func newLocal(p *profile.Profile, o *options, workers, generators []int, progress func(float64)) (*local, error) {
	used := append(append([]int(nil), workers...), generators...)
	memory := dut.Config{Queue: p.Device.Queue}.MemoryMiB(len(workers))
	eal, err := dpdk.Init(dpdk.EALConfig{
		Name: "causeway-perf", Workers: used, MemoryMiB: memory, ForceNoHuge: o.noHuge,
	})
	if err != nil {
		return nil, err
	}
	all := eal.WorkerLcores()
	return &local{
		eal: eal, profile: p, workers: all[:len(workers)], generators: all[len(workers):], progress: progress, memif: o.memif,
		workerCPU: workers[0], generatorCPU: generators[0], usedCPUs: used,
		cpus: fmt.Sprintf("workers on CPUs %v, generators on %v", workers, generators),
	}, nil
}

func (l *local) close() error { return l.eal.Close() }

func traffic(c profile.Case, groups int) dut.Traffic {
	t := c.Traffic
	return dut.Traffic{Payloads: c.Payload.Bytes, Flows: t.Flows, IP: t.IP, VLAN: t.VLAN, Groups: max(t.Groups, groups), Share: t.Share}
}

// Build implements harness.Builder.
func (l *local) Build(c profile.Case, groups int) (harness.Built, error) {
	if l.memif != "" {
		return l.buildRemote(c)
	}
	p := &l.profile.Device
	progress := l.progress
	if p.Slice > 0 {
		progress = nil // slices show their own
	}
	d, err := dut.New(dut.Config{
		Workers: l.workers, Generators: l.generators, Traffic: traffic(c, groups), Queue: p.Queue, CheckEvery: p.CheckEvery,
		Drain: p.Drain.D(), Progress: progress,
	})
	if err != nil {
		return harness.Built{}, err
	}
	if err := d.SetShare(c.Traffic.Groups, c.Traffic.Share); err != nil {
		return harness.Built{}, errors.Join(err, d.Close())
	}
	return harness.Built{Groups: d, Close: d.Close}, nil
}

// Ceiling implements harness.Builder.
func (l *local) Ceiling(ctx context.Context, p profile.Payload, d time.Duration) (c report.Ceiling, err error) {
	loop, err := dut.NewLoopback(l.generators[0], dut.Traffic{Payloads: p.Bytes, Flows: 1024, IP: []int{4}})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, loop.Close()) }()
	out := []trial.Direction{trial.RoCEToIB}
	const floods = 16 // the best one was disturbed least
	c.Payload = p.Name
	var rates []float64
	for range floods {
		o, err := loop.Run(ctx, trial.At(out, trial.Flood, max(d/floods, 2*time.Millisecond)))
		if err != nil {
			return c, err
		}
		rates = append(rates, o.Rate(trial.RoCEToIB))
	}
	c.PPS, c.Noise = slices.Max(rates), trial.Spread(rates)
	calm := trial.Sliced{Device: loop, Slice: 2 * time.Millisecond, Stall: harness.Stall}
	latency, _, err := trial.LatencyAt(ctx, calm, out, c.PPS, []float64{0.1}, d, nil)
	if err == nil {
		c.Latency = latency[0]
	}
	return c, err
}

// version is set by the build; if empty, Go's build information is used.
var version string

func (l *local) versions() map[string]string {
	v := map[string]string{"Causeway": version, "DPDK": strings.TrimPrefix(dpdk.Version(), "DPDK "), "Go": runtime.Version(), "ICRC": lcore.ICRCVersion()}
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		v["Causeway"] = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v["Causeway"] = s.Value
			}
		}
	}
	return v
}

func (l *local) note() string { return l.eal.Note() }

// sentence describes what is measured.
func (l *local) sentence() string {
	if l.memif != "" {
		return "a whole bridge in another process, over net_memif; the nodes of its software subnet echo each message, and the round trip is measured"
	}
	return fmt.Sprintf("the bridge's own workers, in the process of the generator, between ring ports and an IB port of rings, on %s; %s; queues of %d messages",
		pages(l.eal), l.cpus, l.profile.Device.Queue)
}
