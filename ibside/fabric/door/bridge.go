// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// More causes of drops, of messages that a worker posted; the others are those of fabric.QP.Send.
const (
	DropWrongWorker = "qp_worker" // the queue pair is another worker's
	DropShutdown    = "shutdown"  // received, but the bridge was stopping
)

// defaultBuffers is how many messages wait for a worker's ring, each of them one receive buffer.
const defaultBuffers = 4096

// The pause of a pump that found nothing: doubled each time, so that an idle bridge costs little.
const (
	shortestPause = 20 * time.Microsecond
	longestPause  = time.Millisecond
)

// BridgeConfig says how a Bridge uses its HCA.
type BridgeConfig struct {
	PKey    ib.PKey // of stand-ins; zero: the port's first
	Buffers int     // receive buffers of each worker; zero: 4096
}

// Bridge joins a Door to an HCA: each worker has queue pairs of its own, which share a receive queue of its own. Its
// methods are management's face of the InfiniBand side, and may be called from any goroutine.
type Bridge struct {
	door      *Door
	hca       *fabric.HCA
	subnet    Subnet
	pkeyIndex uint16
	workers   []*workerSide
	stop      context.CancelFunc
	ended     sync.WaitGroup

	mu      sync.RWMutex
	qps     map[uint32]handle
	lastQP  uint32
	shared  map[sharedKey]*sharedQP // the multicast queue pairs
	joinMu  sync.Mutex              // one change of these at a time
	groups  map[ib.GID]*joined      // under joinMu
	posted  atomic.Uint64
	sent    atomic.Uint64
	toDoor  atomic.Uint64
	notSent counter
	dropped counter
}

// handle is what a worker calls a queue pair by. Handles are never used twice: a late send cannot meet another's.
type handle struct {
	qp     *fabric.QP
	worker int
}

// workerSide is what the bridge holds for one worker.
type workerSide struct {
	id         int
	recv       *fabric.RecvQueue
	sending    atomic.Bool // messages may be between the ring and the HCA
	delivering atomic.Bool // and between the HCA and the ring
}

// counter counts by cause.
type counter struct {
	mu sync.Mutex
	n  fabric.Counts
}

func (c *counter) add(cause string, n uint64) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = fabric.Counts{}
	}
	c.n[cause] += n
}

func (c *counter) into(sum fabric.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cause, n := range c.n {
		sum[cause] += n
	}
}

// NewBridge starts to move messages. The door and the HCA stay the caller's, to be closed after the Bridge.
func NewBridge(d *Door, h *fabric.HCA, c BridgeConfig) (*Bridge, error) {
	index := 0
	if c.PKey != 0 {
		pkeys := h.Info().PKeys
		if index = slices.Index(pkeys, c.PKey); index < 0 {
			return nil, fmt.Errorf("fabric/door: the port has no P_Key %v, only %v", c.PKey, pkeys)
		}
	}
	if c.Buffers <= 0 {
		c.Buffers = defaultBuffers
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Bridge{
		door: d, hca: h, pkeyIndex: uint16(index), stop: stop,
		qps: map[uint32]handle{}, shared: map[sharedKey]*sharedQP{}, groups: map[ib.GID]*joined{},
	}
	for id := range d.Workers() {
		w := &workerSide{id: id, recv: fabric.NewRecvQueue(c.Buffers)}
		b.workers = append(b.workers, w)
		b.ended.Go(func() { b.pumpSends(ctx, w) })
		b.ended.Go(func() { b.pumpReceives(ctx, w) })
	}
	return b, nil
}

// pumpSends brings what a worker posts to the HCA. A ring has no bell, so it looks again and again. When the
// bridge stops, it sends what is left.
func (b *Bridge) pumpSends(ctx context.Context, w *workerSide) {
	msgs := make([]Sent, burst)
	for pause := shortestPause; ; {
		stopping := ctx.Err() != nil
		w.sending.Store(true)
		n := b.door.Take(w.id, msgs)
		b.posted.Add(uint64(n))
		for i := range msgs[:n] {
			if cause := b.send(w, &msgs[i]); cause != "" {
				b.notSent.add(cause, 1)
			} else {
				b.sent.Add(1)
			}
		}
		w.sending.Store(false)
		switch {
		case n > 0:
			pause = shortestPause
		case stopping:
			return
		default:
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		}
	}
}

// send returns why a message was dropped, or "".
func (b *Bridge) send(w *workerSide, s *Sent) string {
	b.mu.RLock()
	h, ok := b.qps[s.QP]
	b.mu.RUnlock()
	switch {
	case !ok:
		return fabric.DropNoQP
	case h.worker != w.id:
		return DropWrongWorker
	case s.Len != len(s.Payload):
		return fabric.DropMTU
	case s.PKeyIndex != h.qp.PKeyIndex():
		return fabric.DropPKeyIndex
	case s.Source != 0: // the port has one GID
		return fabric.DropAH
	}
	m := fabric.Send{
		AH: fabric.AH{DLID: s.DLID, SL: s.SL}, DestQP: s.DestQP, QKey: s.QKey, Imm: s.Imm, HasImm: s.HasImm,
		Solicited: s.Solicited, FECN: s.FECN, Payload: s.Payload,
	}
	if s.HasGRH {
		m.AH.GRH = &ib.GRHFields{DGID: s.DGID, TClass: s.TClass, FlowLabel: s.FlowLabel, HopLimit: s.HopLimit}
	}
	return h.qp.Send(&m)
}

// pumpReceives brings what the HCA received for a worker to its ring.
func (b *Bridge) pumpReceives(ctx context.Context, w *workerSide) {
	msgs := make([]Received, burst)
	for {
		stopping := w.recv.Wait(ctx) != nil
		w.delivering.Store(true)
		n := w.recv.Poll(msgs)
		b.deliver(w, msgs[:n], stopping)
		w.delivering.Store(false)
		if stopping && n == 0 {
			return
		}
	}
}

// deliver drops what the worker cannot take: all that is left of the burst when its ring is full or the pool empty, one
// message when that one is too long.
func (b *Bridge) deliver(w *workerSide, msgs []Received, stopping bool) {
	if stopping {
		b.dropped.add(DropShutdown, uint64(len(msgs)))
		return
	}
	for len(msgs) > 0 {
		n, why := b.door.deliver(w.id, msgs)
		b.toDoor.Add(uint64(n))
		msgs = msgs[n:]
		lost := len(msgs)
		if why == DropTooLong {
			lost = 1
		}
		if why != "" {
			b.dropped.add(why, uint64(lost))
			msgs = msgs[lost:]
		}
	}
}

// Counters are the bridge's. At any quiet moment Received = Delivered + Management + Drops.Sum() and
// Posted = Sent + SendDrops.Sum().
type Counters struct {
	Received   uint64 // messages the HCA received, good or bad
	Delivered  uint64 // handed to workers
	Management uint64 // to QP1
	Drops      fabric.Counts

	Posted    uint64 // taken from workers
	Sent      uint64 // to the subnet
	SendDrops fabric.Counts
}

// Counters returns the counters.
func (b *Bridge) Counters() Counters {
	h := b.hca.Stats()
	c := Counters{
		Received: h.Received, Delivered: b.toDoor.Load(), Management: h.ToQP1, Drops: h.Drops,
		Posted: b.posted.Load(), Sent: b.sent.Load(), SendDrops: fabric.Counts{},
	}
	b.dropped.into(c.Drops)
	b.notSent.into(c.SendDrops)
	return c
}

// Drain waits until all that workers have posted is sent, and all that was received is in their rings, or dropped.
func (b *Bridge) Drain(ctx context.Context) error {
	for !b.idle() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("fabric/door: drain: %w", ctx.Err())
		case <-time.After(shortestPause):
		}
	}
	return nil
}

// idle looks at the queues first: who takes from one has said before that he is busy.
func (b *Bridge) idle() bool {
	for _, w := range b.workers {
		if b.door.pendingSends(w.id) > 0 || w.sending.Load() || w.recv.Len() > 0 || w.delivering.Load() {
			return false
		}
	}
	return true
}

// Close sends what workers have posted and destroys the queue pairs. The groups are the Subnet's to leave.
func (b *Bridge) Close() {
	b.mu.Lock()
	for _, h := range b.qps {
		defer h.qp.Destroy() // after the last send
	}
	b.mu.Unlock()
	b.stop()
	b.ended.Wait()
}
