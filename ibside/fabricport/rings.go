// SPDX-License-Identifier: Apache-2.0

// Package fabricport is the embedded InfiniBand port: an HCA of the software subnet (ibside/fabric), and for each
// worker a struct ib_port (ibside/port.h) made of two rings of mbufs.
//
//	worker ── post ──▶ ring ── Take ────▶ Port ── QP.Send ───▶ HCA ──▶ subnet
//	worker ◀── poll ── ring ◀── Deliver ── Port ◀─ RecvQueue ── HCA ◀── subnet
//
// Rings alone are enough for tests of the datapath, which act as the subnet with Take and Deliver. A Port joins them to
// an HCA.
//
// Ownership: an mbuf in a ring is the port's. Take frees what it takes; a delivered mbuf is the worker's when it polls
// it. Close frees what is left.
package fabricport

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// areaLen is the GRH area before each received payload.
const areaLen = 40

const maxDepth = 1 << 20

// PrivSize is how many private bytes the mempool must give each mbuf.
const PrivSize = 128

// Causes of drops of messages that could not be handed to their worker.
const (
	DropRingFull = "port_full"  // the worker does not keep up
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
	Rate      ib.Rate
	FlowLabel uint32
	DestQP    ib.QPN
	QKey      ib.QKey
	Imm       uint32 // valid with HasImm
	HasImm    bool
	Solicited bool
	HasGRH    bool // the address handle has a GRH
	FECN      bool
	Len       int    // of the message; Payload is cut at 4096 bytes
	Payload   []byte // the caller's
}

// Rings are those of all workers. Their methods may be called from any goroutine, but not during or after Close.
type Rings struct {
	ends       []*end
	maxPayload int
}

// NewRings makes rings for that many workers, with room for depth messages each way and each worker. Received messages
// get mbufs of pool, which must give each mbuf PrivSize private bytes; so must the pools of mbufs that are posted. The
// rings of a worker are on the NUMA node of its lcore, where that is given.
func NewRings(pool *dpdk.Mempool, workers, depth int, lcores ...uint) (*Rings, error) {
	if workers < 1 || depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("fabricport: %d workers and depth %d; use at least one worker and a depth of 1 to %d",
			workers, depth, maxDepth)
	}
	maxPayload, err := checkPool(pool)
	if err != nil {
		return nil, err
	}
	d := &Rings{maxPayload: maxPayload}
	for w := range workers {
		var lcore uint
		if w < len(lcores) {
			lcore = lcores[w]
		}
		e, err := newEnd(pool, w, depth, lcore)
		if err != nil {
			d.Close()
			return nil, err
		}
		d.ends = append(d.ends, e)
	}
	return d, nil
}

// Workers returns how many workers there are rings for.
func (r *Rings) Workers() int { return len(r.ends) }

// Take takes up to len(to) messages that a worker posted, oldest first, frees their mbufs, and returns how many.
// It does not wait.
func (r *Rings) Take(worker int, to []Sent) int {
	e := r.ends[worker]
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
func (r *Rings) Deliver(worker int, msgs []Received) int {
	n, _ := r.deliver(worker, msgs)
	return n
}

func (r *Rings) deliver(worker int, msgs []Received) (int, string) {
	e := r.ends[worker]
	e.deliverMu.Lock()
	defer e.deliverMu.Unlock()
	fit, tooLong := len(msgs), ""
	for i := range msgs {
		if len(msgs[i].Payload) > r.maxPayload {
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

// pending returns how many messages lie in the rings, both ways.
func (r *Rings) pending() int {
	n := 0
	for _, e := range r.ends {
		n += e.pendingSends() + e.pendingReceives()
	}
	return n
}

func (r *Rings) pendingSends(worker int) int { return r.ends[worker].pendingSends() }

// posted returns a file that is readable when a worker has posted messages after armSends. It is the caller's.
func (r *Rings) posted(worker int) (*os.File, error) {
	fd, err := unix.FcntlInt(r.ends[worker].postedFD(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fabricport: wake-ups by worker %d: %w", worker, err)
	}
	return os.NewFile(uintptr(fd), "posted"), nil
}

func (r *Rings) armSends(worker int)    { r.ends[worker].armSends() }
func (r *Rings) disarmSends(worker int) { r.ends[worker].disarmSends() }

// Close frees the rings and the mbufs in them. The workers must have stopped.
func (r *Rings) Close() error {
	for _, e := range r.ends {
		e.free()
	}
	r.ends = nil
	return nil
}
