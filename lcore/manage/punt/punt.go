// SPDX-License-Identifier: Apache-2.0

// Package punt is what management sees of the workers: the frames that they punt, and their rings for frames to send.
//
//	worker ── TakePunted ──▶ loop ──▶ a part of management ── Workers.Send ──▶ worker's send ring
//	       ◀─ Requeue, Reject ── pending packet
package punt

import (
	"maps"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// A Worker is what management sees of a worker lcore.
type Worker interface {
	// TakePunted takes what the worker punted, at most a burst.
	TakePunted() []Frame
	// Send makes the worker send a frame unchanged by an Ethernet port, known by its index.
	Send(port uint8, frame []byte) error
}

// A Frame is one that a worker punted.
type Frame struct {
	Data    []byte
	Port    uint8         // the index of the Ethernet port that it came by
	Pending PendingPacket // nil: the frame is for management itself
	Unknown ib.NodeKey    // not zero: there is no frame, a packet was dropped because no table has this node
}

// A PendingPacket is RoCE data that waits for a proxy QP. Exactly one call of Requeue or Reject ends it.
type PendingPacket interface {
	Worker() int      // that received it
	Partition() uint8 // that the proxy QP is to send in, by number
	Requeue()         // the proxy QP exists
	Reject(Rejection)
}

// A Rejection says why pending data got no proxy QP.
type Rejection int

// The rejections.
const (
	RejectFull        Rejection = iota // a limit is reached, or the IB port gives no QP
	RejectSource                       // the source contradicts what is configured for its address
	RejectStopped                      // the bridge is stopping
	RejectBusy                         // too many packets wait for proxy QPs that are being made
	RejectDenied                       // policy does not allow the source any more
	RejectUnconfirmed                  // the source has not shown that it exists
	RejectRate                         // proxy QPs are wanted too fast
	RejectSegment                      // its VLAN is no segment's any more
)

// TTL is the time to live, or hop limit, of datagrams that the bridge itself sends.
const TTL = 64

// VID returns the VLAN of a frame, 0 when it has no tag.
func VID(f frame.Frame) uint16 {
	if f.Tag == nil {
		return 0
	}
	return f.Tag.VID()
}

// Counters counts punted frames that no part took, and frames that could not be sent.
type Counters struct {
	SendFailed uint64
	NotForUs   uint64 // understood, and nothing to do
	Malformed  map[string]uint64
}

// Workers are all workers, by number, with one of their Ethernet ports. Only the loop's goroutine may use them.
type Workers struct {
	workers []Worker
	port    uint8
	count   *Counters // of all ports
}

// NewWorkers makes Workers with the first port.
func NewWorkers(workers []Worker) *Workers { return &Workers{workers: workers, count: &Counters{}} }

// By returns the same workers with another port.
func (w *Workers) By(port uint8) *Workers { return &Workers{w.workers, port, w.count} }

// Len returns how many workers there are.
func (w *Workers) Len() int { return len(w.workers) }

// Send makes a worker send a frame. When the worker's ring is full, it counts that and returns false.
func (w *Workers) Send(worker int, frame []byte) bool {
	if err := w.workers[worker].Send(w.port, frame); err != nil {
		w.count.SendFailed++
		return false
	}
	return true
}

// NotSent counts a frame that was not made, because nothing could be sent there.
func (w *Workers) NotSent() { w.count.SendFailed++ }

// NotForUs counts a frame that was understood and asks for nothing.
func (w *Workers) NotForUs() { w.count.NotForUs++ }

// Malformed counts a frame with a fault of that name.
func (w *Workers) Malformed(fault string) {
	if w.count.Malformed == nil {
		w.count.Malformed = map[string]uint64{}
	}
	w.count.Malformed[fault]++
}

// Counters returns a copy of the counters.
func (w *Workers) Counters() Counters {
	c := *w.count
	c.Malformed = maps.Clone(c.Malformed)
	return c
}
