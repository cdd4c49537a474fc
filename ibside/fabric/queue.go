// SPDX-License-Identifier: Apache-2.0

package fabric

import "sync"

// queue is the bounded receive queue of a port, with many senders and one receiver. in = out + lost + len, always.
type queue struct {
	mu      sync.Mutex
	ready   sync.Cond
	ring    [][]byte
	head, n int
	closed  bool
	poked   bool // see poke

	in, out  uint64 // packets put, packets taken
	full     uint64 // lost: no room
	orphaned uint64 // lost: in the queue when it was closed, or put later
	done     uint64 // of out: processed by the receiver
}

func newQueue(depth int) *queue {
	q := &queue{ring: make([][]byte, depth)}
	q.ready.L = &q.mu
	return q
}

// put appends packets, and counts as lost those for which there is no room.
func (q *queue) put(packets [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.in += uint64(len(packets))
	if q.closed {
		q.orphaned += uint64(len(packets))
		return
	}
	fit := min(len(packets), len(q.ring)-q.n)
	q.full += uint64(len(packets) - fit)
	for _, packet := range packets[:fit] {
		q.ring[(q.head+q.n)%len(q.ring)] = packet
		q.n++
	}
	if fit > 0 {
		q.ready.Signal()
	}
}

// take waits for packets. It returns 0 only when the queue is closed, or after poke.
func (q *queue) take(packets [][]byte) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = q.out
	for q.n == 0 && !q.closed && !q.poked {
		q.ready.Wait()
	}
	if q.poked {
		q.poked = false
		return 0
	}
	n := min(q.n, len(packets))
	for i := range n {
		packets[i], q.ring[q.head] = q.ring[q.head], nil
		q.head = (q.head + 1) % len(q.ring)
	}
	q.n -= n
	q.out += uint64(n)
	return n
}

// poke makes take return without packets once.
func (q *queue) poke() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.poked = true
	q.ready.Broadcast()
}

// isDone reports whether the receiver has processed all packets.
func (q *queue) isDone() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0 && q.done == q.out
}

// isClosed reports whether the queue is closed.
func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close drops the remaining packets and wakes the receiver.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.orphaned += uint64(q.n)
	q.n = 0
	clear(q.ring)
	q.ready.Broadcast()
}

// idle reports whether the queue is empty and the receiver has processed everything.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed || q.n == 0 && q.done == q.out
}

func (q *queue) stats() PortStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := PortStats{Queued: q.in, Taken: q.out, Waiting: uint64(q.n), Drops: Counts{}}
	if q.full > 0 {
		s.Drops[DropQueueFull] = q.full
	}
	if q.orphaned > 0 {
		s.Drops[DropPortClosed] = q.orphaned
	}
	return s
}
