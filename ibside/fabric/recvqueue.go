// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"sync"

	"causeway/ibside/ib"
)

// Received is one message of a queue pair, with the fields of a verbs completion. GRH and Payload together are the
// receive buffer.
type Received struct {
	QPN       ib.QPN // the local queue pair
	SrcQP     ib.QPN
	SLID      ib.LID
	SL        ib.SL
	PKeyIndex uint16 // index of the matching P_Key in the port's table; verbs report it only for QP1
	Imm       uint32 // valid with HasImm
	HasImm    bool
	HasGRH    bool
	Solicited bool
	FECN      bool     // not available in verbs
	GRH       [40]byte // wire order; zeros without HasGRH
	Payload   []byte   // shared with other receivers of a multicast: do not modify it
}

// Buffer returns a copy of the receive buffer: the 40-byte area, then the payload.
func (r *Received) Buffer() []byte { return append(r.GRH[:len(r.GRH):len(r.GRH)], r.Payload...) }

// MGID returns the group a message was sent to, or the zero GID.
func (r *Received) MGID() ib.GID {
	grh, ok := ib.AsGRH(r.GRH[:])
	if !ok || !r.HasGRH || !grh.DGID().IsIBMulticast() {
		return ib.GID{}
	}
	return grh.DGID()
}

// RecvQueue is a shared receive queue with its completion queue: it holds at most as many messages as it has buffers.
// Several queue pairs of one HCA may share it.
type RecvQueue struct {
	mu      sync.Mutex
	ring    []Received
	head, n int
	filled  chan struct{} // one token when there may be messages
}

// NewRecvQueue returns a queue of that many buffers, at least one.
func NewRecvQueue(buffers int) *RecvQueue {
	return &RecvQueue{ring: make([]Received, max(1, buffers)), filled: make(chan struct{}, 1)}
}

// put reports false when no buffer is left.
func (q *RecvQueue) put(r *Received) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == len(q.ring) {
		return false
	}
	q.ring[(q.head+q.n)%len(q.ring)] = *r
	if q.n++; q.n == 1 {
		q.signal() // Poll does, for what it leaves
	}
	return true
}

func (q *RecvQueue) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// Poll returns received messages, at most len(to), and reposts their buffers. It does not wait.
func (q *RecvQueue) Poll(to []Received) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(q.n, len(to))
	for i := range n {
		to[i], q.ring[q.head] = q.ring[q.head], Received{}
		q.head = (q.head + 1) % len(q.ring)
	}
	q.n -= n
	if q.n > 0 {
		q.signal()
	}
	return n
}

// Wait waits for a message or the end of ctx. Only one goroutine may wait.
func (q *RecvQueue) Wait(ctx context.Context) error {
	for q.Len() == 0 {
		select {
		case <-q.filled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Len returns the number of received messages.
func (q *RecvQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}
