// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"testing"
	"time"
)

// TestRefusals checks that only what was refused by a full table is noticed, and when that was last.
func TestRefusals(t *testing.T) {
	var r refusals
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	for i, c := range []struct {
		hostsFull, proxyQPsFull bool
		rejected, denied        uint64
		hosts, proxyQPs         time.Time
	}{
		{false, false, 0, 0, time.Time{}, time.Time{}},
		{false, false, 3, 5, time.Time{}, time.Time{}}, // for other reasons
		{true, true, 3, 5, time.Time{}, time.Time{}},   // full, and nobody wants more
		{true, true, 3, 6, time.Time{}, at(3)},
		{true, true, 4, 6, at(4), at(3)},
		{false, true, 9, 7, at(4), at(5)},
		{false, false, 9, 7, at(4), at(5)},
	} {
		var counted Counters
		counted.HostsRejected, counted.ProxyQPsDenied = c.rejected, c.denied
		if got, want := r.notice(at(i), c.hostsFull, c.proxyQPsFull, &counted), (Refusals{c.hosts, c.proxyQPs}); got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
}
