// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_cycles.h>
// #include "rights.h"
import "C"

import (
	"context"
	"time"
)

// Shares are some of a fleet's work, a bit each: host and group shares as the package fleet/shares numbers them.
type Shares struct {
	Hosts  uint64
	Groups [C.GROUP_WORDS]uint64
}

// Rights are what a datapath may forward, of a fleet.
type Rights struct{ datapath *Datapath }

// RightsOf returns those of a datapath whose configuration has a VirtualMAC.
func RightsOf(dp *Datapath) Rights { return Rights{dp} }

// SetShares says which shares of its fleet's work this bridge forwards, and returns when no worker forwards any that is
// closed, or ctx is done. What is opened workers forward once their queues hold nothing that is older. One goroutine at a
// time may call it, while workers run or not, before Close.
func (r Rights) SetShares(ctx context.Context, open *Shares) error {
	dp := r.datapath
	c := C.struct_shares{hosts: C.uint64_t(open.Hosts)}
	for i, word := range open.Groups {
		c.groups[i] = C.uint64_t(word)
	}
	C.rights_set(dp.c, &c)
	return dp.awaitWorkers(ctx)
}

// SetDeadline has workers send nothing (right_ended) from a time on, until there is a later one. Any goroutine may call it.
func (r Rights) SetDeadline(t time.Time) {
	tsc := C.rte_rdtsc() // read before the clock is, so that the deadline is too early, if anything
	left := time.Until(t)
	left -= left / 256 // the frequency is rounded to 10 MHz
	if left < 0 {
		left = 0
	}
	C.rights_until(r.datapath.c, tsc+C.uint64_t(left.Seconds()*float64(C.rte_get_tsc_hz())))
}
