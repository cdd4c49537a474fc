// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"maps"
	"sync"

	"causeway/ibside/ib"
)

// Drop reasons, besides the ib.Fault of a malformed packet.
const (
	DropSLID       = "slid"        // the source LID is not the port's own
	DropNoRoute    = "no_route"    // no port has the destination LID
	DropNotMember  = "mc_sender"   // a multicast from a port that did not join its group
	DropNoMember   = "mc_empty"    // a multicast that no other port receives
	DropQueueFull  = "queue_full"  // the port is too slow
	DropPortClosed = "port_closed" // the port was closed with packets in its queue

	DropLoopSelf  = "loop_self"  // the HCA's own multicast came back
	DropDLID      = "dlid"       // a unicast packet for another LID
	DropDGID      = "dgid"       // a GRH for another port's GID
	DropQP0       = "qp0"        // subnet management, which is not supported
	DropNoQP      = "no_qp"      // no queue pair has this number
	DropPKey      = "pkey"       // the P_Key does not match the queue pair's
	DropQKey      = "qkey"       // the Q_Key is not the queue pair's
	DropMTU       = "mtu"        // larger than the port's MTU
	DropMCUnknown = "mc_unknown" // no queue pair is attached to the group
	DropNoBuffer  = "no_buffer"  // no receive buffer was posted

	DropAH = "ah" // a send's address is not valid: no LID, or a multicast without GRH
)

// Counts are counters by reason.
type Counts map[string]uint64

// Sum returns the total.
func (c Counts) Sum() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

func (c Counts) add(o Counts) {
	for k, v := range o {
		c[k] += v
	}
}

// tally is Counts with a lock. The reasons are constants, never taken from a packet, so it stays small. The zero value
// is ready.
type tally struct {
	mu sync.Mutex
	n  Counts
}

func (t *tally) add(cause string) { t.addN(cause, 1) }

func (t *tally) addN(cause string, n uint64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = Counts{}
	}
	t.n[cause] += n
}

func (t *tally) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		return Counts{}
	}
	return maps.Clone(t.n)
}

func (t *tally) fault(f ib.Fault) { t.add(string(f)) }
