// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// linkReader reads an interface's counters. It asks by a socket of the network namespace that the interface is in, as
// that of later callers may be another.
type linkReader struct {
	kernel *netlink.Handle
	name   string
}

func newLinkReader(name string) (*linkReader, error) {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	return &linkReader{kernel, name}, nil
}

func (r *linkReader) read() (netlink.LinkStatistics, error) {
	link, err := r.kernel.LinkByName(r.name)
	if err != nil {
		return netlink.LinkStatistics{}, err
	}
	return *link.Attrs().Statistics, nil
}

// growth returns how much a counter has grown; 0 when it began anew, as that of another interface of the same name
// does.
func growth(from, to uint64) uint64 {
	if to < from {
		return 0
	}
	return to - from
}

// droppedCounter counts the frames that the interface under packet sockets dropped: before the sockets could have them,
// as when the queue of a CPU is full (net.core.netdev_max_backlog), and after the port had sent them, as when the other
// end of a pair of interfaces is down. No socket counts either. Its methods may be called from any goroutine and in any
// network namespace.
//
// It has what the sockets gave up because there was no carrier (stale.c), too: such frames do not reach the interface.
type droppedCounter struct {
	mu      sync.Mutex
	link    *linkReader // nil after stop
	last    netlink.LinkStatistics
	rx, tx  uint64
	sockets []int
	stale   uint64
}

func newDroppedCounter(name string, sockets []int) (*droppedCounter, error) {
	link, err := newLinkReader(name)
	if err != nil {
		return nil, err
	}
	last, err := link.read()
	if err != nil {
		link.kernel.Close()
		return nil, err
	}
	return &droppedCounter{link: link, last: last, sockets: sockets}, nil
}

// read returns the numbers of frames since the port was opened. What the sockets gave up is in stale alone.
func (c *droppedCounter) read() (rx, tx, stale uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return c.rx, c.tx, c.stale
	}
	if now, err := c.link.read(); err == nil { // else it is gone
		c.rx += growth(c.last.RxDropped, now.RxDropped)
		c.tx += growth(c.last.TxDropped, now.TxDropped)
		c.last = now
	}
	c.stale = 0
	for _, fd := range c.sockets {
		c.stale += uint64(C.dpdk_stale_lost(C.int(fd)))
	}
	return c.rx, c.tx, c.stale
}

// stop reads a last time.
func (c *droppedCounter) stop() {
	c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link.kernel.Close()
		c.link = nil
		for _, fd := range c.sockets {
			C.dpdk_stale_end(C.int(fd))
		}
	}
}
