// SPDX-License-Identifier: Apache-2.0

// Package lcore is the bench: the packet path, in C on DPDK lcores, and its Go face.
//
//	RoCE hosts                           worker                          IB nodes
//	Ethernet ─▶ parse ▶ ICRC ▶ transport ▶ look up ▶ post            ─▶ IB door
//	Ethernet ◀─ transmit ◀ ICRC ◀ headers ◀ look up ◀ classify ◀ poll ◀─ IB door
//	                 odd frames ▼ ▲ replies, frames to work on again
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

// Room that an mbuf needs around its payload, in bytes; see NewBench.
const (
	// Headroom holds the headers in front of the 40-byte GRH area; it is DPDK's RTE_PKTMBUF_HEADROOM.
	Headroom = 128
	// DataRoom of a pool's mbufs: headroom, the longest frame with one VLAN tag, IPv6 and immediate data,
	// and a cache line for pad, ICRC and trailers.
	DataRoom = Headroom + 14 + 4 + 40 + 8 + 12 + 8 + 4 + MaxPayload + 4 + 64
)

// A Worker is one lcore between an Ethernet queue and its share of the IB door.
type Worker struct {
	c     *C.struct_worker
	bench *Bench
	lcore uint
	runs  bool
}

// Start has the worker run on an EAL lcore of its own until Stop.
func (w *Worker) Start(lcore uint) error {
	if rc := C.worker_start(w.c, C.uint(lcore)); rc != 0 {
		return fmt.Errorf("lcore: start a worker on lcore %d: %w", lcore, syscall.Errno(-rc))
	}
	w.lcore, w.runs = lcore, true
	return nil
}

// Stop has the worker take no more frames, send what is inside, and end. It waits for that, at most
// 0.1 s and a burst.
func (w *Worker) Stop() {
	if w.runs {
		C.worker_stop(w.c, C.uint(w.lcore))
		w.runs = false
	}
}

// Step does one round on the calling thread and returns how many packets moved. Only while the worker
// does not run.
func (w *Worker) Step() int { return int(C.worker_step(w.c)) }

// ID returns the worker's number, from 0.
func (w *Worker) ID() int { return int(w.c.id) }

// Counters reads what the worker counted. Any thread may call it at any time.
func (w *Worker) Counters() Counters {
	c := &w.c.counters
	out := Counters{
		Loops: uint64(c.loops),
		Busy:  uint64(c.busy),
		Odd: OddCounters{
			Received: uint64(c.odd.received),
			Handed:   uint64(c.odd.handed),
			Full:     uint64(c.odd.full),
			Sent:     uint64(c.odd.sent),
			Refused:  uint64(c.odd.refused),
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
		CongestionMarked: uint64(c.notes[C.NOTE_ECN_CE]),
		ReservedBits:     uint64(c.notes[C.NOTE_RESERVED]),
		StandInWaits:     uint64(c.notes[C.NOTE_STANDIN_WAIT]),
		HandedOver:       uint64(c.notes[C.NOTE_HANDED_OVER]),
		SourceBridged:    uint64(c.notes[C.NOTE_SOURCE_BRIDGED]),
	}
	for d, n := range c.drops {
		if n != 0 {
			out.Drops[Drop(d)] = uint64(n)
		}
	}
	return out
}
