// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"time"

	"causeway/app/condition"
	"causeway/lcore"
)

// stallLimit is how long a worker may make no progress. Even an idle worker that sleeps polls its queues ten times
// a second, but on a shared core it may have to wait for CPU time.
var stallLimit = 2 * time.Second

// health reads the workers' loop counters until each has moved or stallLimit is over. It returns the reasons why the
// bridge is not healthy; none when it is.
func health(ctx context.Context, workers func() []lcore.Counters) []string {
	first := workers()
	if len(first) == 0 {
		return []string{"the bridge has no workers: it is stopping"}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(stallLimit); ; {
		select {
		case <-ctx.Done():
			return []string{"the request was cancelled"}
		case <-tick.C:
		}
		now, stalled := workers(), 0
		for i := range first {
			if i >= len(now) || now[i].Loops == first[i].Loops {
				stalled++
			}
		}
		if stalled == 0 {
			return nil
		}
		if time.Now().After(until) {
			return []string{fmt.Sprintf("%d of %d workers made no progress for %v: stopped, blocked, or without CPU time on their cores",
				stalled, len(first), stallLimit)}
		}
	}
}

// mostAwaited is how many missing joins and paths are listed; the rest is a number.
const mostAwaited = 20

// readiness returns the reasons why the bridge is not ready for traffic; none when it is.
func readiness(ctx context.Context, src Source, o Options) []string {
	if o.draining() {
		return []string{"draining: the bridge is stopping, or has left its groups to another"}
	}
	return condition.Unready(ctx, src, mostAwaited)
}
