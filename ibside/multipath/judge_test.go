// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"testing"
	"time"
)

// TestBest checks which of two members a destination uses, so long after it began to use the first one.
func TestBest(t *testing.T) {
	const holdDown = time.Second
	began := time.Now()
	for _, c := range []struct {
		name      string
		health    [2]health
		preferred int
		after     time.Duration
		want      int
		why       string
	}{
		{"both are good", [2]health{}, -1, time.Hour, 0, ""},
		{"it loses, a moment ago", [2]health{{lossy: true}, {}}, -1, holdDown - 1, 0, ""},
		{"it loses", [2]health{{lossy: true}, {}}, -1, holdDown, 1, whyLosses},
		{"both lose", [2]health{{lossy: true}, {lossy: true}}, -1, holdDown, 0, ""},
		{"it is down, a moment ago", [2]health{{down: "no carrier"}, {}}, -1, 0, 1, whyDown},
		{"both are down", [2]health{{down: "no carrier"}, {down: "no carrier"}}, -1, time.Hour, 0, ""},
		{"the other one is preferred, a moment ago", [2]health{}, 1, holdDown - 1, 0, ""},
		{"the other one is preferred", [2]health{}, 1, holdDown, 1, whyPreferred},
		{"the other one is preferred, and loses", [2]health{1: {lossy: true}}, 1, time.Hour, 0, ""},
		{"the other one is preferred, and its subnet manager is silent", [2]health{1: {silent: true}}, 1, time.Hour, 0, ""},
		{"the other one is preferred, and down", [2]health{1: {down: "no carrier"}}, 1, time.Hour, 0, ""},
	} {
		j := &judge{state: &state{cfg: Config{Members: make([]Member, 2), HoldDown: holdDown}}, preferred: c.preferred}
		d := &destination{settled: true, changed: began}
		for i := range c.health {
			j.health[i] = c.health[i]
			j.health[i].since, j.health[i].sm = began, began
			d.view.ways[i].lid = 1
		}
		if member, why := j.best(d, began.Add(c.after)); member != c.want || why != c.why {
			t.Errorf("%s: member %d, %q; want %d, %q", c.name, member, why, c.want, c.why)
		}
	}
}

// TestBothOfOneDown: a group that goes by both is sent by those that are up, and taken from all that reach it.
func TestBothOfOneDown(t *testing.T) {
	j := &judge{state: &state{cfg: Config{Members: make([]Member, 3)}}}
	j.health[1].down = "no carrier"
	d := &destination{}
	d.view.ways[0].lid, d.view.ways[1].lid = 1, 1
	if send, take := j.both(d); send != bit(0) || take != bit(0)|bit(1) {
		t.Errorf("sent by %#b, taken from %#b", send, take)
	}
}
