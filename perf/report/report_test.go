// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"causeway/perf/profile"
	"causeway/perf/report"
	"causeway/perf/trial"
)

// sample is a report with all kinds of figures; faster makes them better.
func sample(faster float64) *report.Report {
	p := profile.Default()
	p.Name = "sample <1>"
	r := &report.Report{
		Schema: report.Schema, Started: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Seconds: 90, Host: report.ThisHost(), Profile: p,
		Versions: map[string]string{"DPDK": "22.11"}, Device: "a simulated device", Method: []string{"Nothing was measured."},
		Command: []string{"causeway-perf", "all"}, Ceiling: []report.Ceiling{{Payload: "64", PPS: 2e7}}, Notes: []string{"a note"},
	}
	for _, d := range []string{"roce_to_ib", "ib_to_roce"} {
		for i, payload := range []string{"64", "1024", "4096"} {
			r.Cases = append(r.Cases, sampleCase(d, payload, []float64{64, 1024, 4096}[i], faster*[]float64{12e6, 8e6, 4e6}[i]))
		}
	}
	for _, limit := range []string{trial.ByDevice, trial.ByMachine, trial.ByGenerator} {
		y := report.Yardstick{Name: "testpmd macswap", Payload: "64", PPS: 8e6, Limit: limit}
		y.Compare(trial.Throughput{PPS: 6e6, Limit: trial.ByDevice})
		r.Yardsticks = append(r.Yardsticks, y)
	}
	return r
}

func sampleCase(direction, payload string, bytes, pps float64) report.Case {
	c := report.Case{Name: direction + " IPv4 " + payload + " B", Direction: direction, Traffic: "IPv4", Payload: payload, Bytes: bytes}
	c.NDR = &trial.Throughput{PPS: pps, TotalPPS: pps, Limit: trial.ByDevice}
	c.PDR = &trial.Throughput{PPS: 1.1 * pps, TotalPPS: 1.1 * pps, Limit: trial.ByDevice, Allowed: 0.001, Steps: []trial.Step{{
		PPS: pps, Verdict: trial.Passed, Counts: map[string]trial.Counts{direction: {Offered: 10, Received: 10, Reordered: 3}},
	}}}
	for i, part := range []float64{0.1, 0.5, 0.9} {
		base := int64(float64(300+300*i) * 12e6 / pps)
		c.Latency = append(c.Latency, trial.Latency{
			Direction: direction, Part: part, PPS: pps * part, Samples: 1e6, Min: base / 2, Max: 40 * base, Mean: float64(base), PerBurst: 1 + 30*part,
			Percentile: trial.Percentiles[:7], At: []int64{base, base + 50, base + 100, base + 300, 2 * base, 6 * base, 20 * base},
		})
	}
	for i := 10; i > 4; i-- {
		c.Loss = append(c.Loss, trial.Step{PPS: pps * 1.25 * float64(i) / 10, Loss: max(0, 1-8/float64(i)), Received: pps,
			Seconds: 1, PerBurst: float64(4 * i), Counts: map[string]trial.Counts{direction: {Offered: uint64(pps * 0.125 * float64(i))}}})
	}
	c.Burst = &trial.Burst{Packets: []uint64{1200}, Mean: 1200, Min: 1200, Max: 1200, Limit: 1 << 20, RatePPS: pps * 1.5, BufferSeconds: 1e-4}
	c.Soak = &trial.Soak{
		PPS: pps, Seconds: 10, Counts: map[string]trial.Counts{direction: {Offered: 100, Received: 99}}, Latency: c.Latency[:1],
		Pieces: []trial.SoakPiece{{At: 1, P50: 300, P99: 900}, {At: 2, P50: 310, P99: 2000}, {At: 3, P50: 290, P99: 800}},
	}
	c.Multicast = &trial.Multicast{
		Capacity: trial.Capacity{Groups: 1024, Limit: 1024, PPS: 1e6}, Join: trial.Delays{N: 3, Avg: 4000}, Latency: c.Latency[:1],
		Mixed: []trial.Mixed{{Share: 0.5, Throughput: *c.NDR}},
	}
	return c
}

// A report is read as it was written; the page has its plots inside, and plots are PNG files.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	if keep := os.Getenv("CAUSEWAY_PERF_SAMPLE"); keep != "" { // to look at
		dir = keep
	}
	r := sample(1)
	name, err := r.Save(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := report.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, again) {
		t.Errorf("wrote %+v\nread %+v", r, again)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, want := range []string{
		"sample &lt;1&gt;", "a simulated device", "Nothing was measured.", "a note", "DPDK 22.11", "Back-to-back", "≥ 1024", "testpmd macswap",
		"roce_to_ib IPv4 64 B", "12.000", "0.75",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	for _, other := range []string{"<script", "src=", "<link", "url(", "@import"} {
		if strings.Contains(page, other) {
			t.Errorf("the page needs something else: %q", other)
		}
	}
	if n := strings.Count(page, "<svg"); n != 2+2*3+6+6 {
		t.Errorf("%d plots", n)
	}
	checkPlots(t, page, dir)
}

func checkPlots(t *testing.T, page, dir string) {
	t.Helper()
	for _, part := range strings.Split(page, "<svg")[1:] {
		svg, _, ok := strings.Cut(part, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg" + svg + "</svg>"))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if !ok || !errors.Is(err, io.EOF) || strings.Contains(svg, "NaN") {
			t.Errorf("a plot is no whole picture: %v", err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.png"))
	if len(files) != 20 {
		t.Errorf("pictures: %v", files)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.DecodeConfig(bytes.NewReader(b)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// An empty report has a page, too: a run may be ended early.
func TestSaveEmpty(t *testing.T) {
	r := &report.Report{Schema: report.Schema, Profile: profile.Default()}
	if _, err := r.Save(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestLoadBad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	for text, want := range map[string]string{"{": "unexpected end", `{"schema": 99}`: "schema 99, but this program reads 1"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := report.Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	sample(1).Text(&b)
	for _, want := range []string{"ib_to_roce IPv4 4096 B     4.000   131.1", "p99.9", "note: a note", "6µs", "2026-11-20 12:00 UTC, 1m30s: ", "kernel", "DPDK 22.11", "28.0", " 0.75", "≤ 0.75"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
}

func TestCompare(t *testing.T) {
	before, after := sample(1), sample(1.2)
	after.Host.Kernel = "7.0"
	after.Cases = after.Cases[1:]
	c := report.Compare(before, after)
	words := map[string]int{}
	for _, r := range c.Rows {
		words[r.Word()]++
		if r.What == "PDR" && (r.Ratio() < 1.199 || r.Ratio() > 1.201 || r.Word() != "better") {
			t.Errorf("%+v: %q", r, r.Word())
		}
	}
	// NDR, PDR, p50 and p99 of three loads, and the mixed throughput are better; burst, groups, joins and leaves are as
	// they were.
	if words["better"] != 5*9 || words[""] != 5*4 || words["worse"] != 0 {
		t.Errorf("%v", words)
	}
	if len(c.Unmatched) != 1 || len(c.Differences) != 1 || !strings.Contains(c.Differences[0], "7.0 after") {
		t.Errorf("unmatched %q, differences %q", c.Unmatched, c.Differences)
	}
	before.Cases[1].PDR.Limit = trial.ByMachine
	if again := report.Compare(before, after); again.Rows[1].What != "PDR" || again.Rows[1].Word() != "limited by the machine" {
		t.Errorf("%+v: %q", again.Rows[1], again.Rows[1].Word())
	}
	if back := report.Compare(after, before); back.Rows[0].Word() != "worse" {
		t.Errorf("backwards: %+v", back.Rows[0])
	}
	var text bytes.Buffer
	if c.Text(&text); strings.Count(text.String(), "2026-11-20 12:00 UTC") != 2 || !strings.Contains(text.String(), "kernel 7.0") {
		t.Errorf("\n%s", text.String())
	}
}

// Disturbed trials are marked in tables and left out of plots.
func TestDisturbed(t *testing.T) {
	r := sample(1)
	r.Cases = r.Cases[:1]
	c := &r.Cases[0]
	for i := range c.Latency {
		c.Latency[i].Verdict = trial.Disturbed
	}
	for i := range c.Loss {
		c.Loss[i].Verdict = trial.TooSlow
	}
	var b bytes.Buffer
	r.Text(&b)
	if strings.Count(b.String(), "disturbed") != 3 || strings.Count(b.String(), "generator too slow") != 6 {
		t.Errorf("\n%s", b.String())
	}
	dir := t.TempDir()
	if _, err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "load-*.png")); len(files) != 0 {
		t.Errorf("plots of what was disturbed: %v", files)
	}
}

// There is no ratio where the machine was the limit.
func TestYardstickCompare(t *testing.T) {
	for i, want := range []float64{0.75, 0, 0.75} {
		if y := sample(1).Yardsticks[i]; y.Ratio != want || y.Causeway != 6e6 || y.CausewayLimit != trial.ByDevice {
			t.Errorf("%+v; want a ratio of %g", y, want)
		}
	}
	y := report.Yardstick{PPS: 8e6, Limit: trial.ByGenerator}
	if y.Compare(trial.Throughput{PPS: 6e6, Limit: trial.ByGenerator}); y.Ratio != 0 {
		t.Errorf("%+v: the generator limited both", y)
	}
}

// Each row says what its figure is and of which program, and a flood without a clean slice shows no rate.
func TestYardstickRows(t *testing.T) {
	r := sample(1)
	r.Ceiling[0].Noise = 0.021
	r.Yardsticks = []report.Yardstick{
		{Name: "Causeway", Figure: report.PDR, Payload: "64", PPS: 6e6, Loss: 0.001, Limit: trial.ByDevice},
		{Name: "Causeway", Figure: report.Flood, Payload: "64", PPS: 5e6, Sent: 5e6, Readings: 1, Limit: trial.ByGenerator},
		{Name: "testpmd macswap", Versions: "DPDK 22.11.11", Figure: report.PDR, Payload: "64", PPS: 8e6, Loss: 0.001, Limit: trial.ByDevice, Ratio: 0.75},
		{Name: "Causeway", Generator: "Pktgen-DPDK", Versions: "23.03.0, DPDK 22.11", Figure: report.Flood, Payload: "64", PPS: 5.5e6, Sent: 5.6e6, Lost: 0.02, Noise: 0.031, Readings: 40, Limit: trial.ByDevice},
		{Name: "Causeway", Generator: "Pktgen-DPDK", Versions: "23.03.0", Figure: report.Flood, Payload: "64", PPS: 7.77e6, Sent: 7.77e6, Limit: trial.ByMachine},
	}
	var text strings.Builder
	r.Text(&text)
	got := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"Causeway causeway-perf 64 PDR 6.000 - ≤ 0.1 % 2.1 % device -",
		"Causeway causeway-perf 64 flood 5.000 5.000 0 unknown, of 1 generator -",
		"testpmd macswap, DPDK 22.11.11 causeway-perf 64 PDR 8.000 - ≤ 0.1 % 2.1 % device 0.75",
		"Causeway Pktgen-DPDK 23.03.0 64 flood 5.500 5.600 2 % 3.1 % of 40 device -",
		"Causeway Pktgen-DPDK 23.03.0 64 flood disturbed - - - machine -", "Disturbed: so they did in every reading",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(got, "7.770") {
		t.Error("a disturbed rate is shown")
	}
}

func TestLines(t *testing.T) {
	b, err := report.Lines("Cost", "entries", "ns", strings.Repeat("a long name of a machine, ", 20), []report.Line{
		{Name: "one", X: []float64{1, 10, 100000}, Y: []float64{30, 31, 35}}, {Name: "other", X: []float64{10, 1000}, Y: []float64{28, 29}, Colour: 1, Dashed: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(b)); err != nil || len(b) > 100_000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := report.Lines("", "", "", "", []report.Line{{X: []float64{1}, Y: []float64{math.NaN()}}}); err == nil {
		t.Error("a line was drawn for a value that is no number")
	}
}
