// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"causeway/app/slowtest"
)

// Guests have no CPU of their own: they share this machine's CPUs with each other and with whatever
// else runs. Time limits for Causeway therefore stretch with the time that a fixed piece of work takes in a guest.
func counting(n int) string { return fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); done", n) }

// work is done by a guest in a time, usually: on the slower of the machines that the bounds were measured on, when idle otherwise.
func (g *Guest) work() (string, time.Duration) {
	if g.emulated {
		return counting(20_000), 250 * time.Millisecond
	}
	return counting(200_000), 150 * time.Millisecond
}

// slowness is how many times longer than usual a guest takes, at least 1. What else runs in the guest does not count: it is what
// the limits are for. Emulated guests have a CPU for each, and containers all CPUs.
func (g *Guest) slowness(ctx context.Context) float64 {
	work, usual := g.work()
	if g.emulated || g.container {
		return slowtest.FactorOf(usual, func() error { return g.Must(ctx, work) })
	}
	began := time.Now()
	said, _, err := g.Run(ctx, ownTime+work+"; "+ownTime)
	if err != nil {
		return 1
	}
	var before, after [5]int64 // hundredths of a second: the guest's, by what they were for, and then the work's own
	if _, err := fmt.Sscan(said, scanned(&before, &after)...); err != nil {
		return 1
	}
	others := time.Duration(0)
	for i, sign := range []time.Duration{1, 1, 1, -1, -1} {
		others += sign * time.Duration(after[i]-before[i]) * 10 * time.Millisecond
	}
	return max(1, float64(time.Since(began)-others)/float64(usual))
}

// ownTime prints how long a guest's CPU has worked (proc_stat(5): user, nice, system), and for the shell (proc_pid_stat(5)).
const ownTime = `read -r _ u n s _ </proc/stat; read -r _ _ _ _ _ _ _ _ _ _ _ _ _ own owns _ </proc/self/stat; echo $u $n $s $own $owns; `

func scanned(all ...*[5]int64) (fields []any) {
	for _, a := range all {
		for i := range a {
			fields = append(fields, &a[i])
		}
	}
	return fields
}

// stretched stretches a time limit by how slow the machine has just been: now, or before if that was slower.
func stretched(t *testing.T, bound time.Duration, g *Guest, before float64) time.Duration {
	t.Helper()
	return slowtest.Stretch(t, bound, max(before, g.slowness(t.Context())))
}

// TestSlowness checks the measure: twice the work takes about twice as long. It is four times as much as is otherwise measured, so
// that what each command waits for, a fifth of a second beside a busy lane, does not count.
func TestSlowness(t *testing.T) {
	_, a, _ := theRig(t)
	took := func(work string) time.Duration {
		start := time.Now()
		if err := a.Must(within(t, stepTime), work); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	work, _ := a.work()
	work = strings.Repeat(work+"; ", 4)
	once, twice := time.Hour, time.Hour
	for range 4 { // in turns: how busy the machine is changes
		once, twice = min(once, took(work)), min(twice, took(work+work))
	}
	t.Logf("some work takes %v, twice as much %v", once, twice)
	if ratio := float64(twice) / float64(once); ratio < 1.5 || ratio > 3 {
		t.Errorf("twice the work takes %.1f times as long", ratio)
	}
}
