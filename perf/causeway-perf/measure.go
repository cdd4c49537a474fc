// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"causeway/perf/harness"
	"causeway/perf/profile"
	"causeway/perf/report"
)

// options are the options of a measuring command.
type options struct {
	test                                    string
	profile, cpus, out                      string
	payload, direction, traffic, yardsticks string
	memif                                   string
	trial, slice                            time.Duration
	plain, noHuge                           bool
}

var longTexts = map[string]string{
	"all":        "Runs all tests of a profile, and writes report.html, report.json and plots into a folder.",
	"throughput": "Searches for the largest rates without loss (NDR) and with a loss of 0.1 % (PDR; RFC 2544, TST009).",
	"latency":    "Measures latency percentiles at parts of the PDR, which is found by a coarse search first.",
	"loss":       "Offers 1.25 times the PDR, then less in steps of a tenth, until nothing is lost (RFC 2544).",
	"burst":      "Searches for the longest burst at full rate without loss (RFC 2544, RFC 9004).",
	"soak":       "Offers a part of the PDR for a long time; stops at the first corrupted, misdelivered or duplicate message.",
	"multicast":  "Measures throughput by the share of multicast, group capacity, latency, joins and leaves (RFC 3918).",
}

func (o *options) flags(name string) *flag.FlagSet {
	fs := newFlags(name, "[OPTIONS]", longTexts[name]+`

The bridge's own workers run in this process, each between a ring port and an IB port made of rings, with a generator and
receiver on both sides. Each worker and each generator needs its own CPU.`)
	usual := "quick"
	if name == "soak" || name == "multicast" {
		usual = name
	}
	fs.StringVar(&o.profile, "profile", usual, "the `NAME` of a built-in profile ("+strings.Join(profile.Names(), ", ")+"), or a TOML file")
	fs.StringVar(&o.cpus, "cpus", "", "`LIST` of CPUs, such as 2,3: workers' first, then generators' (default: the last CPUs)")
	fs.StringVar(&o.payload, "payload", "", "payloads in `BYTES`, separated by commas, instead of the profile's; 64+1024 is a mix, imix is allowed")
	fs.StringVar(&o.direction, "direction", "", "one or more of roce_to_ib, ib_to_roce, both, separated by commas, as `DIRECTIONS` instead of the profile's")
	fs.StringVar(&o.traffic, "traffic", "", "only the profile's traffic of this `NAME`")
	fs.DurationVar(&o.trial, "trial", 0, "duration of all trials, as a `TIME`, instead of the profile's")
	fs.StringVar(&o.yardsticks, "yardsticks", "", "also measure testpmd in these `MODES`, such as macswap,5tswap (needs dpdk-testpmd), and, by pktgen, with Pktgen-DPDK as the generator (default: the profile's)")
	o.slice = -1 // the profile's
	fs.Func("slice", "run trials in slices of this `TIME`, and discard slices with a stall; 0: no slices (default: the profile's)", func(s string) (err error) {
		o.slice, err = time.ParseDuration(s)
		return err
	})
	fs.StringVar(&o.memif, "memif", "", "instead, measure a bridge in another process at this `SOCKET`, whose nodes echo; see causeway-perf config")
	fs.StringVar(&o.out, "out", "", "`DIR` for report.html, report.json and plots (default: none; for \"all\" a new temporary one)")
	fs.BoolVar(&o.noHuge, "no-huge", false, "do not use hugepages")
	fs.BoolVar(&o.plain, "plain", false, "no progress bar, even on a terminal")
	return fs
}

// measuring returns the command that runs one test, or all.
func measuring(test string) func(args []string) error {
	return func(args []string) error {
		o := options{test: test}
		if err := parseFlags(o.flags(test), args, 0, 0); err != nil {
			return err
		}
		p, err := o.load()
		if err != nil {
			return err
		}
		if o.out == "" && test == "all" {
			o.out = filepath.Join(os.TempDir(), time.Now().Format("causeway-perf-20060102-150405"))
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return o.measure(ctx, p)
	}
}

// load reads the profile and applies the options to it.
func (o *options) load() (*profile.Profile, error) {
	p, err := profile.Load(o.profile)
	if err != nil {
		return nil, err
	}
	if o.test != "all" {
		p.Tests = []string{o.test}
	}
	if o.payload != "" {
		p.Payloads = nil
		for s := range strings.SplitSeq(o.payload, ",") {
			var x profile.Payload
			if err := x.UnmarshalText([]byte(s)); err != nil {
				return nil, fmt.Errorf("causeway-perf: -payload: %w", err)
			}
			p.Payloads = append(p.Payloads, x)
		}
	}
	if o.direction != "" {
		p.Directions = strings.Split(o.direction, ",")
	}
	if o.traffic != "" {
		p.Traffic = slices.DeleteFunc(p.Traffic, func(t profile.Traffic) bool { return t.Name != o.traffic })
		if len(p.Traffic) == 0 {
			return nil, fmt.Errorf("causeway-perf: -traffic: profile %s has no traffic %q", p.Name, o.traffic)
		}
	}
	if d := profile.Duration(o.trial); d > 0 {
		p.Throughput.Trial, p.Latency.Trial, p.Loss.Trial, p.Soak.Piece = d, d, d, d
	}
	if o.yardsticks != "" {
		p.Yardsticks.Modes = strings.Split(o.yardsticks, ",")
	}
	if o.slice >= 0 {
		p.Device.Slice = profile.Duration(o.slice)
	}
	if o.memif != "" {
		if err := o.remote(p); err != nil {
			return nil, err
		}
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("causeway-perf: %w", err)
	}
	return p, nil
}

// measure runs the profile, and prints and saves the results, even when the run was ended early.
func (o *options) measure(ctx context.Context, p *profile.Profile) (err error) {
	workers, generators, err := o.places(p.Device.Workers)
	if err != nil {
		return err
	}
	w := newProgress(os.Stderr, o.plain)
	b, err := newLocal(p, o, workers, generators, w.Done)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r, err := harness.Run(ctx, p, b, w)
	w.clear()
	r.Command, r.Versions, r.Device = os.Args, b.versions(), b.sentence()
	if note := b.note(); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if len(p.Yardsticks.Modes) > 0 && err == nil {
		err = b.yardsticks(ctx, r, w)
		w.clear()
	}
	r.Seconds = time.Since(r.Started).Seconds() // with the yardsticks
	if err != nil {
		r.Notes = append(r.Notes, "ended early: "+err.Error())
	}
	r.Text(os.Stdout)
	if o.out != "" {
		page, saving := r.Save(o.out)
		if saving != nil {
			return errors.Join(err, saving)
		}
		fmt.Printf("\nreport: %s\n", page)
	}
	return err
}

// places assigns CPUs to workers and generators.
func (o *options) places(n int) (workers, generators []int, err error) {
	cpus := make([]int, 0, 2*n)
	if o.cpus == "" {
		if runtime.NumCPU() < 2*n {
			return nil, nil, fmt.Errorf("causeway-perf: %d CPUs are not enough: %d workers and their generators need %d", runtime.NumCPU(), n, 2*n)
		}
		for i := range 2 * n {
			cpus = append(cpus, runtime.NumCPU()-1-i)
		}
		return cpus[:n], cpus[n:], nil
	}
	for s := range strings.SplitSeq(o.cpus, ",") {
		cpu, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil, nil, fmt.Errorf("causeway-perf: -cpus %q: %q is not a CPU; use numbers, such as 2,3", o.cpus, s)
		}
		cpus = append(cpus, cpu)
	}
	if len(cpus) != 2*n {
		return nil, nil, fmt.Errorf("causeway-perf: -cpus %q: %d CPUs; %d workers and their generators need %d", o.cpus, len(cpus), n, 2*n)
	}
	return cpus[:n], cpus[n:], nil
}

func reportCommand(args []string) error {
	fs := newFlags("report", "REPORT", "Makes report.html and plots again from a report.json or its folder.")
	if err := parseFlags(fs, args, 1, 1); err != nil {
		return err
	}
	r, err := report.Load(fs.Arg(0))
	if err != nil {
		return err
	}
	dir := fs.Arg(0)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = "."
	}
	page, err := r.SavePage(dir)
	if err != nil {
		return err
	}
	r.Text(os.Stdout)
	fmt.Printf("\nreport: %s\n", page)
	return nil
}

func compareCommand(args []string) error {
	fs := newFlags("compare", "BEFORE AFTER", "Compares two reports: what changed, by how much, and what makes them hard to compare.")
	if err := parseFlags(fs, args, 2, 2); err != nil {
		return err
	}
	before, err := report.Load(fs.Arg(0))
	if err != nil {
		return err
	}
	after, err := report.Load(fs.Arg(1))
	if err != nil {
		return err
	}
	report.Compare(before, after).Text(os.Stdout)
	return nil
}

func profilesCommand(args []string) error {
	fs := newFlags("profiles", "[NAME]", "Lists the built-in profiles, or prints one, as a start for your own.")
	if err := parseFlags(fs, args, 0, 1); err != nil {
		return err
	}
	if fs.NArg() == 1 {
		text, err := profile.Text(fs.Arg(0))
		fmt.Print(text)
		return err
	}
	for _, name := range profile.Names() {
		p, err := profile.Load(name)
		if err != nil {
			return err
		}
		fmt.Printf("  %-10s %s (%d cases: %s)\n", name, p.About, len(p.Cases()), strings.Join(p.Tests, ", "))
	}
	return nil
}
