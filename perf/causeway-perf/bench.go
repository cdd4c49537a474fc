// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/bench"
	"causeway/perf/report"
)

// benchOptions are the options of bench.
type benchOptions struct {
	cpu, reps, payload, entries, workers int
	window                               time.Duration
	quick, curves, reportOnly, noHuge    bool
	json, plot, rows                     string
}

func benchFlags(o *benchOptions) *flag.FlagSet {
	fs := newFlags("bench", "[OPTIONS]", "Measures the packet path over ring ports, in nanoseconds a packet, and compares it with simpler loops of the same run.\n"+
		"Exit status: 1 when a gate is missed; 3 when none is known to be, but the machine was too busy to judge them all.")
	fs.IntVar(&o.cpu, "cpu", runtime.NumCPU()-1, "the `CPU` on which the measured loops run")
	fs.IntVar(&o.reps, "reps", 0, "`N` readings of each figure, of which the median counts (default 9, quick 3)")
	fs.DurationVar(&o.window, "window", 0, "CPU `TIME` of a reading (default 25ms, quick 8ms)")
	fs.IntVar(&o.payload, "payload", 0, "measure only paths, and whole ways, with a payload of this many `BYTES`, a multiple of 8")
	fs.IntVar(&o.entries, "entries", 0, "measure only paths with `N` table entries, a power of 2 up to 1048576, and whole ways with `N` proxy QPs")
	fs.StringVar(&o.rows, "rows", "", "measure only these `KINDS` of rows, separated by commas: "+strings.Join(bench.Kinds(), ", "))
	fs.BoolVar(&o.quick, "quick", false, "shorter, less certain, and without tables of 1 M entries")
	fs.BoolVar(&o.curves, "curves", false, "instead, measure the cost by the number of groups, hosts and proxy QPs")
	fs.IntVar(&o.workers, "workers", 1, "instead, measure how `N` workers on CPUs 0 to N-1 scale, and what handoff between two of them costs")
	fs.BoolVar(&o.noHuge, "no-huge", false, "do not use hugepages")
	fs.BoolVar(&o.reportOnly, "report-only", false, "succeed even when gates are missed")
	fs.StringVar(&o.plot, "plot", "", "with -curves: draw the curves into this PNG `FILE`")
	fs.StringVar(&o.json, "json", "", "also write the figures to this `FILE`")
	return fs
}

func benchCommand(args []string) (err error) {
	var o benchOptions
	if err := parseFlags(benchFlags(&o), args, 0, 0); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return errUsage
	}
	if err := bench.Begin(); err != nil {
		return err
	}
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "causeway-perf", Workers: o.cpus(), MemoryMiB: 256, ForceNoHuge: o.noHuge})
	if err != nil {
		return err
	}
	defer func() {
		if closing := eal.Close(); err == nil {
			err = closing
		}
	}()
	if eal.NoHuge() {
		bench.Advise()
	}
	cfg, err := o.config(eal)
	if err != nil {
		return err
	}
	return o.measure(cfg, machine(eal))
}

func (o *benchOptions) check() error {
	switch {
	case o.payload%8 != 0 || o.payload < 0 || o.payload > lcore.MaxPayload:
		return fmt.Errorf("causeway-perf: payload %d: use a multiple of 8, up to %d", o.payload, lcore.MaxPayload)
	case o.entries < 0 || o.entries&(o.entries-1) != 0 || o.entries > bench.Large:
		return fmt.Errorf("causeway-perf: entries %d: use a power of 2, up to %d", o.entries, bench.Large)
	case !known(o.kinds()):
		return fmt.Errorf("causeway-perf: rows %q: use some of %s", o.rows, strings.Join(bench.Kinds(), ", "))
	case o.plot != "" && !o.curves:
		return errors.New("causeway-perf: -plot draws curves; use it with -curves")
	case o.workers < 1 || o.workers > runtime.NumCPU():
		return fmt.Errorf("causeway-perf: workers %d: there are %d CPUs", o.workers, runtime.NumCPU())
	}
	return nil
}

// kinds are the kinds of rows; none: all.
func (o *benchOptions) kinds() []string {
	if o.rows == "" {
		return nil
	}
	return strings.Split(o.rows, ",")
}

func known(kinds []string) bool {
	return !slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(bench.Kinds(), k) })
}

// cpus are those of the worker lcores.
func (o *benchOptions) cpus() []int {
	if o.workers == 1 {
		return []int{o.cpu}
	}
	var all []int
	for i := range o.workers {
		all = append(all, o.workers-1-i) // the last CPU, the least busy one, is also used alone
	}
	return all
}

func (o *benchOptions) config(eal *dpdk.EAL) (bench.Config, error) {
	cfg := bench.Config{Repetitions: 9, Window: 25 * time.Millisecond, Kinds: o.kinds(), Payload: o.payload, Entries: o.entries}
	if o.quick {
		cfg.Repetitions, cfg.Window = 3, 8*time.Millisecond
	}
	if o.reps > 0 {
		cfg.Repetitions = o.reps
	}
	if o.window > 0 {
		cfg.Window = o.window
	}
	for _, id := range eal.WorkerLcores() {
		l, err := bench.NewLcore(id)
		if err != nil {
			return cfg, err
		}
		cfg.Lcores = append(cfg.Lcores, l)
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		cfg.Progress = func(what string) { fmt.Fprintf(os.Stderr, "\r\033[K%s", what) }
	}
	return cfg, nil
}

func (o *benchOptions) measure(cfg bench.Config, where string) error {
	var figures any
	var print func() error
	var rows []bench.Row // those with gates
	var err error
	switch {
	case o.workers > 1:
		figures, print, err = measureWorkers(cfg)
	case o.curves:
		figures, print, err = o.measureCurves(cfg)
	default:
		rows, err = bench.Gates(cfg, o.sizes(), o.payloads())
		figures, print = rows, func() error { return bench.Print(os.Stdout, rows) }
	}
	if cfg.Progress != nil {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d readings of %v\n\n", where, cfg.Repetitions, cfg.Window)
	if err := print(); err != nil {
		return err
	}
	if err := o.save(where, cfg, figures); err != nil {
		return err
	}
	return o.judge(rows)
}

// errBusy says that no verdict is possible.
var errBusy = errors.New("the machine was too busy to judge")

// judge fails when a gate is missed, or could not be judged.
func (o *benchOptions) judge(rows []bench.Row) error {
	v := bench.Judge(rows)
	if v.Gates == 0 {
		return nil
	}
	said := fmt.Sprintf("%d of %d gates are missed", v.Missed, v.Gates)
	if v.Near > 0 {
		said += fmt.Sprintf(", and %d are nearer to their limits than readings can tell", v.Near)
	}
	if v.Busy > 0 {
		said += fmt.Sprintf("; %v %d: readings of a loop that always does the same differed by up to %.0f %%, so end what else runs here and measure again",
			errBusy, v.Busy, v.Noise*100)
	}
	switch {
	case o.reportOnly || v.Missed+v.Busy == 0:
		fmt.Printf("\n%s.\n", said)
		return nil
	case v.Missed == 0:
		return fmt.Errorf("causeway-perf: %w %d of %d gates: readings of a loop that always does the same differed by up to %.0f %%; "+
			"end what else runs here, and measure again", errBusy, v.Busy, v.Gates, v.Noise*100)
	}
	return fmt.Errorf("causeway-perf: %s", said)
}

// sizes are the numbers of table entries. The largest tables take 2 GiB, mostly of management.
func (o *benchOptions) sizes() []int {
	const largestMiB = 3 << 10
	switch {
	case o.entries > 0:
		return []int{o.entries}
	case o.quick:
		return []int{bench.Small, bench.Medium}
	case report.AvailableMiB() < largestMiB:
		fmt.Fprintf(os.Stderr, "causeway-perf: less than %d MiB are available: tables of 1 M entries are left out\n", largestMiB)
		return []int{bench.Small, bench.Medium}
	}
	return bench.AllEntries
}

func (o *benchOptions) payloads() []int {
	if o.payload > 0 {
		return []int{o.payload}
	}
	return bench.AllPayloads
}

func (o *benchOptions) measureCurves(cfg bench.Config) (any, func() error, error) {
	curves, err := bench.Curves(cfg)
	if err == nil && o.plot != "" {
		err = plotCurves(curves, o.plot)
	}
	return curves, func() error { return bench.PrintCurves(os.Stdout, curves) }, err
}

// plotCurves draws a line for each curve and direction.
func plotCurves(curves []bench.Curve, file string) error {
	var lines []report.Line
	for d, name := range []string{"RoCE to IB", "IB to RoCE"} {
		for i, c := range curves {
			l := report.Line{Name: name + ", " + c.Of, Colour: i, Dashed: d > 0}
			for _, p := range c.Points {
				l.X, l.Y = append(l.X, float64(p.N)), append(l.Y, p.NS[d])
			}
			lines = append(lines, l)
		}
	}
	foot := fmt.Sprintf("%v, %s, %s", report.ThisHost(), dpdk.Version(), time.Now().UTC().Format(time.DateOnly))
	b, err := report.Lines("Cost of a packet of 64 B by number of groups, hosts and proxy QPs", "number", "ns a packet", foot, lines)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

func measureWorkers(cfg bench.Config) (any, func() error, error) {
	n := len(cfg.Lcores)
	lines, err := bench.CheckLines(n, 1)
	if err != nil {
		return nil, nil, err
	}
	scaling, err := bench.Workers(cfg)
	if err != nil {
		return nil, nil, err
	}
	handoff, err := bench.Handoffs(cfg, []int{0, 2, 8})
	return map[string]any{"scaling": scaling, "handoff": handoff}, func() error {
		if err := bench.PrintWorkers(os.Stdout, n, scaling); err != nil {
			return err
		}
		fmt.Println()
		if err := bench.PrintHandoffs(os.Stdout, handoff); err != nil {
			return err
		}
		fmt.Printf("\n%d cache lines are written by workers or other users of their rings; none has two writers.\n", lines)
		return nil
	}, err
}

// machine is the header of the figures: machine and set-up.
func machine(eal *dpdk.EAL) string {
	return fmt.Sprintf("%s: %v, %s, %s, %s\nICRC %s, ring ports, burst 64, 2048 packets in flight, random destinations, RoCEv2/IPv4 unless said",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), report.ThisHost(), dpdk.Version(), runtime.Version(), pages(eal), lcore.ICRCVersion())
}

// pages is the kind of memory that DPDK uses.
func pages(eal *dpdk.EAL) string {
	if eal.NoHuge() {
		return "ordinary pages"
	}
	return "hugepages"
}

// save writes the figures as JSON.
func (o *benchOptions) save(where string, cfg bench.Config, figures any) error {
	if o.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(map[string]any{
		"machine": where, "repetitions": cfg.Repetitions, "window_ms": float64(cfg.Window.Microseconds()) / 1e3, "figures": figures,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(b, '\n'), 0o644)
}
