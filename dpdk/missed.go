// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"sync"

	"golang.org/x/sys/unix"
)

// kernelCounters are what the kernel counts of a port's frames; nil: nothing, or the driver's own counters have it.
type kernelCounters struct {
	missed  *missedCounter
	dropped *droppedCounter
}

// stopCounting reads them a last time.
func (k *kernelCounters) stopCounting() {
	if k.missed != nil {
		k.missed.stop()
	}
	if k.dropped != nil {
		k.dropped.stop()
	}
}

// misses says who counts the frames that were dropped before the PMD could receive them.
type misses int

const (
	missesByDriver  misses = iota // the PMD; or none can be missed
	missesBySockets               // the kernel, at the PMD's packet sockets
	missesByTap                   // the kernel, at its end of the tap
	missesUnknown                 // whoever sends: a full memif ring is its server's or client's to count
)

// countMissed begins to count what the kernel drops, for a PMD that has just been plugged in and does not. A count that
// cannot be had is one that is not known.
func (p *Port) countMissed() {
	var err error
	switch p.plan.misses {
	case missesBySockets:
		if p.sockets, err = socketsOpened(p.config.RxQueues); err == nil {
			sockets := p.sockets
			p.missed = &missedCounter{dropped: func() uint64 { return droppedAtSockets(sockets) }}
		}
		p.dropped, _ = newDroppedCounter(p.plan.carriers[0], p.sockets) // without it the sockets' count is as good as it is
	case missesByTap:
		p.missed, err = tapMisses(p.plan.netdev)
	}
	if err != nil {
		p.plan.misses = missesUnknown
	}
}

// missedCounter counts the frames that the kernel dropped because a port's queue was full. Its methods may be called
// from any goroutine and in any network namespace.
type missedCounter struct {
	mu      sync.Mutex
	total   uint64
	dropped func() uint64 // since its last call; nil after stop
	close   func()
}

// read returns the number of frames since the port was opened.
func (c *missedCounter) read() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped != nil {
		c.total += c.dropped()
	}
	return c.total
}

// stop reads a last time, before the PMD closes what is read from.
func (c *missedCounter) stop() {
	c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped != nil && c.close != nil {
		c.close()
	}
	c.dropped = nil
}

// droppedAtSockets adds up what the kernel dropped at packet sockets since the last call: reading clears the counter
// (packet(7), PACKET_STATISTICS). A PMD that reads it, too, has the rest in its own.
func droppedAtSockets(sockets []int) (n uint64) {
	for _, fd := range sockets {
		if s, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n += uint64(s.Drops)
		}
	}
	return n
}

// tapMisses counts what the kernel drops at its end of a tap.
func tapMisses(name string) (*missedCounter, error) {
	link, err := newLinkReader(name)
	if err != nil {
		return nil, err
	}
	first, err := link.read()
	if err != nil {
		link.kernel.Close()
		return nil, err
	}
	last := first.TxDropped
	dropped := func() uint64 {
		now, err := link.read()
		if err != nil { // it is gone
			return 0
		}
		n := growth(last, now.TxDropped)
		last = now.TxDropped
		return n
	}
	return &missedCounter{dropped: dropped, close: link.kernel.Close}, nil
}
