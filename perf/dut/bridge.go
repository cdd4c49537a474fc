// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/gen"
	"causeway/perf/trial"
	"causeway/tables"
)

// Config is how the device is built. Worker i and generator i are a pair: a port's queue, a door, two lcores.
type Config struct {
	Workers    []uint // lcores
	Generators []uint
	Traffic    Traffic
	Memif      string             // a socket: generator and worker, one of each, meet by net_memif there, not by rings
	Queue      int                // messages that each queue to and from a worker holds; 0: 1024, as ports have
	CheckEvery int                // one message in so many is read to the last byte; 0: none
	Drain      time.Duration      // silence after which what has not come is lost; 0: 50 ms
	Nice       int                // value of the lcores' threads, which stays when the device is closed
	Progress   func(done float64) // hears how far a trial is, 0 to 1; nil: nobody does
}

func (c *Config) complete() error {
	if c.Queue == 0 {
		c.Queue = 1024
	}
	if c.Drain == 0 {
		c.Drain = 50 * time.Millisecond
	}
	if c.Queue < 64 || c.Queue > 32768 {
		return fmt.Errorf("dut: queues of %d; use 64 to 32768", c.Queue)
	}
	if n := len(c.Workers); n == 0 || n != len(c.Generators) || n > 16 {
		return fmt.Errorf("dut: %d workers and %d generators; give each worker one, and at most 16", n, len(c.Generators))
	}
	if c.Memif != "" && len(c.Workers) != 1 {
		return fmt.Errorf("dut: %d workers by memif; there can be one", len(c.Workers))
	}
	if err := c.Traffic.Check(); err != nil {
		return fmt.Errorf("dut: %w", err)
	}
	return nil
}

// resident is how many mbufs go round in a pair: its queues full, and some.
func (c *Config) resident() int { return 4*c.Queue + 1024 }

// MemoryMiB is what the EAL must have for a device of so many pairs.
func (c Config) MemoryMiB(pairs int) int {
	queue := max(c.Queue, 1024)
	return 96 + pairs*(4*queue+2048)*(lcore.DataRoom+512)>>20
}

// Bridge is the bench between generators. It implements trial.Device and trial.Groups.
type Bridge struct {
	cfg     Config
	pool    *dpdk.Mempool
	port    *dpdk.Port
	rings   *dpdk.RingPort // nil: by memif
	far     *dpdk.Port     // the generator's end of that
	doors   []*gen.Door
	tables  *tables.Tables
	bench   *lcore.Bench
	pairs   []pair
	joined  int // groups on the shelves, the first ones
	share   float64
	before  lcore.Counters
	threads []string // of the lcores, in /proc
	undo    []func() error
}

// pair is a worker and its generator.
type pair struct {
	worker *lcore.Worker
	gen    *gen.Generator
	flows  *gen.Flows
	cpu    [2]uint // worker's lcore, generator's
}

// New builds the device. A process has one EAL, which the caller starts, and any number of devices, one after another.
func New(cfg Config) (*Bridge, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := favour(append(slices.Clone(cfg.Workers), cfg.Generators...), cfg.Nice); err != nil {
		return nil, err
	}
	b := &Bridge{
		cfg: cfg, share: cfg.Traffic.Share,
		threads: lcoreThreads("self", append(slices.Clone(cfg.Workers), cfg.Generators...)...),
	}
	for _, step := range []func() error{b.makePort, b.makeTables, b.makeBench, b.makePairs} {
		if err := step(); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

func (b *Bridge) onClose(f func() error) { b.undo = append(b.undo, f) }

// Close takes the device down. It complains when mbufs are left over: the device has lost them.
func (b *Bridge) Close() error {
	var errs []error
	for i := len(b.undo) - 1; i >= 0; i-- {
		errs = append(errs, b.undo[i]())
	}
	b.undo = nil
	return errors.Join(errs...)
}

// serial tells the names of pools apart; DPDK keeps them by name.
var serial int

func (b *Bridge) makePort() (err error) {
	pairs := len(b.cfg.Workers)
	serial++
	const spare = 1023 // what caches keep
	b.pool, err = dpdk.NewMempool(fmt.Sprintf("dut%d", serial), pairs*b.cfg.resident()+spare, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes)
	if err != nil {
		return err
	}
	b.onClose(b.pool.Free)
	if b.cfg.Memif != "" {
		return b.makeMemif()
	}
	b.rings, err = dpdk.OpenRingPort(dpdk.PortConfig{
		Pool: b.pool, RxQueues: pairs, TxQueues: pairs, RxDescs: b.cfg.Queue, TxDescs: b.cfg.Queue, MTU: memifMTU,
	})
	if err != nil {
		return err
	}
	b.port = b.rings.Port
	b.onClose(b.port.Close)
	return b.port.Start()
}

// makeMemif makes both ends, the generator's first. What its end receives comes from the device's pool as well: one pool has
// all mbufs.
func (b *Bridge) makeMemif() (err error) {
	open := func(role string) (*dpdk.Port, error) {
		port, err := dpdk.OpenPort("memif:"+b.cfg.Memif+",role="+role, dpdk.PortConfig{Pool: b.pool, MTU: memifMTU})
		if err == nil {
			b.onClose(port.Close)
			err = port.Start()
		}
		return port, err
	}
	if b.far, err = open("server"); err != nil {
		return err
	}
	if b.port, err = open("client"); err != nil {
		return err
	}
	return waitLink(context.Background(), b.far)
}

func (b *Bridge) makeTables() (err error) {
	t := &b.cfg.Traffic
	b.tables, err = tables.New(tables.Config{
		MaxGroups: max(1, t.Groups), MaxNodes: t.Flows, MaxReaders: len(b.cfg.Workers),
		MaxStandIns: 1 << 18, // address space, of which memory is what is used
	})
	if err != nil {
		return err
	}
	b.onClose(func() error { b.tables.Close(); return nil })
	if err := t.fill(b.tables, len(b.cfg.Workers)); err != nil {
		return err
	}
	return b.setJoined(t.Groups)
}

func (b *Bridge) makeBench() (err error) {
	if b.bench, err = lcore.NewBench(b.cfg.Traffic.benchConfig(), b.tables.Pointer()); err != nil {
		return err
	}
	b.onClose(func() error { b.bench.Close(); return nil })
	for i := range b.cfg.Workers {
		door, err := gen.NewDoor(b.cfg.Queue)
		if err != nil {
			return err
		}
		b.doors = append(b.doors, door)
		b.onClose(func() error { door.Free(); return nil })
		_, err = b.bench.NewWorker(lcore.WorkerConfig{
			Port: b.port.ID(), Queue: uint16(i), Door: door.Pointer(), MaxGroups: max(1, b.cfg.Traffic.Groups),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Bridge) makePairs() error {
	list := b.cfg.Traffic.flows()
	for i, w := range b.bench.Workers() {
		flows, err := gen.NewFlows(list)
		if err != nil {
			return err
		}
		b.onClose(func() error { flows.Free(); return nil })
		cfg := gen.Config{Pool: b.pool, Port: b.far, Door: b.doors[i], Resident: b.cfg.resident() / 2}
		if b.rings != nil {
			cfg.In, cfg.Out, cfg.Resident = b.rings.ToPort(i), b.rings.FromPort(i), b.cfg.resident()
		}
		g, err := gen.New(cfg)
		if err != nil {
			return err
		}
		b.onClose(func() error { g.Free(); return nil })
		g.SetFlows(flows)
		b.pairs = append(b.pairs, pair{w, g, flows, [2]uint{b.cfg.Workers[i], b.cfg.Generators[i]}})
	}
	b.setOrder(b.cfg.Traffic.Groups, b.share)
	return nil
}

// setOrder has all generators send to the first groups, and the rest of the share to single hosts and nodes.
func (b *Bridge) setOrder(groups int, share float64) {
	var all []int
	for d := range trial.Directions {
		all = append(all, b.cfg.Traffic.order(d, groups, share)...)
	}
	b.setFlows(all)
}

// setFlows gives each generator those of the flows that cross by its worker.
func (b *Bridge) setFlows(all []int) {
	for i, p := range b.pairs {
		var own []int
		for _, f := range all {
			if b.cfg.Traffic.owner(f, len(b.pairs)) == i {
				own = append(own, f)
			}
		}
		if own == nil {
			own = []int{}
		}
		p.flows.SetOrder(own)
	}
}

// Run implements trial.Device.
func (b *Bridge) Run(ctx context.Context, l trial.Load) (trial.Outcome, error) {
	return b.runWith(ctx, l, nil)
}

// runWith runs a trial, and in the midst of it calls meanwhile.
func (b *Bridge) runWith(ctx context.Context, l trial.Load, meanwhile func() error) (trial.Outcome, error) {
	b.before = b.bench.Counters()
	waited := runDelay(b.threads)
	if err := b.start(l); err != nil {
		return trial.Outcome{}, err
	}
	err := b.watch(ctx, l, meanwhile)
	var out trial.Outcome
	for i, p := range b.pairs {
		o := p.gen.Wait()
		if i == 0 {
			out = o
		} else {
			out.Merge(o)
		}
	}
	for _, p := range b.pairs {
		p.worker.Stop()
	}
	now := b.bench.Counters()
	out.Drops = b.drops(now)
	out.Taken, out.Bursts = taken(now)-taken(b.before), now.Busy-b.before.Busy
	out.Disturbed = runDelay(b.threads) - waited
	return out, err
}

// start starts all workers, then all generators with their parts of the load: short slices begin at once everywhere.
func (b *Bridge) start(l trial.Load) (err error) {
	part := gen.Load{Load: l, Drain: b.cfg.Drain, CheckEvery: b.cfg.CheckEvery}
	n := float64(len(b.pairs))
	for d := range part.PPS {
		part.PPS[d] /= n
	}
	if l.Packets > 0 {
		part.Packets = max(1, l.Packets/uint64(len(b.pairs)))
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	for _, p := range b.pairs {
		if err := startWorker(p); err != nil {
			return err
		}
	}
	for _, p := range b.pairs {
		if err := p.gen.Start(p.cpu[1], part); err != nil {
			return err
		}
	}
	return nil
}

// stop ends whatever runs.
func (b *Bridge) stop() {
	for _, p := range b.pairs {
		p.gen.Stop()
		p.gen.Wait()
		p.worker.Stop()
	}
}

// startWorker waits until the worker is at its loop: what comes before would count as its stall.
func startWorker(p pair) error {
	loops := p.worker.Counters().Loops
	if err := p.worker.Start(p.cpu[0]); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); p.worker.Counters().Loops < loops+10; {
		if time.Now().After(deadline) {
			return fmt.Errorf("dut: the worker on lcore %d does not begin", p.cpu[0])
		}
		time.Sleep(10 * time.Microsecond)
	}
	return nil
}

// watch waits for the generators' end. It sleeps most of the time: on a small machine it has no CPU of its own.
func (b *Bridge) watch(ctx context.Context, l trial.Load, meanwhile func() error) error {
	begun := time.Now()
	nap := min(20*time.Millisecond, max(l.Duration/8, 200*time.Microsecond))
	var failed error
	for b.running() {
		time.Sleep(nap)
		if meanwhile != nil && time.Since(begun) > l.Duration/4 {
			failed = meanwhile()
			meanwhile = nil
		}
		if ctx.Err() != nil || failed != nil {
			for _, p := range b.pairs {
				p.gen.Stop()
			}
		}
		b.tell(time.Since(begun), l)
	}
	return errors.Join(ctx.Err(), failed)
}

func (b *Bridge) running() bool {
	for _, p := range b.pairs {
		if p.gen.Running() {
			return true
		}
	}
	return false
}

func (b *Bridge) tell(elapsed time.Duration, l trial.Load) {
	if b.cfg.Progress == nil || l.Duration == 0 {
		return
	}
	b.cfg.Progress(min(1, float64(elapsed)/float64(l.Duration)))
}

// taken is what the workers received, from both sides.
func taken(c lcore.Counters) uint64 {
	return c.Direction[lcore.RoCEToIB].Received + c.Direction[lcore.IBToRoCE].Received
}

// TakenBy is how many messages each worker has taken so far.
func (b *Bridge) TakenBy() []uint64 {
	var out []uint64
	for _, p := range b.pairs {
		out = append(out, taken(p.worker.Counters()))
	}
	return out
}

// drops are those of the last trial, by direction and reason.
func (b *Bridge) drops(now lcore.Counters) map[string]uint64 {
	out := map[string]uint64{}
	for d := range now.Direction {
		for reason, n := range now.Direction[d].Drops {
			if n -= b.before.Direction[d].Drops[reason]; n > 0 {
				out[fmt.Sprintf("%v.%v", lcore.Direction(d), reason)] = n
			}
		}
	}
	return out
}
