// SPDX-License-Identifier: Apache-2.0

package link

import (
	"sync"
	"sync/atomic"
)

// wire joins two ends. Its goroutine owns what is plugged in, and tells both ports.
type wire struct {
	ends     [2]*End
	plugged  [2]bool
	up       atomic.Bool
	requests chan func()
	closed   chan struct{}
	once     sync.Once
	begun    sync.WaitGroup
	ended    chan struct{}
}

// End is an end of a link within this process.
type End struct {
	wire *wire
	side int
	port Port
}

// Pipe makes a link of two ends. It comes up when both are started.
func Pipe() (*End, *End) {
	w := &wire{requests: make(chan func()), closed: make(chan struct{}), ended: make(chan struct{}), plugged: [2]bool{true, true}}
	w.ends = [2]*End{{wire: w, side: 0}, {wire: w, side: 1}}
	w.begun.Add(len(w.ends))
	go w.train()
	return w.ends[0], w.ends[1]
}

func (w *wire) train() {
	defer close(w.ended)
	w.begun.Wait()
	for {
		w.set(w.plugged[0] && w.plugged[1])
		select {
		case f := <-w.requests:
			f()
		case <-w.closed:
			w.set(false)
			return
		}
	}
}

// set tells both ports of a change.
func (w *wire) set(up bool) {
	if w.up.Swap(up) == up {
		return
	}
	for _, e := range w.ends {
		e.port.LinkChanged(up)
	}
}

func (w *wire) request(f func()) {
	select {
	case w.requests <- f:
	case <-w.closed:
	}
}

// Start plugs the end into its port.
func (e *End) Start(p Port) {
	e.port = p
	e.wire.begun.Done()
}

// Send passes the packet to the other end's port.
func (e *End) Send(packet []byte) error {
	if !e.wire.up.Load() {
		return ErrDown
	}
	e.wire.ends[1-e.side].port.Receive(packet)
	return nil
}

// Retrain makes the link go down and come up again, at both ends.
func (e *End) Retrain() { e.wire.request(func() { e.wire.set(false) }) } // train brings it up again

// Plug pulls this end out, or puts it in again.
func (e *End) Plug(in bool) { e.wire.request(func() { e.wire.plugged[e.side] = in }) }

// Close takes the link down for good. Both ends must have been started.
func (e *End) Close() error {
	e.wire.once.Do(func() { close(e.wire.closed) })
	<-e.wire.ended
	return nil
}
