// SPDX-License-Identifier: Apache-2.0

package lcore

import (
	"testing"
	"time"
)

// Two readings, and whether clocks that made them have run alike: each that stands still, jumps or runs at another rate is noticed.
func TestClocksCompare(t *testing.T) {
	c := &Clocks{drift: 1e-3, hz: 2e9}
	reading := func(tsc, monotonic, boot, within time.Duration) clockReading {
		return clockReading{uint64(tsc) * 2, monotonic, boot, within}
	}
	const ms = time.Millisecond
	for _, x := range []struct {
		name                         string
		tsc, monotonic, boot, within time.Duration
		alike                        bool
	}{
		{"alike", 100 * ms, 100 * ms, 100 * ms, 0, true},
		{"alike, within the drift", 100*ms + 90*time.Microsecond, 100 * ms, 100 * ms, 0, true},
		{"alike, read slowly", 105 * ms, 100 * ms, 100 * ms, 5 * ms, true},
		{"the TSC is fast", 100*ms + 200*time.Microsecond, 100 * ms, 100 * ms, 0, false},
		{"the TSC is slow", 100*ms - 200*time.Microsecond, 100 * ms, 100 * ms, 0, false},
		{"the TSC stood still", 100 * ms, 3000 * ms, 3000 * ms, 0, false},
		{"the TSC began anew", -time.Hour, 100 * ms, 100 * ms, 0, false},
		{"CLOCK_MONOTONIC stood still", 3000 * ms, 100 * ms, 3000 * ms, 0, false},
		{"the machine slept", 100 * ms, 100 * ms, 3000 * ms, 0, false},
		{"the machine slept, and the TSC did not", 3000 * ms, 100 * ms, 3000 * ms, 0, false},
	} {
		from := reading(2*time.Hour, 5*time.Hour, 6*time.Hour, 0)
		to := reading(2*time.Hour+x.tsc, 5*time.Hour+x.monotonic, 6*time.Hour+x.boot, x.within)
		if err := c.compare(&from, &to); (err == nil) != x.alike {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// This machine's clocks run alike, whatever else runs; and after they did not, what comes next is compared anew.
func TestClocksAgree(t *testing.T) {
	c := NewClocks(1e-3)
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		if err := c.Agree(); err != nil {
			t.Error(err)
		}
	}
	c.since.boot -= time.Second
	if c.Agree() == nil {
		t.Error("a second of sleep is not noticed")
	}
	if err := c.Agree(); err != nil {
		t.Error(err)
	}
}
