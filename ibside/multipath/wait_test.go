// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"fmt"
	"testing"
	"time"
)

// patience is for what comes soon, and on a busy machine later.
const patience = 30 * time.Second

func within(t *testing.T, d time.Duration, what string, f func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if f() {
			return time.Since(began)
		}
		if time.Since(began) > d {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// settle waits until what is under way has come: twenty times in turn nothing has changed. On a busy machine a time is longer, as is the
// way of a message from one goroutine to the next.
func (r *rig) settle() {
	state := func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		a, _ := r.fabrics[0].Stats()
		b, _ := r.fabrics[1].Stats()
		return fmt.Sprint(r.n, a, b)
	}
	was := state()
	for still := 0; still < 20; still++ {
		time.Sleep(5 * time.Millisecond)
		if now := state(); now != was {
			was, still = now, -1
		}
	}
}

// await waits until so many messages have come.
func (r *rig) await(t *testing.T, messages int) {
	t.Helper()
	within(t, patience, "messages", func() bool { return r.came() >= messages })
}

// came is how many messages have come since they were taken.
func (r *rig) came() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.received)
}
