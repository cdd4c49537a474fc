// SPDX-License-Identifier: Apache-2.0

// Package door hangs the software subnet (causeway/ibside/fabric) before the bench: it gives each worker a struct
// ib_door (ibside/door.h) made of two rings of mbufs.
//
//	worker ── post ──▶ ring ── Take ────▶ Bridge ── QP.Send ──▶ HCA ──▶ subnet
//	worker ◀── poll ── ring ◀── Deliver ── Bridge ◀─ RecvQueue ─ HCA ◀── subnet
//
// Door alone is the rings: tests of the bench play the subnet with Take and Deliver. Bridge joins them to an HCA and
// is what management talks to.
//
// Ownership: an mbuf in a ring is the door's. Take frees what it takes; a delivered mbuf is the worker's when it
// polls it. What is left is freed by Close.
package door

import (
	"fmt"

	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// areaLen is the GRH area before each received payload.
const areaLen = 40

const maxDepth = 1 << 20

// PrivSize is how many private bytes each mbuf of the door's mempool must have.
const PrivSize = 128

// Causes of drops of messages that could not be handed to their worker.
const (
	DropRingFull = "door_full"  // the worker does not keep up
	DropNoMbuf   = "no_mbuf"    // the mempool is empty
	DropTooLong  = "mbuf_small" // the payload does not fit one mbuf of the pool
)

// Received is one message for a worker.
type Received = fabric.Received

// Sent is one message that a worker posted: struct ib_send in Go, with the payload copied.
type Sent struct {
	QP        uint32 // handle of the sending queue pair
	DGID      ib.GID
	DLID      ib.LID
	SL        ib.SL
	HopLimit  uint8
	TClass    uint8
	Source    uint8
	FlowLabel uint32
	DestQP    ib.QPN
	QKey      ib.QKey
	Imm       uint32 // valid with HasImm
	PKeyIndex uint16
	HasImm    bool
	Solicited bool
	HasGRH    bool // the address handle has a GRH
	FECN      bool
	Len       int    // of the message; Payload is cut at 4096 bytes
	Payload   []byte // the caller's
}

// Door is the embedded InfiniBand door of all workers. Its methods may be called from any goroutine, but not
// during or after Close.
type Door struct {
	ends       []*end
	maxPayload int
}

// New makes a door for that many workers, with room for depth messages each way and each worker. Received messages
// get mbufs of pool, which must give each mbuf PrivSize private bytes; so must the pools of mbufs that are
// posted.
func New(pool *dpdk.Mempool, workers, depth int) (*Door, error) {
	if workers < 1 || depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("fabric/door: %d workers and depth %d; use at least one worker and a depth of 1 to %d",
			workers, depth, maxDepth)
	}
	maxPayload, err := checkPool(pool)
	if err != nil {
		return nil, err
	}
	d := &Door{maxPayload: maxPayload}
	for w := range workers {
		e, err := newEnd(pool, w, depth)
		if err != nil {
			d.Close()
			return nil, err
		}
		d.ends = append(d.ends, e)
	}
	return d, nil
}

// Workers returns how many workers the door is for.
func (d *Door) Workers() int { return len(d.ends) }

// MaxPayload returns the largest payload, in bytes, that fits the pool's mbufs: 4096 unless they are small.
func (d *Door) MaxPayload() int { return d.maxPayload }

// Take takes up to len(to) messages that a worker posted, oldest first, frees their mbufs, and returns how many.
// It does not wait.
func (d *Door) Take(worker int, to []Sent) int {
	e := d.ends[worker]
	e.takeMu.Lock()
	defer e.takeMu.Unlock()
	done := 0
	for done < len(to) {
		n := e.take(to[done:])
		done += n
		if n < burst {
			break
		}
	}
	return done
}

// Deliver hands messages to a worker and returns how many it took, always the first ones: less than all when the
// ring is full, the pool is empty, or the next message is longer than MaxPayload.
func (d *Door) Deliver(worker int, msgs []Received) int {
	n, _ := d.deliver(worker, msgs)
	return n
}

func (d *Door) deliver(worker int, msgs []Received) (int, string) {
	e := d.ends[worker]
	e.deliverMu.Lock()
	defer e.deliverMu.Unlock()
	fit, tooLong := len(msgs), ""
	for i := range msgs {
		if len(msgs[i].Payload) > d.maxPayload {
			fit, tooLong = i, DropTooLong
			break
		}
	}
	done := 0
	for done < fit {
		n, why := e.deliver(msgs[done:fit])
		done += n
		if why != "" {
			return done, why
		}
	}
	return done, tooLong
}

// Pending returns how many messages lie in the rings, both ways.
func (d *Door) Pending() int {
	n := 0
	for _, e := range d.ends {
		n += e.pendingSends() + e.pendingReceives()
	}
	return n
}

func (d *Door) pendingSends(worker int) int { return d.ends[worker].pendingSends() }

// Close frees the rings and the mbufs in them. The workers must have stopped.
func (d *Door) Close() error {
	for _, e := range d.ends {
		e.free()
	}
	d.ends = nil
	return nil
}
