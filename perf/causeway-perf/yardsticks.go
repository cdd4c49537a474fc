// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"causeway/perf/dut"
	"causeway/perf/harness"
	"causeway/perf/profile"
	"causeway/perf/report"
	"causeway/perf/trial"
)

const testpmdProgram = "dpdk-testpmd"

const noTestpmd = testpmdProgram + " is not installed; it is in the package dpdk-dev"

// yardsticks measures, over net_memif and on the same CPUs: Causeway; testpmd, DPDK's own forwarder, in each of the
// profile's modes; and Causeway with Pktgen-DPDK as the generator. A program that is not installed is named in the report.
func (l *local) yardsticks(ctx context.Context, r *report.Report, w *progress) error {
	modes, flooded := l.installed(r)
	if len(modes) == 0 && !flooded {
		return nil
	}
	dir, err := os.MkdirTemp("", "causeway-perf")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary
	for i, p := range l.profile.Payloads {
		w.Case(i+1, len(l.profile.Payloads), "yardsticks "+p.Name)
		rows, err := l.yardsticksOf(ctx, dir, p, modes, flooded, w)
		r.Yardsticks = append(r.Yardsticks, rows...)
		if err != nil {
			return err
		}
	}
	r.Method = append(r.Method, "Yardsticks: PDR of Causeway, which receives from a net_memif and posts to its IB port, and of testpmd, which receives from a "+
		"net_memif, changes headers as its mode says and sends them back. Both use the same generator and CPUs. The generator also floods Causeway.")
	if flooded {
		r.Method = append(r.Method, fmt.Sprintf("Yardsticks, Pktgen-DPDK: it sends the same frames from a capture over net_memif, on the generator's CPU, as fast as it can. "+
			"Causeway's worker counts what it receives and forwards, in slices of %v; its IB port frees each message at once. Slices in which worker or sender "+
			"waited more than %v for their CPUs do not count. Every frame that Pktgen counts as sent must have been received.", dut.FloodSlice, dut.FloodStall))
	}
	return nil
}

// installed returns which yardsticks can be measured, and notes which cannot.
func (l *local) installed(r *report.Report) (testpmd []string, flooded bool) {
	testpmd, flooded = l.profile.Yardsticks.Testpmd(), l.profile.Yardsticks.Pktgen()
	if _, err := exec.LookPath("pktgen"); err != nil {
		r.Notes = append(r.Notes, "Pktgen-DPDK was not measured: there is no pktgen in PATH; perf/pktgen/README.md says how to build it")
		flooded = false
	} else if !flooded {
		r.Notes = append(r.Notes, "Pktgen-DPDK was not measured: it was not asked for, by -yardsticks pktgen")
	}
	if _, err := exec.LookPath(testpmdProgram); err != nil {
		r.Notes = append(r.Notes, "testpmd was not measured: "+noTestpmd)
		testpmd = nil
	} else if len(testpmd) == 0 {
		r.Notes = append(r.Notes, "testpmd was not measured: it was not asked for, by -yardsticks macswap")
	}
	return testpmd, flooded
}

// yardsticksOf are the rows of one payload.
func (l *local) yardsticksOf(ctx context.Context, dir string, p profile.Payload, modes []string, flooded bool, w *progress) (rows []report.Yardstick, err error) {
	t := dut.Traffic{Payloads: p.Bytes, Flows: 1024, IP: []int{4}}
	own, flood, err := l.overMemif(ctx, filepath.Join(dir, "causeway.sock"), t, w)
	if err != nil {
		return nil, fmt.Errorf("causeway over memif: %w", err)
	}
	pdr := report.Yardstick{Name: "Causeway", Figure: report.PDR, PPS: own.PPS, Loss: own.Allowed, Limit: own.Limit}
	rows = append(rows, pdr, flood)
	for _, mode := range modes {
		y, err := l.testpmd(ctx, filepath.Join(dir, mode+".sock"), mode, t, w)
		if err != nil {
			return rows, fmt.Errorf("testpmd %s: %w", mode, err)
		}
		y.Compare(own)
		rows = append(rows, y)
	}
	if flooded {
		y, err := l.pktgen(ctx, dir, t, w)
		if err != nil {
			return rows, fmt.Errorf("causeway with Pktgen-DPDK: %w", err)
		}
		rows = append(rows, y)
	}
	for i := range rows {
		rows[i].Payload = p.Name
	}
	return rows, nil
}

// find is the PDR of a device, RoCE to IB.
func (l *local) find(ctx context.Context, dev trial.Device, what string, w *progress) (trial.Throughput, error) {
	t := &l.profile.Throughput
	if slice := l.profile.Device.Slice.D(); slice > 0 {
		dev = trial.Sliced{Device: dev, Slice: slice, Stall: harness.Stall}
	}
	s := trial.Search{
		Directions: []trial.Direction{trial.RoCEToIB}, Trial: t.Trial.D(), Resolution: max(t.Resolution, 0.02), Retries: t.Retries, Shortfall: harness.Shortfall(l.profile),
	}
	return s.Find(ctx, dev, what, max(t.PDR, 0.001), 0, w.Trial)
}

func (l *local) overMemif(ctx context.Context, socket string, t dut.Traffic, w *progress) (found trial.Throughput, flood report.Yardstick, err error) {
	w.Test("Causeway over memif")
	b, err := dut.New(dut.Config{
		Workers: l.workers[:1], Generators: l.generators[:1], Traffic: t, Memif: socket, CheckEvery: l.profile.Device.CheckEvery,
		Drain: l.profile.Device.Drain.D(), Progress: l.progress,
	})
	if err != nil {
		return found, flood, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if found, err = l.find(ctx, b, "Causeway", w); err == nil {
		flood, err = l.flood(ctx, b)
	}
	return found, flood, err
}

// flood is what comes through a device while our generator sends as fast as it can, in slices. As with Pktgen's, those in
// which device or generator stalled do not count.
func (l *local) flood(ctx context.Context, dev trial.Device) (y report.Yardstick, err error) {
	y = report.Yardstick{Name: "Causeway", Figure: report.Flood, Limit: trial.ByMachine}
	var rates, sent []float64
	var sum trial.Outcome
	for range time.Second / dut.FloodSlice {
		o, err := dev.Run(ctx, trial.At([]trial.Direction{trial.RoCEToIB}, trial.Flood, dut.FloodSlice))
		if err != nil {
			return y, err
		}
		if max(o.Away, o.Silence, o.Disturbed) <= dut.FloodStall {
			rates, sent = append(rates, o.Rate(trial.RoCEToIB)), append(sent, o.OfferedRate(trial.RoCEToIB))
			sum.Merge(o)
		}
	}
	if y.Readings = len(rates); y.Readings > 0 {
		y.PPS, y.Sent, y.Noise, y.Lost = trial.Median(rates), trial.Median(sent), trial.Spread(rates), sum.Counts[trial.RoCEToIB].LossRatio()
		y.Limit = limitOf(sum.PerBurst())
	}
	return y, nil
}

// limitOf tells what limits a flood: a worker that finds its queue empty, or not full enough for half of a burst, waits
// for the generator.
func limitOf(perBurst float64) string {
	const halfBurst = 32
	if perBurst < halfBurst {
		return trial.ByGenerator
	}
	return trial.ByDevice
}

func (l *local) testpmd(ctx context.Context, socket, mode string, t dut.Traffic, w *progress) (y report.Yardstick, err error) {
	y.Name, y.Figure = "testpmd "+mode, report.PDR
	w.Test(y.Name)
	m, err := dut.NewForwarded(l.generators[0], socket, t)
	if err != nil {
		return y, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	m.CheckEvery = l.profile.Device.CheckEvery
	pid, stop, err := startTestpmd(ctx, socket, mode, l.workerCPU)
	if err != nil {
		return y, err
	}
	if err = m.WaitPeer(ctx); err == nil {
		err = m.CountRunDelay(pid)
	}
	if err == nil {
		var found trial.Throughput
		found, err = l.find(ctx, m, y.Name, w)
		y.PPS, y.Loss, y.Limit = found.PPS, found.Allowed, found.Limit
	}
	output := stop()
	if err != nil {
		return y, fmt.Errorf("%w; testpmd's output: %s", err, output[max(0, len(output)-400):])
	}
	if m := eal.FindStringSubmatch(output); m != nil {
		y.Versions = m[1]
	}
	return y, nil
}

// eal is the line that the EAL begins with, by -v.
var eal = regexp.MustCompile(`RTE Version: '(DPDK [^']+)'`)

// startTestpmd starts testpmd on a CPU. Stop ends it and returns its output.
func startTestpmd(ctx context.Context, socket, mode string, cpu int) (pid int, stop func() string, err error) {
	cmd := exec.CommandContext(ctx, testpmdProgram, "-v", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
		fmt.Sprintf("--file-prefix=causeway-testpmd-%d", os.Getpid()), fmt.Sprintf("--lcores=0@%d,1@%d", cpu, cpu), "--main-lcore=0",
		"--vdev=net_memif0,role=client,socket-abstract=no,bsize=8192,socket="+socket,
		"--", "--total-num-mbufs=8192", "--mbuf-size=8448", "--forward-mode="+mode, "--auto-start", "--nb-cores=1")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 5 * time.Second
	input, err := cmd.StdinPipe() // it ends when it reads a line
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() string {
		_, _ = io.WriteString(input, "\n") // it may have ended already
		_ = input.Close()
		done := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer done.Stop()
		_ = cmd.Wait() // its exit code means little
		return output.String()
	}, nil
}
