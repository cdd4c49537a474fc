// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"causeway/lcore"
)

// gatesOnce is a short run of every kind of row, for the tests that look at its rows.
var gatesOnce = sync.OnceValues(func() ([]Row, error) { return Gates(short(), []int{Small, 1 << 11}, []int{64, 4096}) })

// In every kind of row packets move, none is dropped (else Gates fails), nothing leaks (else closing a rig panics). Speed
// is not tested.
func TestGates(t *testing.T) {
	rows, err := gatesOnce()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.What]++
		if r.section != threads && (r.NS <= 0 || r.OverNS <= 0 || r.Value <= 0) {
			t.Errorf("%+v", r)
		}
		if r.section == paths && (r.FloorNS <= 0 || r.OverFloor <= 0 || !r.packets || r.Limit == nil) {
			t.Errorf("%+v", r)
		}
		if r.section == threads && (r.Value != 0 || r.Missed()) {
			t.Errorf("the worker waited %v times", r.Value)
		}
	}
	want := []string{"RoCE to IB", "IB to RoCE", "IPv6, RoCE to IB", "VLAN, IB to RoCE", "counters, QoS map, RoCE to IB", "counters, QoS map, policing, IB to RoCE", "look-up, bursts of 64",
		"ICRC by " + lcore.ICRCVersion(), "voluntary switches beside GC", "mirror: all, RoCE to IB", "mirror: 1 node of 1 k, IB to RoCE",
		"member of a fleet, RoCE to IB", "member of a fleet, groups, IB to RoCE"}
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("no row %q in %v", w, seen)
		}
	}
}

// The gates are those of the worker over the peer, of look-ups at three sizes, and of a mirror by host; what is over a
// floor without look-ups has none.
func TestLimits(t *testing.T) {
	rows, err := gatesOnce()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		want := 0.0
		switch {
		case r.section == paths:
			want = 1.10
			if r.Over != "peer" || (r.Floor == rxTx) != (r.Payload == 64) {
				t.Errorf("%+v", r)
			}
		case r.section == wholes && r.Over == libmlx5 && (r.Entries == 256 || r.Entries == 1<<10):
			want = 1 / 1.8
		case r.section == wholes && r.Payload == 64 && r.Entries == 256:
			want = map[string]float64{"RoCE to IB, whole way": 3.90, "IB to RoCE, whole way": 1.60}[r.What]
		case r.section == wholes:
		case strings.HasPrefix(r.What, "look-up") && r.Entries == Small:
			want = 0.55
		case strings.HasPrefix(r.What, "member of a fleet"):
			want = 1.01
		case strings.HasPrefix(r.What, "mirror: 1 "):
			want = 1.20
		case strings.HasPrefix(r.What, "mirror") || strings.HasPrefix(r.What, "look-up"):
		default:
			continue
		}
		if got := r.Limit; want == 0 && got != nil || want > 0 && (got == nil || float64(*got) != want) {
			t.Errorf("%s, %d entries: limit %v, want %v", r.What, r.Entries, got, want)
		}
	}
}

// Rows of one kind can be measured alone.
func TestKinds(t *testing.T) {
	cfg := short()
	cfg.Kinds = []string{"icrc"}
	rows, err := Gates(cfg, []int{64}, []int{64})
	if err != nil || len(rows) != 3 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		if !strings.HasPrefix(r.What, "ICRC") {
			t.Errorf("%+v", r)
		}
	}
}

func TestJudge(t *testing.T) {
	const calm, busy = mostSpread, mostSpread + 0.01
	for _, c := range []struct {
		row          Row
		missed, busy bool
		text         string
	}{
		{Row{Value: 9, Noise: busy}, false, false, ""},
		{Row{Value: 1, Limit: limit(1), Noise: calm}, false, false, "held"},
		{Row{Value: 1.01, Limit: limit(1), Noise: calm}, true, false, "MISSED"},
		{Row{Value: 1.02, Above: 0.01, Limit: limit(1), Noise: calm}, true, false, "MISSED"},
		{Row{Value: 1.02, Above: 0.03, Limit: limit(1), Noise: calm}, false, false, "near"},
		{Row{Value: 1.01, Limit: limit(1), Noise: busy}, false, true, "busy"},
		{Row{Value: 0.5, Limit: limit(1), Noise: busy}, false, true, "busy"},
		{Row{Value: 0, Limit: limit(0)}, false, false, "held"},
		{Row{Value: 1, Limit: limit(0)}, true, false, "MISSED"},
	} {
		if c.row.Missed() != c.missed || c.row.Busy() != c.busy || c.row.cells()[10] != c.text {
			t.Errorf("%+v: missed %v, busy %v, %q", c.row, c.row.Missed(), c.row.Busy(), c.row.cells()[10])
		}
	}
	rows := []Row{{Value: 2, Limit: limit(1)}, {Value: 2}, {Value: 3, Limit: limit(1)}, {Value: 1, Limit: limit(1)}, {Value: 9, Limit: limit(1), Noise: 0.4},
		{Value: 2, Above: 1, Limit: limit(1)}}
	if got := Judge(rows); got != (Verdict{Gates: 5, Missed: 2, Near: 1, Busy: 1, Noise: 0.4}) {
		t.Errorf("%+v", got)
	}
}

func TestReadings(t *testing.T) {
	a, b := readings{10, 30, 90}, readings{5, 10, 90}
	if a.median() != 30 || a.over(b) != 2 || a.atLeast(b) != 1 {
		t.Errorf("median %v, ratio %v, at least %v", a.median(), a.over(b), a.atLeast(b))
	}
	nine, ones := readings{9, 1, 8, 2, 7, 3, 6, 4, 5}, readings{1, 1, 1, 1, 1, 1, 1, 1, 1}
	if nine.over(ones) != 5 || nine.atLeast(ones) != 2 {
		t.Errorf("ratio %v, at least %v", nine.over(ones), nine.atLeast(ones))
	}
	var many, same readings
	for i := range 81 {
		many, same = append(many, float64(1+i)), append(same, 1)
	}
	if many.over(same) != 41 || many.atLeast(same) != 32 {
		t.Errorf("of 81: ratio %v, at least %v", many.over(same), many.atLeast(same))
	}
}

// One reading far off in nine does not make a machine busy; half of them do.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		r    readings
		want float64
	}{
		{readings{10}, 0},
		{readings{10, 11, 9}, 0.2},
		{readings{10, 10, 10, 10, 10, 10, 10, 10, 90}, 0},
		{readings{10, 16, 10, 16, 10, 16, 10, 16, 10}, 0.6},
	} {
		if got := c.r.spread(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.r, got, c.want)
		}
	}
}

// Rounds go on until as many in a row as are wanted have judging readings that are not spread too far. Otherwise those in
// a row that were calmest count.
func TestCalmest(t *testing.T) {
	for what, c := range map[string]struct {
		judge       []float64 // round by round
		taken, from int       // how many were taken, and from which those are that count
	}{
		"calm":           {[]float64{10, 10.5, 10.2}, 3, 0},
		"calm later":     {[]float64{10, 20, 15, 10, 15, 15.1, 15.2}, 7, 4},
		"one of a burst": {[]float64{10, 10, 90, 10, 10, 10}, 6, 3},
		"never":          {[]float64{10, 90, 15, 40, 10, 13, 16, 90, 40, 10, 90, 40, 10, 90, 40, 10, 90, 40}, 18, 4},
	} {
		taken := 0
		cfg := Config{Repetitions: 3}
		got, err := cfg.calmest([]int{1}, func() ([]float64, error) {
			taken++
			return []float64{float64(taken - 1), c.judge[taken-1]}, nil
		})
		first := float64(c.from)
		if err != nil || taken != c.taken || !slices.Equal(got[0], readings{first, first + 1, first + 2}) || !slices.Equal(got[1], c.judge[c.from:c.from+3]) {
			t.Errorf("%s: took %d, got %v, %v", what, taken, got, err)
		}
	}
}

func TestPrint(t *testing.T) {
	rows := []Row{
		{What: "b", Payload: 64, Entries: Large, NS: 10, Over: rxTx, OverNS: 5, Value: 2, Limit: limit(1), FloorNS: 8, OverFloor: 1.25, packets: true},
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
