// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
)

// rxWakes says what wakes a thread that waits for frames.
type rxWakes int

const (
	rxWakesNobody      rxWakes = iota
	rxWakesBySockets           // the PMD's packet sockets
	rxWakesByInterrupt         // the PMD, by DPDK's Rx interrupts
)

// ErrNoRxWake is in the error of RxWake when the port cannot wake anybody.
var ErrNoRxWake = errors.New("its driver wakes nobody when frames come")

// An RxWake wakes a thread that sleeps until frames come to a queue.
type RxWake struct {
	FDs   []int // for epoll(7), edge-triggered, one for each link; none: nothing comes
	Armed bool  // only after rte_eth_dev_rx_intr_enable(3)
}

// RxWake returns what wakes a thread that waits for frames of a queue. The descriptors are the PMD's, and valid until the
// port is stopped. The port must have been started.
func (p *Port) RxWake(queue int) (RxWake, error) {
	switch {
	case p.bond != nil:
		return p.bond.rxWake(queue)
	case p.plan.waits:
		return RxWake{}, nil
	case p.plan.rxWakes == rxWakesBySockets && queue < len(p.sockets):
		return RxWake{FDs: p.sockets[queue : queue+1]}, nil
	case p.plan.rxWakes != rxWakesByInterrupt:
		return RxWake{}, portError(p.name, "%w", ErrNoRxWake)
	}
	var armed C.bool
	fd := C.dpdk_port_rx_fd(p.id, C.uint16_t(queue), &armed)
	if err := errno(min(fd, 0)); err != nil {
		return RxWake{}, portError(p.name, "%w: Rx interrupt of queue %d: %w", ErrNoRxWake, queue, err)
	}
	return RxWake{FDs: []int{int(fd)}, Armed: bool(armed)}, nil
}

// socketsOpened returns the packet sockets that the PMD has just opened, by queue.
func socketsOpened(queues int) (sockets []int, err error) {
	var fds [C.DPDK_MAX_QUEUES]C.int
	for _, fd := range fds[:C.dpdk_fanout_sockets(&fds[0])] {
		sockets = append(sockets, int(fd))
	}
	if len(sockets) != queues {
		return nil, fmt.Errorf("%d packet sockets were opened for %d queues", len(sockets), queues)
	}
	return sockets, nil
}

// Isolated reports whether the kernel keeps other programs off all of these CPUs (isolcpus=).
func Isolated(cpus []int) bool {
	isolated := isolatedCPUs()
	return !slices.ContainsFunc(cpus, func(cpu int) bool { return !slices.Contains(isolated, cpu) })
}
