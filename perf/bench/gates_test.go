// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"causeway/lcore"
)

// A short run of every kind of row: packets move, none is dropped (else Gates fails), nothing leaks (else closing a rig
// panics). Speed is not tested.
func TestGates(t *testing.T) {
	rows, err := Gates(short(), []int{64}, []int{64, 4096})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.What]++
		if r.section != threads && (r.NS <= 0 || r.OverNS <= 0 || r.Value <= 0) {
			t.Errorf("%+v", r)
		}
		if r.section == paths && (r.PeerNS <= 0 || r.Peer <= 0 || !r.packets) {
			t.Errorf("%+v", r)
		}
		if r.section == threads && (r.Value != 0 || r.Missed()) {
			t.Errorf("the worker waited %v times", r.Value)
		}
	}
	want := []string{"RoCE to IB", "IB to RoCE", "IPv6, RoCE to IB", "VLAN, IB to RoCE", "counters, QoS map, RoCE to IB", "counters, QoS map, policing, IB to RoCE", "look-up, bursts of 64",
		"ICRC by " + lcore.ICRCVersion(), "voluntary switches beside GC", "mirror: all, RoCE to IB"}
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("no row %q in %v", w, seen)
		}
	}
}

// Every path that has a gate has it at each of the tables' sizes, and larger tables may cost more.
func TestPathLimits(t *testing.T) {
	for d, name := range directions {
		for _, size := range []int{64, 1024, 4096} {
			var all []float64
			for _, n := range AllEntries {
				v, ok := pathLimits[d][size][n]
				if !ok {
					t.Errorf("%s, %d B, %d entries: no limit", name, size, n)
				}
				all = append(all, v)
			}
			if !slices.IsSorted(all) || all[0] <= 1 {
				t.Errorf("%s, %d B: limits %v", name, size, all)
			}
		}
	}
}

func TestMissed(t *testing.T) {
	for _, c := range []struct {
		row  Row
		want bool
	}{
		{Row{Value: 9}, false},
		{Row{Value: 1, Limit: limit(1)}, false},
		{Row{Value: 1.01, Limit: limit(1)}, true},
		{Row{Value: 0, Limit: limit(0)}, false},
		{Row{Value: 1, Limit: limit(0)}, true},
	} {
		if got := c.row.Missed(); got != c.want {
			t.Errorf("%+v: missed %v", c.row, got)
		}
	}
	rows := []Row{{Value: 2, Limit: limit(1)}, {Value: 2}, {Value: 3, Limit: limit(1)}, {Value: 1, Limit: limit(1)}}
	if missed, gates := Missed(rows); missed != 2 || gates != 3 {
		t.Errorf("%d of %d are missed, want 2 of 3", missed, gates)
	}
}

func TestReadings(t *testing.T) {
	a, b := readings{10, 30, 90}, readings{5, 10, 90}
	if a.median() != 30 || a.over(b) != 2 {
		t.Errorf("median %v, ratio %v", a.median(), a.over(b))
	}
}

func TestPrint(t *testing.T) {
	rows := []Row{
		{What: "b", Payload: 64, Entries: Large, NS: 10, Over: rxTx, OverNS: 5, Value: 2, Limit: limit(1), PeerNS: 8, Peer: 1.25, packets: true},
		{What: "switches", Value: 0, Limit: limit(0), section: threads},
		{What: "b", Payload: 64, Entries: Small, NS: 4, Over: rxTx, OverNS: 5, Value: 0.8, Limit: limit(1), packets: true},
	}
	sortRows(rows)
	var b bytes.Buffer
	if err := Print(&b, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if len(lines) != 5 || lines[3] != "" {
		t.Fatalf("%q", lines)
	}
	for i, want := range []string{"", "1 k", "1 M", "", "switches"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %q, want %q in it", i, lines[i], want)
		}
	}
	column := func(line, what string) int {
		before, _, _ := strings.Cut(line, what)
		return utf8.RuneCountInString(before)
	}
	if column(lines[1], "held") != column(lines[2], "MISSED") || column(lines[1], "0.80") != column(lines[2], "2.00") {
		t.Errorf("not aligned:\n%s", b.String())
	}
}
