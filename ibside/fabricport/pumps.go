// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/fabric"
)

// More reasons to drop a message; fabric.QP.Send has the others for sends.
const (
	DropWrongWorker = "qp_worker" // the queue pair is another worker's
	DropShutdown    = "shutdown"  // received while the port was closing
)

// receiveBuffers is how many messages may wait for a worker's ring.
const receiveBuffers = 4096

// The pause of a pump that found nothing. It is doubled each time. After the longest the pump sleeps until a worker
// wakes it: under load no worker has to, as that takes a system call.
const (
	shortestPause = 20 * time.Microsecond
	longestPause  = 80 * time.Microsecond
)

// workerSide is what the port has for one worker.
type workerSide struct {
	id         int
	recv       *fabric.RecvQueue
	posted     *os.File      // readable when the worker has posted messages to a pump that sleeps
	sending    atomic.Bool   // messages may be between the ring and the HCA
	pumped     atomic.Uint64 // messages that are not any more: sent or dropped
	delivering atomic.Bool   // messages may be between the HCA and the ring
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

// pumpSends takes what a worker posts to the HCA. When the port closes, it sends what is left.
func (p *Port) pumpSends(ctx context.Context, w *workerSide) {
	stop := context.AfterFunc(ctx, func() { w.posted.SetReadDeadline(time.Now()) })
	defer stop()
	sends := newSends(p, w)
	for pause := shortestPause; ; {
		stopping := ctx.Err() != nil
		w.sending.Store(true)
		n := sends.pump()
		w.pumped.Add(uint64(n))
		w.sending.Store(false)
		switch {
		case n > 0:
			pause = shortestPause
		case stopping:
			return
		default:
			if pause <= longestPause {
				time.Sleep(pause)
				pause *= 2
				continue
			}
			p.awaitSends(w)
			pause = shortestPause
		}
	}
}

// awaitSends returns when the worker has posted messages, or the port closes.
func (p *Port) awaitSends(w *workerSide) {
	p.rings.armSends(w.id)
	defer p.rings.disarmSends(w.id)
	if p.rings.pendingSends(w.id) > 0 {
		return
	}
	var count [8]byte
	_, _ = w.posted.Read(count[:]) // an error is that of the deadline
}

// pumpReceives takes what the HCA has received for a worker to its ring.
func (p *Port) pumpReceives(ctx context.Context, w *workerSide) {
	msgs := make([]Received, burst)
	for {
		stopping := w.recv.Wait(ctx) != nil
		w.delivering.Store(true)
		n := w.recv.Poll(msgs)
		p.deliver(w, msgs[:n], stopping)
		w.delivering.Store(false)
		if stopping && n == 0 {
			return
		}
	}
}

// deliver drops what does not fit: the rest of the burst when the worker's ring is full or the pool empty, one message
// when that one is too long.
func (p *Port) deliver(w *workerSide, msgs []Received, stopping bool) {
	if stopping {
		p.dropped.add(DropShutdown, uint64(len(msgs)))
		return
	}
	for len(msgs) > 0 {
		n, why := p.rings.deliver(w.id, msgs)
		p.delivered.Add(uint64(n))
		msgs = msgs[n:]
		lost := len(msgs)
		if why == DropTooLong {
			lost = 1
		}
		if why != "" {
			p.dropped.add(why, uint64(lost))
			msgs = msgs[lost:]
		}
	}
}

// counters are the port's. While nothing is on its way, Received = Delivered + Management + Drops.Sum() and
// Posted = Sent + SendDrops.Sum().
type counters struct {
	Received   uint64 // messages the HCA received, good or bad
	Delivered  uint64 // handed to workers
	Management uint64 // to QP1
	Drops      fabric.Counts

	Posted    uint64 // taken from workers
	Sent      uint64 // to the subnet
	SendDrops fabric.Counts
}

func (p *Port) counters() counters {
	h := p.hca.Stats()
	c := counters{
		Received: h.Received, Delivered: p.delivered.Load(), Management: h.ToQP1, Drops: h.Drops,
		Posted: p.posted.Load(), Sent: p.sent.Load(), SendDrops: fabric.Counts{},
	}
	p.dropped.into(c.Drops)
	p.notSent.into(c.SendDrops)
	return c
}

// AwaitSent implements ibside.OpenPort.
func (p *Port) AwaitSent(ctx context.Context) error {
	posted := make([]uint64, len(p.workers))
	for i, w := range p.workers {
		waiting := p.rings.pendingSends(w.id) // before pumped, which only grows
		posted[i] = uint64(waiting) + burst + w.pumped.Load()
	}
	return waitUntil(ctx, "send", func() bool {
		for i, w := range p.workers {
			if w.pumped.Load() < posted[i] && !p.idle(w) {
				return false
			}
		}
		return p.hca.Sent()
	})
}

// AwaitReceived implements ibside.OpenPort.
func (p *Port) AwaitReceived(ctx context.Context) error {
	if err := waitUntil(ctx, "receive", p.hca.Drained); err != nil {
		return err
	}
	for _, w := range p.workers {
		if err := waitUntil(ctx, "receive", w.delivered); err != nil {
			return err
		}
	}
	return nil
}

// delivered reports whether the worker's ring has all that the HCA has received for it. The pump sets its flag before it takes.
func (w *workerSide) delivered() bool { return w.recv.Len() == 0 && !w.delivering.Load() }

// drain waits until all that workers have posted is sent, and all that was received is in their rings or dropped.
func (p *Port) drain(ctx context.Context) error {
	return waitUntil(ctx, "drain", func() bool {
		for _, w := range p.workers {
			if !p.idle(w) || !w.delivered() {
				return false
			}
		}
		return true
	})
}

// waitUntil waits until something is done.
func waitUntil(ctx context.Context, what string, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("fabricport: %s: %w", what, ctx.Err())
		case <-time.After(shortestPause):
		}
	}
	return nil
}

// idle reports whether the HCA has all that a worker posts. It looks at the ring first: the pump sets its flag before it takes
// from it.
func (p *Port) idle(w *workerSide) bool {
	return p.rings.pendingSends(w.id) == 0 && !w.sending.Load()
}

// stopPumps sends what workers have posted, and destroys the queue pairs.
func (p *Port) stopPumps() {
	p.mu.Lock()
	for _, h := range p.qps {
		defer h.qp.Destroy() // after the last send
	}
	p.mu.Unlock()
	p.stop()
	p.ended.Wait()
	p.closeWorkers()
}
