// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"strings"
	"testing"
)

// No cache line that a worker writes is written by another, nor by management at the rings' other ends.
func TestLines(t *testing.T) {
	for _, groups := range []int{1, 3, 1000} { // group counters are 32 bytes each: their arrays end within lines
		lines, err := CheckLines(4, groups)
		if err != nil {
			t.Error(err)
		}
		if lines < 4*(64+16) { // PSN streams and rings alone
			t.Errorf("%d groups: looked at %d lines only", groups, lines)
		}
	}
}

func TestSharedLinesAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		all   []written
		lines int
		fault string
	}{
		{"apart", []written{{0, 64, "a", "x"}, {64, 1, "b", "y"}}, 2, ""},
		{"one's own", []written{{0, 65, "a", "x"}, {100, 1, "a", "y"}}, 2, ""},
		{"at the end", []written{{0, 65, "a", "x"}, {100, 1, "b", "y"}}, 2, "x (a) and y (b)"},
		{"at the beginning", []written{{60, 8, "a", "x"}, {0, 1, "b", "y"}}, 2, "y (b)"},
	} {
		lines, faults := shared(c.all)
		if got := strings.Join(faults, "; "); lines != c.lines || c.fault == "" && got != "" || !strings.Contains(got, c.fault) {
			t.Errorf("%s: %d lines, %q", c.name, lines, got)
		}
	}
}

// Two workers side by side, each with hosts of its own, hand nothing off and drop nothing (else Workers fails).
func TestWorkers(t *testing.T) {
	if len(lcores) < 2 {
		t.Skip("needs two CPUs, one a worker")
	}
	all, err := Workers(short())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.AloneNS <= 0 || s.EachNS <= 0 || s.Scale <= 0 || s.Floor <= 0 {
			t.Errorf("%+v", s)
		}
	}
	var b bytes.Buffer
	if err := PrintWorkers(&b, 2, all); err != nil || strings.Count(b.String(), "\n") != 1+len(all) || len(all) != 4 {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Every point of every curve can be measured: its packets are forwarded.
func TestCurves(t *testing.T) {
	all, err := Curves(short())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		first, last := c.Points[0].N, c.Points[len(c.Points)-1].N
		if first > 16 || last < 1000 || c.Of != "groups" && last < 100_000 {
			t.Errorf("%s: from %d to %d", c.Of, first, last)
		}
		for _, p := range c.Points {
			if p.NS[0] <= 0 || p.NS[1] <= 0 {
				t.Errorf("%s: %+v", c.Of, p)
			}
		}
	}
}

// Threads that wait are noticed: starting and stopping a loop makes its lcore wait for the next.
func TestVoluntarySwitches(t *testing.T) {
	before, err := voluntarySwitches(lcores[0].tid)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := NewLcore(lcores[0].id); err != nil {
			t.Fatal(err)
		}
	}
	after, err := voluntarySwitches(lcores[0].tid)
	if err != nil || after <= before {
		t.Errorf("%d, then %d: %v", before, after, err)
	}
}
