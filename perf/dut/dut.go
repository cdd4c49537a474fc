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

// Config is how the device is built. Worker i and generator i are a pair, with a queue of the Ethernet port, an IB port
// and two lcores.
type Config struct {
	Workers    []uint // lcores
	Generators []uint
	Traffic    Traffic
	Memif      string             // a socket: one generator and one worker are connected by net_memif there, not by rings
	Queue      int                // messages that each queue to and from a worker holds; 0: 1024, as ports have
	CheckEvery int                // one message in this many is compared to the last byte; 0: none
	Drain      time.Duration      // messages that have not arrived after this silence are lost; 0: 50 ms
	Progress   func(done float64) // called with the progress of a trial, 0 to 1; may be nil
}

func (c *Config) complete() error {
	if c.Queue == 0 {
		c.Queue = 1024
	}
	if c.Drain == 0 {
		c.Drain = 50 * time.Millisecond
	}
	if c.Queue < 64 || c.Queue > 32768 {
		return fmt.Errorf("dut: queues of %d messages; use 64 to 32768", c.Queue)
	}
	if n := len(c.Workers); n == 0 || n != len(c.Generators) || n > 16 {
		return fmt.Errorf("dut: %d workers and %d generators; use one generator for each worker, at most 16", n, len(c.Generators))
	}
	if c.Memif != "" && len(c.Workers) != 1 {
		return fmt.Errorf("dut: %d workers over memif; use one", len(c.Workers))
	}
	if err := c.Traffic.Check(); err != nil {
		return fmt.Errorf("dut: %w", err)
	}
	return nil
}

// resident is how many mbufs circulate in a pair: more than all its queues hold.
func (c *Config) resident() int { return 4*c.Queue + 1024 }

// MemoryMiB is the EAL memory that a device of that many pairs needs.
func (c Config) MemoryMiB(pairs int) int {
	queue := max(c.Queue, 1024)
	return 96 + pairs*(4*queue+2048)*(lcore.DataRoom+512)>>20
}

// DUT is the device under test: the bridge's datapath between generators. It implements trial.Device and trial.Groups.
type DUT struct {
	cfg      Config
	pool     *dpdk.Mempool
	port     *dpdk.Port
	rings    *dpdk.RingPort // nil: memif
	far      *dpdk.Port     // the generator's end of the memif
	ports    []*gen.Port
	tables   *tables.Tables
	datapath *lcore.Datapath
	pairs    []pair
	joined   int // so many groups, the first ones, are in the tables
	share    float64
	before   lcore.Counters
	threads  []string // of the lcores: directories in /proc
	undo     []func() error
}

// pair is a worker and its generator.
type pair struct {
	worker *lcore.Worker
	gen    *gen.Generator
	flows  *gen.Flows
	cpu    [2]uint // worker's lcore, generator's
}

// New builds the device. The caller has started the EAL. There may be several devices in a process, one after another.
func New(cfg Config) (*DUT, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	d := &DUT{
		cfg: cfg, share: cfg.Traffic.Share,
		threads: lcoreThreads("self", append(slices.Clone(cfg.Workers), cfg.Generators...)...),
	}
	for _, step := range []func() error{d.makePort, d.makeTables, d.makeDatapath, d.makePairs} {
		if err := step(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

func (d *DUT) onClose(f func() error) { d.undo = append(d.undo, f) }

// Close takes the device down. It fails when the device has lost mbufs.
func (d *DUT) Close() error {
	var errs []error
	for i := len(d.undo) - 1; i >= 0; i-- {
		errs = append(errs, d.undo[i]())
	}
	d.undo = nil
	return errors.Join(errs...)
}

// serial makes the names of DPDK objects unique.
var serial int

func (d *DUT) makePort() (err error) {
	pairs := len(d.cfg.Workers)
	serial++
	const spare = 1023 // in mempool caches
	d.pool, err = dpdk.NewMempool(fmt.Sprintf("dut%d", serial), pairs*d.cfg.resident()+spare, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes)
	if err != nil {
		return err
	}
	d.onClose(d.pool.Free)
	if d.cfg.Memif != "" {
		return d.makeMemif()
	}
	d.rings, err = dpdk.OpenRingPort(dpdk.PortConfig{
		Pool: d.pool, RxQueues: pairs, TxQueues: pairs, RxDescs: d.cfg.Queue, TxDescs: d.cfg.Queue, MTU: memifMTU,
	})
	if err != nil {
		return err
	}
	d.port = d.rings.Port
	d.onClose(d.port.Close)
	return d.port.Start()
}

// makeMemif makes both ends, the generator's first. Both use the device's pool.
func (d *DUT) makeMemif() (err error) {
	open := func(role string) (*dpdk.Port, error) {
		port, err := dpdk.OpenPort("memif:"+d.cfg.Memif+",role="+role, dpdk.PortConfig{Pool: d.pool, MTU: memifMTU})
		if err == nil {
			d.onClose(port.Close)
			err = port.Start()
		}
		return port, err
	}
	if d.far, err = open("server"); err != nil {
		return err
	}
	if d.port, err = open("client"); err != nil {
		return err
	}
	return waitLink(context.Background(), d.far)
}

func (d *DUT) makeTables() (err error) {
	t := &d.cfg.Traffic
	d.tables, err = tables.New(tables.Config{
		MaxGroups: max(1, t.Groups), MaxNodes: t.Flows, MaxReaders: len(d.cfg.Workers),
		MaxProxyQPs: 1 << 18, // address space only; memory is taken as needed
	})
	if err != nil {
		return err
	}
	d.onClose(func() error { d.tables.Close(); return nil })
	if err := t.fill(d.tables, len(d.cfg.Workers)); err != nil {
		return err
	}
	return d.setJoined(t.Groups)
}

func (d *DUT) makeDatapath() (err error) {
	if d.datapath, err = lcore.NewDatapath(d.cfg.Traffic.datapathConfig(), d.tables.Pointer()); err != nil {
		return err
	}
	d.onClose(func() error { d.datapath.Close(); return nil })
	for i := range d.cfg.Workers {
		ibPort, err := gen.NewPort(d.cfg.Queue)
		if err != nil {
			return err
		}
		d.ports = append(d.ports, ibPort)
		d.onClose(func() error { ibPort.Free(); return nil })
		_, err = d.datapath.NewWorker(lcore.WorkerConfig{
			Port: d.port.ID(), Queue: uint16(i), IBPort: ibPort.Pointer(), MaxGroups: max(1, d.cfg.Traffic.Groups),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *DUT) makePairs() error {
	list := d.cfg.Traffic.flows()
	for i, w := range d.datapath.Workers() {
		flows, err := gen.NewFlows(list)
		if err != nil {
			return err
		}
		d.onClose(func() error { flows.Free(); return nil })
		cfg := gen.Config{Pool: d.pool, Port: d.far, IBPort: d.ports[i], Resident: d.cfg.resident() / 2}
		if d.rings != nil {
			cfg.In, cfg.Out, cfg.Resident = d.rings.ToPort(i), d.rings.FromPort(i), d.cfg.resident()
		}
		g, err := gen.New(cfg)
		if err != nil {
			return err
		}
		d.onClose(func() error { g.Free(); return nil })
		g.SetFlows(flows)
		d.pairs = append(d.pairs, pair{w, g, flows, [2]uint{d.cfg.Workers[i], d.cfg.Generators[i]}})
	}
	d.setOrder(d.cfg.Traffic.Groups, d.share)
	return nil
}

// setOrder makes the generators send that share of messages to the first groups, and the others to hosts and nodes.
func (d *DUT) setOrder(groups int, share float64) {
	var all []int
	for dir := range trial.Directions {
		all = append(all, d.cfg.Traffic.order(dir, groups, share)...)
	}
	d.setFlows(all)
}

// setFlows gives each generator the flows that its worker forwards.
func (d *DUT) setFlows(all []int) {
	for i, p := range d.pairs {
		var own []int
		for _, f := range all {
			if d.cfg.Traffic.owner(f, len(d.pairs)) == i {
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
func (d *DUT) Run(ctx context.Context, l trial.Load) (trial.Outcome, error) {
	return d.runWith(ctx, l, nil)
}

// runWith runs a trial, and calls meanwhile after a quarter of it; nil: nothing.
func (d *DUT) runWith(ctx context.Context, l trial.Load, meanwhile func() error) (trial.Outcome, error) {
	d.before = d.datapath.Counters()
	waited := runDelay(d.threads)
	if err := d.start(l); err != nil {
		return trial.Outcome{}, err
	}
	err := d.await(ctx, l, meanwhile)
	var out trial.Outcome
	for i, p := range d.pairs {
		o := p.gen.Wait()
		if i == 0 {
			out = o
		} else {
			out.Merge(o)
		}
	}
	for _, p := range d.pairs {
		p.worker.Stop()
	}
	now := d.datapath.Counters()
	out.Drops = d.drops(now)
	out.Taken, out.Bursts = taken(now)-taken(d.before), now.Busy-d.before.Busy
	out.Disturbed = runDelay(d.threads) - waited
	return out, err
}

// start starts all workers, then all generators with their shares of the load, so that all generators begin at the same
// time.
func (d *DUT) start(l trial.Load) (err error) {
	part := gen.Load{Load: l, Drain: d.cfg.Drain, CheckEvery: d.cfg.CheckEvery}
	n := float64(len(d.pairs))
	for dir := range part.PPS {
		part.PPS[dir] /= n
	}
	if l.Packets > 0 {
		part.Packets = max(1, l.Packets/uint64(len(d.pairs)))
	}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	for _, p := range d.pairs {
		if err := startWorker(p); err != nil {
			return err
		}
	}
	for _, p := range d.pairs {
		if err := p.gen.Start(p.cpu[1], part); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all workers and generators.
func (d *DUT) stop() {
	for _, p := range d.pairs {
		p.gen.Stop()
		p.gen.Wait()
		p.worker.Stop()
	}
}

// startWorker waits until the worker is in its loop: its start would count as a stall.
func startWorker(p pair) error {
	loops := p.worker.Counters().Loops
	if err := p.worker.Start(p.cpu[0]); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); p.worker.Counters().Loops < loops+10; {
		if time.Now().After(deadline) {
			return fmt.Errorf("dut: the worker on lcore %d does not start", p.cpu[0])
		}
		time.Sleep(10 * time.Microsecond)
	}
	return nil
}

// await waits for the end of the generators. It sleeps most of the time, since it may share a CPU with a worker.
func (d *DUT) await(ctx context.Context, l trial.Load, meanwhile func() error) error {
	begun := time.Now()
	nap := min(20*time.Millisecond, max(l.Duration/8, 200*time.Microsecond))
	var failed error
	for d.running() {
		time.Sleep(nap)
		if meanwhile != nil && time.Since(begun) > l.Duration/4 {
			failed = meanwhile()
			meanwhile = nil
		}
		if ctx.Err() != nil || failed != nil {
			for _, p := range d.pairs {
				p.gen.Stop()
			}
		}
		d.progress(time.Since(begun), l)
	}
	return errors.Join(ctx.Err(), failed)
}

func (d *DUT) running() bool {
	for _, p := range d.pairs {
		if p.gen.Running() {
			return true
		}
	}
	return false
}

func (d *DUT) progress(elapsed time.Duration, l trial.Load) {
	if d.cfg.Progress == nil || l.Duration == 0 {
		return
	}
	d.cfg.Progress(min(1, float64(elapsed)/float64(l.Duration)))
}

// taken is how many packets the workers received, both directions together.
func taken(c lcore.Counters) uint64 {
	return c.Direction[lcore.RoCEToIB].Received + c.Direction[lcore.IBToRoCE].Received
}

// drops are the drops of the last trial by direction and reason.
func (d *DUT) drops(now lcore.Counters) map[string]uint64 {
	out := map[string]uint64{}
	for dir := range now.Direction {
		for reason, n := range now.Direction[dir].Drops {
			if n -= d.before.Direction[dir].Drops[reason]; n > 0 {
				out[fmt.Sprintf("%v.%v", lcore.Direction(dir), reason)] = n
			}
		}
	}
	return out
}
