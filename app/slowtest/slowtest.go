// SPDX-License-Identifier: Apache-2.0

// Package slowtest measures how slow a machine is, for tests that bound the time that something takes: it may be
// shared with other tests, other programs and other virtual machines.
package slowtest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// workTakes is how long someWork takes on all CPUs at once, on the slower of the machines that the bounds were measured
// on, when idle otherwise.
const workTakes = 150 * time.Millisecond

func someWork() uint64 {
	x := uint64(1)
	for range 50_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// Factor is how many times longer than usual this machine takes for a fixed piece of work, at least 1: bounds on time
// stretch by it.
func Factor() float64 {
	var all sync.WaitGroup
	var sink atomic.Uint64 // so that the compiler does not remove the work
	return FactorOf(workTakes, func() error {
		for range runtime.NumCPU() {
			all.Go(func() { sink.Add(someWork()) })
		}
		all.Wait()
		return nil
	})
}

// Late reports whether something took longer than a bound, stretched by how slow the machine is. It measures that only
// when it matters.
func Late(took, bound time.Duration) bool {
	return took > bound && took > time.Duration(Factor()*float64(bound))
}
