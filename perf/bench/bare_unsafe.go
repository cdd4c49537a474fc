// SPDX-License-Identifier: Apache-2.0

package bench

// #include "bare.h"
// #include "rig.h"
// #include "../../lcore/setup.h"
import "C"

import (
	"fmt"
	"syscall"
)

// bareLoop is the worker built without counters. What it has done is read from the ring that its packets go to.
type bareLoop struct {
	*lane
	lcore uint
	moved uint64
	last  C.uint32_t
}

func (l *lane) bare() loop { return &bareLoop{lane: l, last: C.ring_produced(l.cRing())} }

func (l *bareLoop) c() *C.struct_worker { return (*C.struct_worker)(l.w.Pointer()) }

func (l *bareLoop) start(lcore uint) error {
	l.lcore = lcore
	if rc := C.bare_start(l.c(), C.uint(lcore)); rc != 0 {
		return fmt.Errorf("bench: start on lcore %d: %w", lcore, syscall.Errno(-rc))
	}
	return nil
}

// done must be called before the ring's 32-bit index wraps, which takes a minute at least.
func (l *bareLoop) done() uint64 {
	now := C.ring_produced(l.cRing())
	l.moved += uint64(now - l.last)
	l.last = now
	return l.moved
}

func (l *bareLoop) stop() {
	l.pause(true)
	C.worker_stop(l.c(), C.uint(l.lcore))
	l.pause(false)
}
