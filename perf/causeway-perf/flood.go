// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"causeway/perf/dut"
	"causeway/perf/pktgen"
	"causeway/perf/report"
	"causeway/perf/trial"
)

// floodSeconds is how long Pktgen sends. Its first second is not measured, nor what comes after the last.
const floodSeconds = 6

// pktgen measures Causeway while Pktgen-DPDK sends as fast as it can, on the generator's CPU.
func (l *local) pktgen(ctx context.Context, dir string, t dut.Traffic, w *progress) (y report.Yardstick, err error) {
	y = report.Yardstick{Name: "Causeway", Generator: "Pktgen-DPDK", Figure: report.Flood, Limit: trial.ByMachine}
	w.Test("Causeway, flooded by Pktgen-DPDK")
	port := "memif:" + filepath.Join(dir, "pktgen.sock")
	files, err := pktgen.Profile{Name: "yardstick", Traffic: t}.Write(dir, pktgen.Script{Rate: 100, Seconds: floodSeconds}, port+",role=server")
	if err != nil {
		return y, err
	}
	f, err := dut.NewFlooded(l.workers[0], filepath.Join(dir, "pktgen.sock"), t)
	if err != nil {
		return y, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Start(); err != nil {
		return y, err
	}
	var uncounted error
	r := pktgen.Runner{Port: port, CPUs: l.pktgenCPUs(), Longest: files.Longest, Sending: func(pid int) { uncounted = f.CountRunDelay(pid) }}
	flood, sent, err := watch(ctx, f, func(ctx context.Context) (pktgen.Result, error) {
		return r.Run(ctx, files.Capture, files.Script, floodSeconds)
	})
	if err = errors.Join(err, uncounted); err != nil {
		return y, err
	}
	c := f.Counters()
	if c.Received != sent.Sent || !c.Conserved() {
		return y, fmt.Errorf("pktgen sent %d frames; the worker received %d, sent %d and dropped %v", sent.Sent, c.Received, c.Sent, c.Drops)
	}
	y.Versions, y.Lost, y.Readings = strings.TrimPrefix(sent.Pktgen, "Pktgen "), float64(sent.Sent-c.Sent)/float64(max(1, sent.Sent)), flood.Clean
	if flood.Clean > 0 {
		// Every frame that was sent has been received: so that is what was sent in the slices that count. Medians of both
		// differ by what rings hold, but nothing comes through that was not sent.
		y.PPS, y.Sent, y.Noise, y.Limit = flood.PPS, max(flood.PPS, flood.Received), flood.Noise, limitOf(flood.PerBurst)
	}
	return y, nil
}

// watch runs a generator in another process, and measures the flood. It stops the worker before that process ends.
func watch(ctx context.Context, f *dut.Flooded, run func(context.Context) (pktgen.Result, error)) (flood dut.Flood, sent pktgen.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		if sent, failed = run(ctx); failed != nil {
			cancel(failed)
		}
	}()
	err = f.AwaitFrames(ctx)
	if err == nil {
		flood, err = f.Watch(ctx, (floodSeconds-1)*time.Second-500*time.Millisecond)
	}
	if err == nil {
		err = f.AwaitSilence(ctx)
	}
	f.Stop()
	<-ended
	return flood, sent, errors.Join(err, failed)
}

// pktgenCPUs are a CPU for Pktgen's display and script that nobody measures on, if there is one, and the generator's.
func (l *local) pktgenCPUs() []int {
	for cpu := range runtime.NumCPU() {
		if !slices.Contains(l.usedCPUs, cpu) {
			return []int{cpu, l.generatorCPU}
		}
	}
	return []int{l.generatorCPU}
}
