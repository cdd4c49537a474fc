// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"causeway/perf/bench"
	"causeway/perf/profile"
	"causeway/perf/report"
	"causeway/perf/trial"
)

// DPDK can be started once in a process: a measurement runs this test binary in another process.
func TestMain(m *testing.M) {
	if args := os.Getenv("CAUSEWAY_PERF_ARGS"); args != "" {
		os.Args = append([]string{"causeway-perf"}, strings.Fields(args)...)
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CAUSEWAY_PERF_ARGS="+args)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := dispatch([]string{"help"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands() {
		if !strings.Contains(out.String(), "  "+c.name+" ") {
			t.Errorf("help does not mention %s", c.name)
		}
		if c.name == "bench" {
			continue // its flags end the process
		}
		if err := c.run([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s -h: %v", c.name, err)
		}
	}
	out.Reset()
	if err := dispatch([]string{"fly"}, &out, &out); !errors.Is(err, errUsage) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, &out)
	}
	if err := dispatch(nil, &out, &out); !errors.Is(err, errUsage) {
		t.Errorf("no command: %v", err)
	}
}

func TestOptions(t *testing.T) {
	o := options{test: "latency", profile: "full", payload: "64,32+100,imix", direction: "both", traffic: "IPv6", trial: 5e6, yardsticks: "io", slice: 0}
	p, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	c := p.Cases()
	if len(c) != 3 || c[1].Name != "both IPv6 32+100 B" || !reflect.DeepEqual(p.Tests, []string{"latency"}) || p.Latency.Trial.D() != 5e6 ||
		!reflect.DeepEqual(p.Yardsticks.Modes, []string{"io"}) {
		t.Errorf("%d cases, tests %v, trial %v", len(c), p.Tests, p.Latency.Trial.D())
	}
	for want, o := range map[string]options{
		"use a number of bytes":        {payload: "many"},
		"a payload's bytes: 9":         {payload: "9"},
		"there is no direction":        {direction: "up"},
		"profile full has no traffic":  {traffic: "IPX"},
		"there is no mode":             {yardsticks: "swap"},
		"there is no profile \"nosuch": {profile: "nosuch"},
	} {
		if o.profile == "" {
			o.profile = "full"
		}
		o.test, o.slice = "all", -1
		if _, err := o.load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	o := options{cpus: "4,5,6,7"}
	w, g, err := o.places(2)
	if err != nil || !reflect.DeepEqual(w, []int{4, 5}) || !reflect.DeepEqual(g, []int{6, 7}) {
		t.Errorf("%v %v %v", w, g, err)
	}
	for _, bad := range []options{{cpus: "4"}, {cpus: "4,x,6,7"}} {
		if _, _, err := bad.places(2); err == nil {
			t.Errorf("%q was taken", bad.cpus)
		}
	}
	if _, _, err := (&options{}).places(runtime.NumCPU()); err == nil {
		t.Error("more workers and generators than CPUs")
	}
}

func TestProgressLine(t *testing.T) {
	for columns := 20; columns < 100; columns += 7 {
		line := progressLine(columns, 0.5, "1s", "1/3 roce_to_ib IPv4 64 B", "throughput", "NDR 12.000 Mpps: passed")
		if n := utf8.RuneCountInString(line); n > columns || !strings.HasPrefix(line, "████████░░░░░░░░") {
			t.Errorf("%d columns: %d: %q", columns, n, line)
		}
	}
}

// Curves are drawn only if they are measured.
func TestPlotCurves(t *testing.T) {
	file := filepath.Join(t.TempDir(), "curves.png")
	curves := []bench.Curve{{Of: "hosts", Points: []bench.Point{{N: 8, NS: [2]float64{30, 28}}, {N: 1 << 17, NS: [2]float64{35, 34}}}}}
	if err := plotCurves(curves, file); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || len(b) > 100_000 || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	o := benchOptions{plot: file, workers: 1}
	if err := o.check(); err == nil {
		t.Error("-plot without -curves was taken")
	}
}

// Without a terminal, progress is whole lines without escape codes.
func TestPlainProgress(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	w := newProgress(f, false)
	w.Case(1, 2, "a case")
	w.Test("latency")
	w.Done(0.5)
	w.Trial("latency", trial.Step{})
	w.clear()
	b, err := os.ReadFile(f.Name())
	if err != nil || string(b) != "0s  1/2 a case\n0s    latency\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// tinyProfile measures a little of everything.
const tinyProfile = `name = "tiny"
tests = ["throughput", "latency", "multicast"]
directions = ["both"]
[[traffic]]
ip = [4, 6]
flows = 16
[device]
slice = "2ms"
[throughput]
trial = "4ms"
max_pps = 20000
pdr_loss = 0.5
shortfall = 0.5
resolution = 0.3
retries = 5
confirm = 0
[latency]
trial = "10ms"
parts = [0.5]
[multicast]
groups = 4
shares = [0.5]
repetitions = 1
pps = 10000
[yardsticks]
modes = ["macswap", "pktgen"]
`

// A whole measurement: workers, report, page. Speed is not tested.
func TestMeasure(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Fatal("two CPUs are needed: a worker's, and the generator's")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.toml")
	if err := os.WriteFile(file, []byte(tinyProfile), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := program(t, "all -no-huge -profile "+file+" -out "+dir)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
	}
	r, err := report.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Cases[0]
	if c.PDR.PPS < 1000 || len(c.Latency) != 2 || c.Latency[0].Samples == 0 || c.Multicast.Join.N != 1 || r.Ceiling[0].PPS < 1e5 {
		b, _ := json.MarshalIndent(r, "", " ")
		t.Errorf("%s", b)
	}
	checkYardsticks(t, r)
	for _, s := range []string{"Throughput", "report: " + filepath.Join(dir, "report.html")} {
		if !strings.Contains(stdout, s) {
			t.Errorf("there is no %q in\n%s", s, stdout)
		}
	}
	if stdout, stderr, err = program(t, "compare "+dir+" "+dir); err != nil || !strings.Contains(stdout, "1.000") {
		t.Errorf("compare: %v\n%s%s", err, stdout, stderr)
	}
	if stdout, stderr, err = program(t, "report "+dir); err != nil || !strings.Contains(stdout, "PDR Mpps") {
		t.Errorf("report: %v\n%s%s", err, stdout, stderr)
	}
}

// testpmd is in Debian's dpdk-dev; Pktgen-DPDK is not in Debian, and may be missing. Without one clean slice a flood has no
// rate.
func checkYardsticks(t *testing.T, r *report.Report) {
	t.Helper()
	var got []string
	for _, y := range r.Yardsticks {
		got = append(got, strings.TrimSpace(y.Name+" "+y.Figure+" "+y.Generator))
		if good := y.Limit != trial.ByMachine; good && y.PPS < 1000 || !good && y.Figure == report.Flood && y.PPS != 0 {
			t.Errorf("%+v", y)
		}
	}
	want := []string{"Causeway PDR", "Causeway flood", "testpmd macswap PDR", "Causeway flood Pktgen-DPDK"}
	if _, err := exec.LookPath("pktgen"); err != nil {
		want = want[:3]
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, "Pktgen-DPDK was not measured: there is no pktgen in PATH") {
			t.Errorf("notes %q", r.Notes)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q; notes %q", got, want, r.Notes)
	}
	for i, y := range r.Yardsticks {
		if (y.Versions != "") != (i >= 2) {
			t.Errorf("%s has the versions %q", got[i], y.Versions)
		}
	}
}

// A busy machine has an exit status of its own, unless a gate is known to be missed.
func TestJudge(t *testing.T) {
	limit, calm, busy := bench.Limit(1), 0.01, 0.5
	held, missed := bench.Row{Value: 1, Limit: &limit, Noise: calm}, bench.Row{Value: 2, Limit: &limit, Noise: calm}
	unclear := bench.Row{Value: 2, Limit: &limit, Noise: busy}
	for _, c := range []struct {
		rows []bench.Row
		code int
		want string
	}{
		{[]bench.Row{held, held}, 0, ""},
		{[]bench.Row{held, missed}, 1, "1 of 2 gates are missed"},
		{[]bench.Row{held, unclear}, 3, "the machine was too busy to judge 1 of 2 gates: readings of a loop that always does the same differed by up to 50 %"},
		{[]bench.Row{missed, unclear}, 1, "1 of 2 gates are missed; the machine was too busy to judge 1"},
	} {
		err := (&benchOptions{}).judge(c.rows)
		if (err == nil) != (c.code == 0) || err != nil && (exitCode(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v: %v; want %d, %s", c.rows, err, c.code, c.want)
		}
		if err := (&benchOptions{reportOnly: true}).judge(c.rows); err != nil {
			t.Errorf("%+v: %v", c.rows, err)
		}
	}
}

// A report says which programs it lacks, and is not ended by that.
func TestYardsticksMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p, err := profile.Load("full")
	if err != nil {
		t.Fatal(err)
	}
	r := &report.Report{}
	if err := (&local{profile: p}).yardsticks(t.Context(), r, newProgress(os.Stderr, true)); err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(r.Notes, "; ")
	for _, want := range []string{"testpmd was not measured: dpdk-testpmd is not installed; it is in the package dpdk-dev", "Pktgen-DPDK was not measured: there is no pktgen in PATH"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %q", want, notes)
		}
	}
	if len(r.Yardsticks) != 0 {
		t.Errorf("%+v", r.Yardsticks)
	}
}

// The profile, the page of figures and the document that sends people there say the same of how long a first look takes.
func TestQuickTime(t *testing.T) {
	text, err := profile.Text("quick")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	capacity, err := os.ReadFile("../../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, where := range map[string]string{"quick.toml": text, "perf/README.md": string(readme), "docs/capacity.md": string(capacity)} {
		if !strings.Contains(where, "six minutes") {
			t.Errorf("%s does not say that the profile quick takes six minutes", name)
		}
	}
}
