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
	"time"

	"causeway/perf/dut"
	"causeway/perf/harness"
	"causeway/perf/report"
	"causeway/perf/trial"
)

const testpmdProgram = "dpdk-testpmd"

const noTestpmd = testpmdProgram + " is not installed; it is in the package dpdk-dev"

// yardsticks measures testpmd, DPDK's own forwarder, in each of the profile's modes, and Causeway, over net_memif and
// on the same CPUs. A program that is not installed is named in the report.
func (l *local) yardsticks(ctx context.Context, r *report.Report, w *progress) error {
	if _, err := exec.LookPath("pktgen"); err != nil {
		r.Notes = append(r.Notes, "Pktgen-DPDK was not measured: there is no pktgen in PATH; perf/pktgen/README.md says how to build it")
	} else {
		r.Notes = append(r.Notes, `Pktgen-DPDK is not in this report: it sends to a whole bridge; see "causeway-perf help pktgen"`)
	}
	if _, err := exec.LookPath(testpmdProgram); err != nil {
		r.Notes = append(r.Notes, "testpmd was not measured: "+noTestpmd)
		return nil
	}
	dir, err := os.MkdirTemp("", "causeway-perf")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary
	for _, p := range l.profile.Payloads {
		w.Case(1, 1, "yardsticks "+p.Name)
		t := dut.Traffic{Payloads: p.Bytes, Flows: 1024, IP: []int{4}}
		own, err := l.overMemif(ctx, filepath.Join(dir, "causeway.sock"), t, w)
		if err != nil {
			return fmt.Errorf("causeway over memif: %w", err)
		}
		for _, mode := range l.profile.Yardsticks.Modes {
			y, err := l.testpmd(ctx, filepath.Join(dir, mode+".sock"), mode, t, w)
			if err != nil {
				return fmt.Errorf("testpmd %s: %w", mode, err)
			}
			y.Payload = p.Name
			y.Compare(own)
			r.Yardsticks = append(r.Yardsticks, y)
		}
	}
	r.Method = append(r.Method, "Yardsticks: PDR of testpmd, which receives from a net_memif, changes headers as its mode says and sends them back; "+
		"and of Causeway, which receives from a net_memif and posts to its IB port. Both use the same generator and CPUs.")
	return nil
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

func (l *local) overMemif(ctx context.Context, socket string, t dut.Traffic, w *progress) (found trial.Throughput, err error) {
	w.Test("Causeway over memif")
	b, err := dut.New(dut.Config{
		Workers: l.workers[:1], Generators: l.generators[:1], Traffic: t, Memif: socket, CheckEvery: l.profile.Device.CheckEvery,
		Drain: l.profile.Device.Drain.D(), Progress: l.progress,
	})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return l.find(ctx, b, "Causeway", w)
}

func (l *local) testpmd(ctx context.Context, socket, mode string, t dut.Traffic, w *progress) (y report.Yardstick, err error) {
	y.Name = "testpmd " + mode
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
	if output := stop(); err != nil {
		return y, fmt.Errorf("%w; testpmd's output: %s", err, output)
	}
	return y, nil
}

// startTestpmd starts testpmd on a CPU. Stop ends it and returns the end of its output.
func startTestpmd(ctx context.Context, socket, mode string, cpu int) (pid int, stop func() string, err error) {
	cmd := exec.CommandContext(ctx, testpmdProgram, "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
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
		b := output.Bytes()
		return string(b[max(0, len(b)-400):])
	}, nil
}
