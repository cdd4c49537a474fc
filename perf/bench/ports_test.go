// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"strings"
	"testing"
)

// A short reading of every use: each moves messages and drops none (else portRows fails), no mbuf is lost (else closing
// fails), and a burst costs one doorbell for each of its queue pairs.
func TestPortRows(t *testing.T) {
	cfg := short()
	rows, err := portRows(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	uses := portUses()
	if len(rows) != len(uses) {
		t.Fatalf("%d rows of %d", len(rows), len(uses))
	}
	for i, u := range uses {
		r := rows[i]
		if r.NS <= 0 || r.OverNS <= 0 || r.Value <= 0 || r.Limit != nil || !strings.HasPrefix(r.What, u.String()) {
			t.Errorf("%+v", r)
		}
		low, high := 0.0, 0.0
		if u.polls { // buffers are posted from half a burst on
			low, high = float64(u.burst)/64, max(1, float64(u.burst)/32)
		} else {
			low = float64(min(u.burst, u.qps))
			high = low
		}
		if r.Doorbells < low || r.Doorbells > high {
			t.Errorf("%s: %v doorbells a burst, want %v to %v", r.What, r.Doorbells, low, high)
		}
	}
}
