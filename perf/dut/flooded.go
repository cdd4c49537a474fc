// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/gen"
	"causeway/perf/trial"
)

// Flooded is a device at which a generator in another process sends, such as Pktgen-DPDK: one worker, the server of a
// memif, and an IB port that frees what it is given.
type Flooded struct {
	dut     *DUT
	worker  *lcore.Worker
	lcore   uint
	running bool
}

// NewFlooded makes the device; its worker does not run yet.
func NewFlooded(lcoreID uint, socket string, t Traffic) (*Flooded, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("dut: %w", err)
	}
	d := &DUT{cfg: Config{Workers: []uint{lcoreID}, Traffic: t}, threads: lcoreThreads("self", lcoreID)}
	f := &Flooded{dut: d, lcore: lcoreID}
	for _, step := range []func() error{func() error { return f.makePort(socket) }, d.makeTables, f.makeWorker} {
		if err := step(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return f, nil
}

func (f *Flooded) makePort(socket string) (err error) {
	const mbufs = 8191 // more than the memif's two rings, and a mempool cache
	d := f.dut
	serial++
	if d.pool, err = dpdk.NewMempool(fmt.Sprintf("flooded%d", serial), mbufs, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes); err != nil {
		return err
	}
	d.onClose(d.pool.Free)
	if d.port, err = dpdk.OpenPort("memif:"+socket+",role=server", dpdk.PortConfig{Pool: d.pool, MTU: memifMTU}); err != nil {
		return err
	}
	d.onClose(d.port.Close)
	return d.port.Start()
}

func (f *Flooded) makeWorker() error {
	d := f.dut
	sink, err := gen.NewSink()
	if err != nil {
		return err
	}
	d.onClose(func() error { sink.Free(); return nil })
	if d.datapath, err = lcore.NewDatapath(d.cfg.Traffic.datapathConfig(), d.tables.Pointer()); err != nil {
		return err
	}
	d.onClose(func() error { d.datapath.Close(); return nil })
	f.worker, err = d.datapath.NewWorker(lcore.WorkerConfig{Port: d.port.ID(), IBPort: sink.Pointer(), MaxGroups: max(1, d.cfg.Traffic.Groups)})
	return err
}

// Start starts the worker.
func (f *Flooded) Start() error {
	if err := startWorker(pair{worker: f.worker, cpu: [2]uint{f.lcore}}); err != nil {
		return err
	}
	f.running = true
	return nil
}

// Stop stops the worker. It must come before the other process ends: a memif's memory goes away with it, also from under
// a worker that reads it.
func (f *Flooded) Stop() {
	if f.running {
		f.worker.Stop()
		f.running = false
	}
}

// Close stops the worker and frees everything.
func (f *Flooded) Close() error {
	f.Stop()
	return f.dut.Close()
}

// CountRunDelay has the run delay of the worker lcores of another process, the generator's, spoil slices, too.
func (f *Flooded) CountRunDelay(pid int) error {
	threads := lcoreThreads(strconv.Itoa(pid))
	if len(threads) == 0 {
		return fmt.Errorf("dut: process %d has no worker lcores", pid)
	}
	f.dut.threads = append(f.dut.threads, threads...)
	return nil
}

// Counters are the worker's, RoCE to IB, since it was made. They are exact after Stop.
func (f *Flooded) Counters() lcore.DirectionCounters {
	return f.dut.datapath.Counters().Direction[lcore.RoCEToIB]
}

// AwaitFrames waits until frames come.
func (f *Flooded) AwaitFrames(ctx context.Context) error {
	return f.await(ctx, func(before, now uint64) bool { return now > before })
}

// AwaitSilence waits until no frame has come for a while.
func (f *Flooded) AwaitSilence(ctx context.Context) error {
	return f.await(ctx, func(before, now uint64) bool { return now == before })
}

func (f *Flooded) await(ctx context.Context, over func(before, now uint64) bool) error {
	for before := f.Counters().Received; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
		now := f.Counters().Received
		if over(before, now) {
			return nil
		}
		before = now
	}
}

// Flood is what the device did in a flood, by slices of time.
type Flood struct {
	PPS           float64 // forwarded a second: the median of the clean slices; 0: there was none
	Received      float64 // a second, in the same slices
	Noise         float64 // how far the middle half of them lies apart, as a part of the median
	PerBurst      float64 // messages that the worker received in a turn of its loop that received any
	Slices, Clean int
}

// FloodSlice is the length of a slice, and FloodStall the longest time that worker and sender may have waited for their
// CPUs in one that is clean. Whoever reads the counters needs one of these CPUs for that, too.
const (
	FloodSlice = 20 * time.Millisecond
	FloodStall = 500 * time.Microsecond
)

// Watch measures a flood that is going on.
func (f *Flooded) Watch(ctx context.Context, d time.Duration) (Flood, error) {
	var parts []slice
	first := f.dut.datapath.Counters()
	for last, end := f.read(), time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return Flood{}, ctx.Err()
		case <-time.After(FloodSlice):
		}
		now := f.read()
		seconds := now.at.Sub(last.at).Seconds()
		parts = append(parts, slice{
			pps: float64(now.Sent-last.Sent) / seconds, received: float64(now.Received-last.Received) / seconds, waited: now.waited - last.waited,
		})
		last = now
	}
	flood := floodOf(parts)
	if now := f.dut.datapath.Counters(); now.Busy > first.Busy {
		flood.PerBurst = float64(taken(now)-taken(first)) / float64(now.Busy-first.Busy)
	}
	return flood, nil
}

// reading is what was counted until a moment.
type reading struct {
	lcore.DirectionCounters
	at     time.Time
	waited time.Duration
}

func (f *Flooded) read() reading {
	return reading{f.Counters(), time.Now(), runDelay(f.dut.threads)}
}

// slice is a part of a flood.
type slice struct {
	pps, received float64
	waited        time.Duration // for a CPU, worker and sender together
}

// floodOf keeps the clean slices. The kernel counts a wait when it is over, so one that a slice ends in is found in the
// next one; of the last slice that is not known.
func floodOf(all []slice) Flood {
	var rates, received []float64
	for i := range max(0, len(all)-1) {
		if all[i].waited <= FloodStall && all[i+1].waited <= FloodStall {
			rates, received = append(rates, all[i].pps), append(received, all[i].received)
		}
	}
	return Flood{PPS: trial.Median(rates), Received: trial.Median(received), Noise: trial.Spread(rates), Slices: len(all), Clean: len(rates)}
}
