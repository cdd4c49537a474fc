// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"
	"sync/atomic"

	"causeway/app/e2e/ibswitch/link"
	"causeway/ibside/fabric"
)

// attachmentQueue is how many packets wait for the adapter.
const attachmentQueue = 1024

// attachment is the adapter's fabric.Port, with what the subnet manager had assigned when it was made.
type attachment struct {
	info   fabric.PortInfo
	link   link.Link
	queue  chan []byte
	closed chan struct{}
	once   sync.Once

	came  atomic.Int64 // packets that were queued
	taken int64        // of these, by Recv's caller
	done  atomic.Int64 // of these, that he has processed
}

func newAttachment(info fabric.PortInfo, l link.Link) *attachment {
	return &attachment{info: info, link: l, queue: make(chan []byte, attachmentQueue), closed: make(chan struct{})}
}

// Info returns what the subnet manager assigned.
func (a *attachment) Info() fabric.PortInfo { return a.info }

// Down implements fabric.Port: the subnet manager's state of the port is the node's.
func (a *attachment) Down() string { return "" }

// Send passes packets to the link.
func (a *attachment) Send(packets ...[]byte) int {
	for i, packet := range packets {
		select {
		case <-a.closed:
			return i
		default:
			if a.link.Send(packet) != nil {
				return i
			}
		}
	}
	return len(packets)
}

// Sent implements fabric.Port: a link passes packets at once.
func (a *attachment) Sent() bool { return true }

// Drained implements fabric.Port.
func (a *attachment) Drained() bool { return a.done.Load() == a.came.Load() }

// put queues a packet of the link. It reports false when there is no room.
func (a *attachment) put(packet []byte) bool {
	a.came.Add(1)
	select {
	case a.queue <- packet:
		return true
	default:
		a.came.Add(-1)
		return false
	}
}

// Recv waits for packets of the link.
func (a *attachment) Recv(packets [][]byte) (n int, err error) {
	a.done.Store(a.taken)
	defer func() { a.taken += int64(n) }()
	select {
	case packets[0] = <-a.queue:
	case <-a.closed:
		return 0, fabric.ErrClosed
	}
	for n = 1; n < len(packets); n++ {
		select {
		case packets[n] = <-a.queue:
		default:
			return n, nil
		}
	}
	return n, nil
}

// Close ends Recv.
func (a *attachment) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}
