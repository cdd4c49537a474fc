// SPDX-License-Identifier: Apache-2.0

package ibside

import (
	"context"
	"unsafe"

	"causeway/ibside/ib"
)

// An OpenPort is a Port with the methods for its owner: the pointers for workers, its counters, and Close. One with
// subnet administration of its own is an Administered, too. Methods may be called from any goroutine.
type OpenPort interface {
	Port
	Services
	// Info does not change, except for the MTU and Down.
	Info() Info
	// Pointer returns a worker's struct ib_port (ibside/port.h). It is valid until Close.
	Pointer(worker int) unsafe.Pointer
	// CheckPorts returns why Serve could not serve these ports. It has no effect.
	CheckPorts([]PortRange) error
	// AwaitSent waits until all that workers had posted when it was called has left the port, or is lost. An error says that
	// ctx was done before.
	AwaitSent(ctx context.Context) error
	// AwaitReceived waits until all that had come to the port when it was called can be polled by workers, or is lost. An error
	// says that ctx was done before.
	AwaitReceived(ctx context.Context) error
	// Lost returns the messages that were lost in the port by reason: sends that a worker had counted as sent, and
	// receives that no worker has seen.
	Lost() (sends, receives map[string]uint64)
	// LostByDevice returns what the device itself counts of lost and damaged messages since it was opened, by its names,
	// and of QPNs that did not rest long enough. What it does not count is not there. It may take some milliseconds.
	LostByDevice() map[string]uint64
	// ServiceCounts returns what became of requests of IB nodes, and of Connect's, by result.
	ServiceCounts() (requests, connects map[string]uint64)
	// Close leaves the groups, ends what is under way and logs the final counters. Workers must have stopped.
	Close() error
}

// Info is what the datapath and management must know of an open port.
type Info struct {
	MTU        ib.MTU
	Ethernet   bool   // the link layer: then there are no LIDs, and GIDs are IP addresses
	Receives   int    // receive buffers that all workers keep posted at the device
	QueuePairs int    // that the device says it has, for all programs together; 0: it does not say
	Direct     bool   // workers use the device's queues without its library
	Down       string // why no message can pass the port, and what to do; "": it is active
}

// Entitled is what a port can do that sends what workers have posted later, from a queue in this process. A device has its
// queue outside, and goes on while the process is stopped.
type Entitled interface {
	// SendWhile has the port send what workers post only while may returns true, which it asks before each message.
	SendWhile(may func() bool)
}

// Administered is what a port with subnet administration of its own can do.
type Administered interface {
	Renewer
	Notifier
	Aliaser
	Locator
	Announcer
	// Refresh asks the subnet administrator again for all that it has said: paths, and what is registered. What there
	// is stays in use meanwhile. It does not block.
	Refresh()
}
