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

// options are what a measuring command is told.
type options struct {
	test                                    string
	profile, cpus, out                      string
	payload, direction, traffic, yardsticks string
	memif                                   string
	trial, slice                            time.Duration
	plain, noHuge                           bool
	nice                                    int
}

var longTexts = map[string]string{
	"all":        "Runs all tests of a profile, and writes report.html, report.json and the plots into a folder.",
	"throughput": "Searches for the largest rates without loss (NDR) and with at most a thousandth lost (PDR), by trials (RFC 2544, TST009).",
	"latency":    "Measures latency percentiles at parts of the PDR, which is searched for first, roughly.",
	"loss":       "Offers a quarter more than the PDR, then less by tenths, until nothing is lost.",
	"burst":      "Searches for the longest burst at full rate of which nothing is lost (RFC 2544, RFC 9004).",
	"soak":       "Offers a part of the PDR for a long time, in pieces; stops at the first message that is corrupted, misdelivered or doubled.",
	"multicast":  "RFC 3918: throughput by the share of multicast, group capacity, latency, joins and leaves.",
}

func (o *options) flags(name string) *flag.FlagSet {
	fs := newFlags(name, "[OPTIONS]", longTexts[name]+`

The bridge's own workers run in this process, each between a port made of rings and an IB door made of rings, with a
generator and receiver at both. Each worker and each generator needs a CPU of its own.`)
	usual := "quick"
	if name == "soak" || name == "multicast" {
		usual = name
	}
	fs.StringVar(&o.profile, "profile", usual, "the `NAME` of a shipped profile ("+strings.Join(profile.Names(), ", ")+"), or a TOML file")
	fs.StringVar(&o.cpus, "cpus", "", "the `LIST` of CPUs, the workers' first, then the generators': 2,3 (default: the last ones)")
	fs.StringVar(&o.payload, "payload", "", "instead of the profile's payloads: `BYTES`, 64+1024 for a mix, or imix; several with commas")
	fs.StringVar(&o.direction, "direction", "", "instead of the profile's directions: one `DIRECTION`, roce_to_ib, ib_to_roce or both; several with commas")
	fs.StringVar(&o.traffic, "traffic", "", "only the profile's traffic of this `NAME`")
	fs.DurationVar(&o.trial, "trial", 0, "instead of the profile's lengths of trials: a `TIME`")
	fs.StringVar(&o.yardsticks, "yardsticks", "", "measure testpmd, too, in these `MODES`: macswap,5tswap (needs dpdk-testpmd; default: the profile's)")
	fs.DurationVar(&o.slice, "slice", -1, "a `TIME` instead of the profile's slices, of which those count in which nothing stood still; 0: trials are whole")
	fs.StringVar(&o.memif, "memif", "", "measure, instead, the bridge in another process at this `SOCKET`, whose nodes answer; see causeway-perf config")
	fs.StringVar(&o.out, "out", "", "the `DIR` for report.html, report.json and plots (default: for all a new one for temporary files, for others none)")
	fs.IntVar(&o.nice, "nice", 0, "nice `VALUE` of the workers' and generators' threads (root; without effect on other sessions while kernel.sched_autogroup_enabled is 1)")
	fs.BoolVar(&o.noHuge, "no-huge", false, "ordinary memory, even where hugepages are free")
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

// load reads the profile and changes in it what the options say.
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

// measure runs the profile and shows, and keeps, what came of it, even when it was ended early.
func (o *options) measure(ctx context.Context, p *profile.Profile) (err error) {
	workers, generators, err := o.places(p.Device.Workers)
	if err != nil {
		return err
	}
	w := newWatcher(os.Stderr, o.plain)
	b, err := newLocal(p, o, workers, generators, w.Progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r, err := harness.Run(ctx, p, b, w)
	w.done()
	r.Command, r.Versions, r.Device = os.Args, b.versions(), b.sentence()
	if note := b.note(); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if len(p.Yardsticks.Modes) > 0 && err == nil {
		err = b.yardsticks(ctx, r, w)
	}
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

// places divides the CPUs among workers and generators.
func (o *options) places(n int) (workers, generators []int, err error) {
	cpus := make([]int, 0, 2*n)
	if o.cpus == "" {
		if runtime.NumCPU() < 2*n {
			return nil, nil, fmt.Errorf("causeway-perf: %d CPUs are too few: %d workers and their generators need %d", runtime.NumCPU(), n, 2*n)
		}
		for i := range 2 * n {
			cpus = append(cpus, runtime.NumCPU()-1-i)
		}
		return cpus[:n], cpus[n:], nil
	}
	for s := range strings.SplitSeq(o.cpus, ",") {
		cpu, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil, nil, fmt.Errorf("causeway-perf: -cpus %q: %q is no CPU; write 2,3", o.cpus, s)
		}
		cpus = append(cpus, cpu)
	}
	if len(cpus) != 2*n {
		return nil, nil, fmt.Errorf("causeway-perf: -cpus %q: %d CPUs; %d workers and their generators need %d", o.cpus, len(cpus), n, 2*n)
	}
	return cpus[:n], cpus[n:], nil
}

func reportCommand(args []string) error {
	fs := newFlags("report", "REPORT", "Makes report.html and the plots again from a report.json, or the folder that has it.")
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
	fs := newFlags("compare", "[-html FILE] BEFORE AFTER", "Shows two reports side by side: what changed by how much, and what makes them hard to compare.")
	page := fs.String("html", "", "write a page with a plot to this `FILE`, too")
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
	c := report.Compare(before, after)
	c.Text(os.Stdout)
	if *page == "" {
		return nil
	}
	return c.SavePage(*page)
}

func profilesCommand(args []string) error {
	fs := newFlags("profiles", "[NAME]", "Lists the shipped profiles, or prints one, to begin another from.")
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
