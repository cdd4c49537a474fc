// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"causeway/app/slowtest"
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
	return slowtest.FactorOf(workTakes, func() error { return g.Must(ctx, someWork) })
}

// stretched stretches a time limit by how slow the machine has just been: now, or before if that was slower.
func stretched(t *testing.T, bound time.Duration, g *Guest, before float64) time.Duration {
	t.Helper()
	return slowtest.Stretch(t, bound, max(before, g.slowness(t.Context())))
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
	once, twice := time.Hour, time.Hour
	for range 8 { // in turns: how busy the machine is changes
		once, twice = min(once, took(someWork)), min(twice, took(someWork+"; "+someWork))
	}
	t.Logf("some work takes %v, twice as much %v", once, twice)
	if ratio := float64(twice) / float64(once); ratio < 1.5 || ratio > 3 {
		t.Errorf("twice the work takes %.1f times as long", ratio)
	}
}
