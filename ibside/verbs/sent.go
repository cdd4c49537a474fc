// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// AwaitSent implements ibside.OpenPort: the device has completed what it was given. Completions of a queue pair come in
// order, but not those of several.
func (t *qpTable) AwaitSent(ctx context.Context) error {
	if err := await(ctx, t.nonePends); err != nil {
		return err
	}
	under := t.sends()
	return await(ctx, func() bool {
		t.endedOf(under)
		return len(under) == 0
	})
}

// AwaitReceived implements ibside.OpenPort: workers poll what the device writes.
func (t *qpTable) AwaitReceived(context.Context) error { return nil }

// await waits until something is done.
func await(ctx context.Context, done func() bool) error {
	const every = 100 * time.Microsecond
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("verbs: send: %w", ctx.Err())
		case <-time.After(every):
		}
	}
	return nil
}

// nonePends reports whether no message waits for its address handle.
func (t *qpTable) nonePends() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closing || !slices.ContainsFunc(t.workers, (*worker).pends)
}

// sends returns the queue pairs with sends under way, and until which number these are to end.
func (t *qpTable) sends() map[*queuePair]uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	under := map[*queuePair]uint32{}
	for _, q := range t.qps {
		if until, is := q.sends(); is {
			under[q] = until
		}
	}
	return under
}

// endedOf takes those out that have ended them, and those that are gone.
func (t *qpTable) endedOf(under map[*queuePair]uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(under, func(q *queuePair, until uint32) bool { return t.qps[q.handle] != q || q.endedUntil(until) })
}
