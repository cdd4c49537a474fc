// SPDX-License-Identifier: Apache-2.0

package gen

// #include "gen.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"

	"causeway/dpdk"
	"causeway/perf/trial"
)

// Port is the IB port of the bridge under test.
type Port struct{ c *C.struct_gen_port }

// NewPort makes a port whose queues hold depth messages in each direction.
func NewPort(depth int) (*Port, error) {
	c := C.gen_port_new(C.unsigned(depth))
	if c == nil {
		return nil, fmt.Errorf("gen: no memory for a port of %d messages", depth)
	}
	return &Port{c}, nil
}

// NewSink makes a port that frees at once what the bridge posts, on the bridge's own core, and receives nothing: for
// generators in other processes.
func NewSink() (*Port, error) {
	c := C.gen_sink_new()
	if c == nil {
		return nil, errors.New("gen: no memory for a sink")
	}
	return &Port{c}, nil
}

// Pointer returns the struct ib_port.
func (p *Port) Pointer() unsafe.Pointer { return unsafe.Pointer(&p.c.ib_port) }

// Free frees the port and the messages in it, when no one uses it any more.
func (p *Port) Free() { C.gen_port_free(p.c) }

// Config is where a generator sends and receives.
type Config struct {
	Pool     *dpdk.Mempool // with PrivateBytes and DataRoom
	In, Out  *dpdk.Ring    // the bridge's RoCE side; nil: use Port
	Port     *dpdk.Port
	Queue    int
	IBPort   *Port // nil: no IB side
	Resident int   // mbufs that circulate
}

// Generator is a generator and receiver on one lcore.
type Generator struct {
	c     *C.struct_gen
	flows *Flows
	lcore uint
	runs  bool
}

// New makes a generator that sends nothing yet.
func New(cfg Config) (*Generator, error) {
	var ibPort *C.struct_gen_port
	if cfg.IBPort != nil {
		ibPort = cfg.IBPort.c
	}
	c := C.gen_new((*C.struct_rte_mempool)(cfg.Pool.Pointer()), ibPort, C.unsigned(cfg.Resident))
	if c == nil {
		return nil, errors.New("gen: no memory for a generator")
	}
	c.queue = C.uint16_t(cfg.Queue)
	switch {
	case cfg.In != nil && cfg.Out != nil:
		c.roce_in, c.roce_out = (*C.struct_rte_ring)(cfg.In.Pointer()), (*C.struct_rte_ring)(cfg.Out.Pointer())
	case cfg.Port != nil:
		c.port = C.uint16_t(cfg.Port.ID())
	}
	return &Generator{c: c}, nil
}

// Empty returns all mbufs, and those in the bridge's outputs, to the pool. The bridge must not run.
func (g *Generator) Empty() { C.gen_empty(g.c) }

// Free empties and frees the generator. The bridge must not run.
func (g *Generator) Free() {
	g.Empty()
	C.gen_free(g.c)
	g.c = nil
}

// SetFlows sets what to send. The flows must live until the generator is freed or has other flows.
func (g *Generator) SetFlows(f *Flows) {
	g.flows = f
	g.c.flows, g.c.n_flows, g.c.seen = f.c, C.uint32_t(f.n), f.seen
}

// Load is what a generator does in a trial.
type Load struct {
	trial.Load
	Drain      time.Duration // messages that have not arrived after this silence are lost
	CheckEvery int           // one message in this many is compared to the last byte; 0: none
}

// Start begins a trial on an lcore.
func (g *Generator) Start(lcore uint, l Load) error {
	hz := float64(C.gen_cycles_per_second())
	cycles := func(d time.Duration) C.uint64_t { return C.uint64_t(d.Seconds() * hz) }
	c := g.c
	c.duration, c.drain, c.check_every = cycles(l.Duration), cycles(l.Drain), C.uint32_t(l.CheckEvery)
	for d := range l.PPS {
		s := &c.stream[d]
		s.order, s.n = g.flows.order[d], C.uint32_t(g.flows.many[d])
		s.on = C.bool(l.PPS[d] > 0 && s.n > 0)
		s.limit = C.uint64_t(l.Packets)
		s.per_cycle = 0
		if !math.IsInf(l.PPS[d], 1) {
			s.per_cycle = C.double(l.PPS[d] / hz)
		}
	}
	C.gen_clear(c)
	if rc := C.gen_start(c, C.unsigned(lcore)); rc != 0 {
		return fmt.Errorf("gen: start on lcore %d: %w", lcore, syscall.Errno(-rc))
	}
	g.lcore, g.runs = lcore, true
	return nil
}

// Running reports whether the trial is running.
func (g *Generator) Running() bool { return bool(g.c.running) }

// Stop ends sending; Wait must follow.
func (g *Generator) Stop() { g.c.stop = true }

// Wait waits for the end of the trial and returns its outcome.
func (g *Generator) Wait() trial.Outcome {
	if g.runs {
		C.gen_wait(g.c, C.unsigned(g.lcore))
		g.runs = false
	}
	c := g.c
	hz := float64(C.gen_cycles_per_second())
	o := trial.Outcome{
		Elapsed: since(uint64(c.began), uint64(c.ended), hz),
		Foreign: uint64(c.foreign), Stray: uint64(c.stray), Starved: uint64(c.starved),
		Away: since(0, uint64(c.away), hz), Silence: since(0, uint64(c.silence), hz),
	}
	for d := range o.Counts {
		s := &c.stats[d]
		o.Counts[d] = trial.Counts{
			Offered: uint64(s.offered), Rejected: uint64(s.rejected), Received: uint64(s.received), Bytes: uint64(s.bytes),
			Reordered: uint64(s.reordered), Duplicates: uint64(s.duplicates), Stale: uint64(s.stale), Corrupted: uint64(s.corrupted),
			Misdelivered: uint64(s.misdelivered), Checked: uint64(s.checked),
			Skipped: since(0, uint64(c.stream[d].skipped), hz),
		}
		o.Latency[d] = histogram(s, hz)
	}
	return o
}

// Now reads the clock of stamps and arrivals.
func Now() uint64 { return uint64(C.gen_now()) }

// Since returns the time between two readings of Now.
func Since(from, to uint64) time.Duration { return since(from, to, float64(C.gen_cycles_per_second())) }

func since(from, to uint64, hz float64) time.Duration {
	if to <= from {
		return 0
	}
	return time.Duration(float64(to-from) / hz * 1e9)
}

// histogram converts cycles to nanoseconds. The least and the largest value are exact.
func histogram(s *C.struct_gen_stats, hz float64) *hdrhistogram.Histogram {
	const longest = int64(100 * time.Second)
	h := hdrhistogram.New(1, longest, 3)
	if s.received == 0 {
		return h
	}
	ns := func(cycles uint64) int64 { return min(max(int64(float64(cycles)/hz*1e9), 1), longest) }
	least, most := uint64(s.latency_min), uint64(s.latency_max)
	for i, n := range s.histogram {
		if n == 0 {
			continue
		}
		value := min(max(uint64(C.gen_bucket_value(C.unsigned(i))), least), most)
		_ = h.RecordValues(ns(value), int64(n)) // the value is in range
	}
	return h
}
