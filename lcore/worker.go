// SPDX-License-Identifier: Apache-2.0

// Package lcore is the datapath: the packet path, in C on DPDK lcores, and its Go API.
//
//	RoCE hosts                           worker                          IB nodes
//	Ethernet ─▶ parse ▶ ICRC ▶ transport ▶ look up ▶ post            ─▶ IB port
//	Ethernet ◀─ transmit ◀ ICRC ◀ headers ◀ look up ◀ classify ◀ poll ◀─ IB port
//	                 punted frames ▼ ▲ replies, requeued packets
//	                           management
//
// Go calls in to make, start, stop and read workers, never per packet.
package lcore

// #include "setup.h"
import "C"

import (
	"fmt"
	"syscall"
)

// MaxPayload is the largest UD payload: InfiniBand's largest MTU, in bytes.
const MaxPayload = 4096

// Room that an mbuf needs around its payload, in bytes; see NewDatapath.
const (
	// Headroom holds the headers in front of the 40-byte GRH area; it is DPDK's RTE_PKTMBUF_HEADROOM.
	Headroom = 128
	// DataRoom of a pool's mbufs: headroom, the longest frame with one VLAN tag, IPv6 and immediate data,
	// and a cache line for pad, ICRC and trailers.
	DataRoom = Headroom + 14 + 4 + 40 + 8 + 12 + 8 + 4 + MaxPayload + 4 + 64
)

// A Worker is one lcore between an Ethernet queue and its share of the IB port.
type Worker struct {
	c        *C.struct_worker
	datapath *Datapath
	lcore    uint
	runs     bool
	noted    uint64 // packets, before shares were left last
}

// Start runs the worker on an EAL lcore of its own until Stop.
func (w *Worker) Start(lcore uint) error {
	if rc := C.worker_start(w.c, C.uint(lcore)); rc != 0 {
		return fmt.Errorf("lcore: start a worker on lcore %d: %w; if the kernel has no seccomp, use -unconfined", lcore, syscall.Errno(-rc))
	}
	w.lcore, w.runs = lcore, true
	return nil
}

// Stop ends the worker: it receives no more frames, sends what is queued, and returns. That takes at most 0.1 s and a
// burst.
func (w *Worker) Stop() {
	if w.runs {
		C.worker_stop(w.c, C.uint(w.lcore))
		w.runs = false
	}
}

// Step runs one iteration of the worker's loop on the calling thread and returns how many packets moved. Only while the
// worker does not run.
func (w *Worker) Step() int { return int(C.worker_step(w.c)) }

// ID returns the worker's number, from 0.
func (w *Worker) ID() int { return int(w.c.id) }

// Counters reads the worker's counters. Any thread may call it at any time.
func (w *Worker) Counters() Counters {
	c := &w.c.counters
	out := Counters{
		Loops: uint64(c.loops),
		Busy:  uint64(c.busy),

		Sleeps:    uint64(c.sleeps),
		Overslept: uint64(c.overslept),

		Punt: PuntCounters{
			Received: uint64(c.punt.received),
			Handed:   uint64(c.punt.handed),
			Full:     uint64(c.punt.full),
			Sent:     uint64(c.punt.sent),
			Rejected: uint64(c.punt.rejected),
			Fenced:   uint64(c.punt.fenced),
		},
	}
	for d := range out.Direction {
		out.Direction[d] = directionCounters(&c.direction[d])
	}
	return out
}

func directionCounters(c *C.struct_direction_counters) DirectionCounters {
	out := DirectionCounters{
		Received:         uint64(c.received),
		Sent:             uint64(c.sent),
		SentBytes:        uint64(c.sent_bytes),
		Drops:            map[Drop]uint64{},
		CongestionMarked: uint64(c.events[C.EVENT_ECN_CE]),
		ReservedBits:     uint64(c.events[C.EVENT_RESERVED]),
		ProxyQPWaits:     uint64(c.events[C.EVENT_PROXY_QP_WAIT]),
		Handoffs:         uint64(c.events[C.EVENT_HANDOFF]),
		SourceBridged:    uint64(c.events[C.EVENT_SOURCE_BRIDGED]),
		GroupCopies:      uint64(c.events[C.EVENT_GROUP_COPIES]),
	}
	for d, n := range c.drops {
		if n != 0 {
			out.Drops[Drop(d)] = uint64(n)
		}
	}
	return out
}
