// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"causeway/perf/report"
	"causeway/perf/trial"
)

// saved is the page of a report, and the names of its pictures.
func saved(t *testing.T, r *report.Report) (page string, pictures []string) {
	t.Helper()
	dir := t.TempDir()
	name, err := r.Save(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.png"))
	for _, f := range files {
		pictures = append(pictures, strings.TrimSuffix(filepath.Base(f), ".png"))
	}
	return string(b), pictures
}

func has(list []string, prefix, suffix string) bool {
	for _, s := range list {
		if strings.HasPrefix(s, prefix) && strings.HasSuffix(s, suffix) {
			return true
		}
	}
	return false
}

// No legend lies over a plot, or is wider than its picture.
func TestLegends(t *testing.T) {
	areas, err := sample(1).Areas()
	if err != nil || len(areas) != 20 {
		t.Fatalf("%d figures, %v", len(areas), err)
	}
	for name, a := range areas {
		switch {
		case a.Legend.Max.Y > a.Plot.Min.Y || a.Foot.Max.Y > a.Legend.Min.Y:
			t.Errorf("%s: the parts overlap: %+v", name, a)
		case a.Entries <= 0 || a.Legend.Max.Y-a.Legend.Min.Y < 9:
			t.Errorf("%s: no room for a legend: %+v", name, a)
		case a.Entries > a.Legend.Max.X-a.Legend.Min.X:
			t.Errorf("%s: the legend needs %v of %v", name, a.Entries, a.Legend.Max.X-a.Legend.Min.X)
		case a.Plot.Max.Y-a.Plot.Min.Y < 200:
			t.Errorf("%s: the plot is %v high", name, a.Plot.Max.Y-a.Plot.Min.Y)
		}
	}
}

// Each plot carries the machine, the versions, the noise and the day.
func TestFoot(t *testing.T) {
	r := sample(1)
	r.Host.CPU, r.Ceiling[0].Noise = "A CPU of 2026", 0.07
	page, _ := saved(t, r)
	plots := strings.Count(page, "<svg")
	for _, want := range []string{"A CPU of 2026, ", "DPDK 22.11", "noise 7 % (of the generator by itself)", "2026-11-20, profile sample"} {
		got := 0
		for _, svg := range strings.Split(page, "<svg")[1:] {
			svg, _, _ = strings.Cut(svg, "</svg>")
			got += min(1, strings.Count(svg, want))
		}
		if got != plots {
			t.Errorf("%q is in %d of %d plots", want, got, plots)
		}
	}
	r.Ceiling = nil
	if page, _ = saved(t, r); !strings.Contains(page, "noise not measured") {
		t.Error("the page does not say that the noise was not measured")
	}
}

// The generator's figures are no bound: the report counts those of the device that are above.
func TestCeilingNote(t *testing.T) {
	for _, c := range []struct {
		pps     float64
		workers int
		want    string
	}{
		{20e6, 1, ""},
		{12.5e6, 1, "Figures of the device that are above it: 2, by up to 5.6 %."}, // PDR of both directions, 13.2
		{12.5e6, 2, ""},
		{11e6, 1, "Figures of the device that are above it: 4, by up to 20.0 %."},
	} {
		r := sample(1)
		r.Ceiling[0].PPS, r.Profile.Device.Workers = c.pps, c.workers
		var text bytes.Buffer
		r.Text(&text)
		if has := strings.Contains(text.String(), "above it:"); has != (c.want != "") || !strings.Contains(text.String(), c.want) {
			t.Errorf("%g with %d workers: want %q in\n%s", c.pps, c.workers, c.want, text.String())
		}
		if strings.Contains(text.String(), "can be above") {
			t.Error("a bound is claimed")
		}
	}
}

// What was disturbed is not drawn, and the plot says so; a throughput that the machine limited is a hollow bar.
func TestLeftOut(t *testing.T) {
	r := sample(1)
	r.Cases = r.Cases[:1]
	c := &r.Cases[0]
	c.Latency[1].Verdict = trial.Disturbed
	c.Soak.Pieces[0].Verdict = trial.TooSlow
	page, pictures := saved(t, r)
	for want, n := range map[string]int{
		"Readings left out: 1 (disturbed)": 3, "Readings left out: 1 (generator too slow)": 1, "roce_to_ib at 50 %": 0, "roce_to_ib at 90 %": 1, "hollow": 0,
	} {
		if got := strings.Count(page, want+"<"); got != n {
			t.Errorf("%q is there %d times, not %d", want, got, n)
		}
	}
	if !has(pictures, "latency-", "") || !has(pictures, "soak-", "") {
		t.Errorf("pictures: %q", pictures)
	}
	for i := range c.Latency {
		c.Latency[i].Verdict = trial.Disturbed
	}
	for i := range c.Soak.Pieces {
		c.Soak.Pieces[i].Verdict = trial.Disturbed
	}
	c.PDR.Limit = trial.ByMachine
	page, pictures = saved(t, r)
	if has(pictures, "latency-", "") || has(pictures, "soak-", "") || has(pictures, "load-", "latency-roce_to_ib") {
		t.Errorf("plots of what was disturbed: %q", pictures)
	}
	if strings.Count(page, "hollow: other programs") != 2 {
		t.Error("bars that the machine limited are not hollow")
	}
}

// Where nothing was lost there is no plot of it, but a sentence.
func TestNothingLost(t *testing.T) {
	r := sample(1)
	for i := range r.Cases {
		for j := range r.Cases[i].Loss {
			r.Cases[i].Loss[j].Loss = 0
		}
	}
	page, pictures := saved(t, r)
	if has(pictures, "load-", "-loss") || !strings.Contains(page, "Nothing was lost at any load, so there is no plot.") {
		t.Errorf("pictures: %q", pictures)
	}
	r.Cases[0].Loss[0].Verdict = trial.Disturbed
	if page, _ = saved(t, r); !strings.Contains(page, "In trials that were not disturbed nothing was lost, so there is no plot.") {
		t.Error("the table does not say that some trials were disturbed")
	}
	r = sample(1)
	for i := range r.Cases {
		for j := range r.Cases[i].Loss {
			r.Cases[i].Loss[j].Verdict = trial.Disturbed
		}
	}
	if page, _ = saved(t, r); !strings.Contains(page, "None of these trials is a figure of the device.") {
		t.Error("the table does not say that all trials were disturbed")
	}
}

// One value is enough for a plot whose axis is logarithmic, even one below a microsecond.
func TestOneLatency(t *testing.T) {
	r := sample(1)
	c := &r.Cases[0]
	l := c.Latency[0]
	l.At = make([]int64, len(l.At))
	for i := range l.At {
		l.At[i] = 920 // ns
	}
	c.Latency = []trial.Latency{l}
	r.Cases = r.Cases[:1]
	if _, pictures := saved(t, r); !has(pictures, "load-", "-latency-"+l.Direction) {
		t.Errorf("pictures %q", pictures)
	}
}
