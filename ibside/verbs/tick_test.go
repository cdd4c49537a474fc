// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"
	"time"
)

// TestRecoveryDue checks when a failed queue pair may be reset: not before its pause is over, and not before the worker has taken
// what the device had for it, which a reset would discard, unless that takes too long.
func TestRecoveryDue(t *testing.T) {
	failed := time.Unix(1000, 0)
	for _, c := range []struct {
		name    string
		pause   time.Duration
		after   time.Duration
		drained bool
		want    bool
	}{
		{"at once, drained", 0, 0, true, true},
		{"at once, not drained", 0, 0, false, false},
		{"in the pause", 20 * time.Millisecond, 19 * time.Millisecond, true, false},
		{"after the pause", 20 * time.Millisecond, 20 * time.Millisecond, true, true},
		{"after the pause, not drained", 20 * time.Millisecond, 20 * time.Millisecond, false, false},
		{"just before it is too long", 0, flushTime - 1, false, false},
		{"too long", 0, flushTime, false, true},
		{"too long, in the pause", longestStop, flushTime, false, false},
	} {
		r := recovery{failed: true, next: failed.Add(c.pause), flushBy: failed.Add(flushTime)}
		if got := r.due(failed.Add(c.after), func() bool { return c.drained }); got != c.want {
			t.Errorf("%s: due %t, want %t", c.name, got, c.want)
		}
	}
}
