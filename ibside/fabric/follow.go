// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

// The pauses between attempts to attach again: each is twice as long as the one before.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	// followPatience is how long the other process may take to read, or to answer: one that is stopped keeps nobody.
	followPatience = time.Second
)

// followedPort is a port on the subnet of another process, which attaches again when that process has ended and a subnet
// is at the path again. Meanwhile it has no link.
//
//	Recv ── packets ── lost: none, and Down ── dials until it is attached: none, and another Info ── packets
type followedPort struct {
	dialer Dialer
	path   string
	guid   ib.GUID
	name   string
	ctx    context.Context // ends with Close
	stop   context.CancelFunc

	now  atomic.Pointer[remotePort] // nil: no link
	recv sync.Mutex                 // one receiver

	mu   sync.Mutex
	info PortInfo
	why  string // there is no link
}

// Follow is Dial for a port that attaches again, under the same name and GUID, whenever it has lost its subnet. Recv does
// so. Its first attempt is Follow's: on an error there is no port.
func Follow(path string, guid ib.GUID, name string) (Port, error) {
	f := &followedPort{dialer: Dialer{Timeout: followPatience, Patience: followPatience}, path: path, guid: guid, name: name}
	f.ctx, f.stop = context.WithCancel(context.Background())
	if err := f.attach(); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// attach attaches once.
func (f *followedPort) attach() error {
	p, err := f.dialer.dial(f.ctx, f.path, f.guid, f.name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.info, f.why = p.info, ""
	f.mu.Unlock()
	f.now.Store(p)
	if f.ctx.Err() != nil { // Close may have missed it
		return errors.Join(ErrClosed, p.Close())
	}
	return nil
}

// lost takes the link down.
func (f *followedPort) lost(why string) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = f.why != why
	f.why = why
	return changed
}

// whyLost says why an attempt has failed, and what to do.
func (f *followedPort) whyLost(err error) string {
	if err == nil || errors.Is(err, ErrNoSubnet) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "no subnet answers at " + f.path + ": start the process that has this [fabric] socket; the port attaches again by itself"
	}
	return err.Error() + "; the port goes on trying"
}

// again attaches again, with pauses. It returns without that when there is news of why it has not yet.
func (f *followedPort) again() error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f.attach()
		if f.ctx.Err() != nil {
			return ErrClosed
		}
		if err == nil || f.lost(f.whyLost(err)) {
			return nil
		}
		select {
		case <-f.ctx.Done():
			return ErrClosed
		case <-time.After(pause):
		}
	}
}

// Info implements Port. Without a link it is as it was.
func (f *followedPort) Info() PortInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return (&remotePort{info: f.info}).Info()
}

// Down implements Port.
func (f *followedPort) Down() string {
	if p := f.now.Load(); p != nil {
		return p.Down()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// Send implements Port. A process that does not read loses the link.
func (f *followedPort) Send(packets ...[]byte) int {
	p := f.now.Load()
	if p == nil {
		return 0
	}
	n := p.Send(packets...)
	if n < len(packets) {
		p.Close() // Recv, too, gets to know
	}
	return n
}

// Sent implements Port.
func (f *followedPort) Sent() bool {
	p := f.now.Load()
	return p == nil || p.Sent()
}

// Drained implements Port.
func (f *followedPort) Drained() bool {
	p := f.now.Load()
	return p == nil || p.Drained()
}

// Recv implements Port.
func (f *followedPort) Recv(packets [][]byte) (int, error) {
	f.recv.Lock()
	defer f.recv.Unlock()
	p := f.now.Load()
	if p == nil {
		return 0, f.again()
	}
	n, err := p.Recv(packets)
	if err == nil {
		return n, nil
	}
	if f.ctx.Err() != nil {
		return 0, ErrClosed
	}
	f.lost(f.whyLost(nil))
	f.now.Store(nil)
	_ = p.Close() // the other end has ended
	return 0, nil
}

// Close implements Port.
func (f *followedPort) Close() error {
	f.stop()
	if p := f.now.Load(); p != nil {
		return p.Close()
	}
	return nil
}
