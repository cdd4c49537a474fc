// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"
)

// Guests have no CPU of their own: they are emulated, and share this machine's CPUs with each other and with whatever
// else runs. Time limits for Causeway therefore stretch with the time that a fixed piece of work takes in a guest.
const (
	someWork = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
	// workTakes is its usual time, on the slower of the machines that the bounds were measured on, when idle otherwise.
	workTakes = 250 * time.Millisecond
)

// slowness is how many times longer than usual a guest takes, at least 1.
func (g *Guest) slowness(ctx context.Context) float64 {
	start := time.Now()
	if err := g.Must(ctx, someWork); err != nil {
		return 1
	}
	return max(1, float64(time.Since(start))/float64(workTakes))
}

// stretched stretches a time limit by how slow the machine has just been: now, or before if that was slower.
func stretched(t *testing.T, bound time.Duration, g *Guest, before float64) time.Duration {
	t.Helper()
	factor := max(before, g.slowness(t.Context()))
	if factor > 1 {
		t.Logf("the machine is busy: guests take %.1f times as long as usual, and %v is %v", factor, bound, time.Duration(factor*float64(bound)))
	}
	return time.Duration(factor * float64(bound))
}

// TestSlowness checks the measure: twice the work takes about twice as long.
func TestSlowness(t *testing.T) {
	_, a, _ := theRig(t)
	took := func(work string) time.Duration {
		start := time.Now()
		if err := a.Must(within(t, stepTime), work); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	best := func(work string) time.Duration { return min(took(work), took(work), took(work)) }
	once, twice := best(someWork), best(someWork+"; "+someWork)
	t.Logf("some work takes %v, twice as much %v", once, twice)
	if ratio := float64(twice) / float64(once); ratio < 1.5 || ratio > 3 {
		t.Errorf("twice the work takes %.1f times as long", ratio)
	}
}
