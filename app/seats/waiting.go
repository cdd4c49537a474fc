// SPDX-License-Identifier: Apache-2.0

package seats

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// again is how soon another connection is tried to be accepted after one could not be.
	again = 100 * time.Millisecond
	// apart is how long all connections could be accepted when another shortage is told of: in one, each client that goes
	// leaves a file descriptor to the next.
	apart = time.Minute
)

// Waiting is a listener that lets clients wait for as long as no connection can be accepted: the process has no file
// descriptor left, for example. It says so once, not each time that it tries. One goroutine may accept.
type Waiting struct {
	net.Listener
	say    func(error)
	failed time.Time // when a connection could last not be accepted
	closed chan struct{}
	once   sync.Once
}

// NewWaiting returns such a listener. say is called by Accept.
func NewWaiting(l net.Listener, say func(error)) *Waiting {
	return &Waiting{Listener: l, say: say, closed: make(chan struct{})}
}

// Accept implements net.Listener. Its only error is net.ErrClosed.
func (w *Waiting) Accept() (net.Conn, error) {
	for {
		c, err := w.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		if time.Since(w.failed) > apart {
			w.say(err)
		}
		w.failed = time.Now()
		select {
		case <-time.After(again):
		case <-w.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (w *Waiting) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Listener.Close()
}
