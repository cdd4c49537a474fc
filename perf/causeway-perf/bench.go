// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/bench"
	"causeway/perf/report"
)

// benchOptions are what bench is told.
type benchOptions struct {
	cpu, reps, payload, entries, workers int
	window                               time.Duration
	quick, curves, reportOnly, noHuge    bool
	read, json, plot                     string
}

func benchFlags(o *benchOptions) *flag.FlagSet {
	fs := newFlags("bench", "[OPTIONS]", "Measures the packet path over ring ports, in nanoseconds a packet, beside floors and a peer of the same run.\n"+
		"It fails when a gate is missed.")
	fs.IntVar(&o.cpu, "cpu", runtime.NumCPU()-1, "the `CPU` that the measured loops run on")
	fs.IntVar(&o.reps, "reps", 0, "`N` readings of each figure, taken in turn with the others'; the median counts (default 9, quick 3)")
	fs.DurationVar(&o.window, "window", 0, "CPU `TIME` of a reading (default 25ms, quick 8ms)")
	fs.IntVar(&o.payload, "payload", 0, "measure paths with this payload only, in `BYTES`, a multiple of 8")
	fs.IntVar(&o.entries, "entries", 0, "measure paths with `N` entries only: a power of 2, to 1048576")
	fs.BoolVar(&o.quick, "quick", false, "less time, less certainty, and no tables of 1 M entries")
	fs.BoolVar(&o.curves, "curves", false, "measure instead how costs grow with groups, hosts and stand-ins")
	fs.IntVar(&o.workers, "workers", 1, "measure instead how `N` workers scale, on CPUs 0 to N-1")
	fs.BoolVar(&o.noHuge, "no-huge", false, "ordinary memory, even where hugepages are free")
	fs.BoolVar(&o.reportOnly, "report-only", false, "succeed though gates are missed")
	fs.StringVar(&o.read, "read", bench.DefaultReading, "the `WAY` the floors read every byte: words (8 bytes, plain C), narrow (16) or wide (64)")
	fs.StringVar(&o.plot, "plot", "", "with -curves: draw them into this `FILE`, as PNG")
	fs.StringVar(&o.json, "json", "", "write the figures to this `FILE`, too")
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
		return fmt.Errorf("causeway-perf: payload %d: give a multiple of 8, to %d", o.payload, lcore.MaxPayload)
	case o.entries < 0 || o.entries&(o.entries-1) != 0 || o.entries > bench.Large:
		return fmt.Errorf("causeway-perf: entries %d: give a power of 2, to %d", o.entries, bench.Large)
	case o.plot != "" && !o.curves:
		return errors.New("causeway-perf: -plot draws curves: give -curves, too")
	case !bench.CanRead(o.read):
		return fmt.Errorf("causeway-perf: read %q: give words, narrow or, with AVX-512, wide", o.read)
	case o.workers < 1 || o.workers > runtime.NumCPU():
		return fmt.Errorf("causeway-perf: workers %d: there are %d CPUs", o.workers, runtime.NumCPU())
	}
	return nil
}

// cpus are those of the worker lcores.
func (o *benchOptions) cpus() []int {
	if o.workers == 1 {
		return []int{o.cpu}
	}
	var all []int
	for i := range o.workers {
		all = append(all, o.workers-1-i) // the CPU with least to do comes first: it also works alone
	}
	return all
}

func (o *benchOptions) config(eal *dpdk.EAL) (bench.Config, error) {
	cfg := bench.Config{Repetitions: 9, Window: 25 * time.Millisecond, Reading: o.read}
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
	if tty(os.Stderr) {
		cfg.Progress = func(what string) { fmt.Fprintf(os.Stderr, "\r\033[K%s", what) }
	}
	return cfg, nil
}

// tty reports whether f is a terminal, on which a line can be written over.
func tty(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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

// judge fails when gates are missed.
func (o *benchOptions) judge(rows []bench.Row) error {
	missed, gates := bench.Missed(rows)
	switch {
	case gates == 0:
		return nil
	case missed == 0 || o.reportOnly:
		fmt.Printf("\n%d of %d gates are missed.\n", missed, gates)
		return nil
	}
	return fmt.Errorf("causeway-perf: %d of %d gates are missed", missed, gates)
}

// sizes are those of the tables. The largest take 2 GiB, most of it management's.
func (o *benchOptions) sizes() []int {
	const largestMiB = 3 << 10
	switch {
	case o.entries > 0:
		return []int{o.entries}
	case o.quick:
		return []int{bench.Small, bench.Medium}
	case availableMiB() < largestMiB:
		fmt.Fprintf(os.Stderr, "causeway-perf: fewer than %d MiB are available: tables of 1 M entries are left out\n", largestMiB)
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
			l := report.Line{Name: name + ", more " + c.Of, Colour: i, Dashed: d > 0}
			for _, p := range c.Points {
				l.X, l.Y = append(l.X, float64(p.N)), append(l.Y, p.NS[d])
			}
			lines = append(lines, l)
		}
	}
	foot := fmt.Sprintf("%v, %s, %s", report.ThisHost(), dpdk.Version(), time.Now().UTC().Format(time.DateOnly))
	b, err := report.Lines("What a packet of 64 B costs, with more and more of something", "how many", "ns a packet", foot, lines)
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
	return scaling, func() error {
		if err := bench.PrintWorkers(os.Stdout, n, scaling); err != nil {
			return err
		}
		fmt.Printf("\n%d cache lines are written by workers or at their rings; each by one alone.\n", lines)
		return nil
	}, err
}

// machine is the line that says what the figures are of.
func machine(eal *dpdk.EAL) string {
	memory := "hugepages"
	if eal.NoHuge() {
		memory = "ordinary pages"
	}
	return fmt.Sprintf("%s: %v, %s, %s, %s\nICRC %s, ring ports, burst 64, 2048 packets in flight, random destinations, RoCEv2/IPv4 unless said",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), report.ThisHost(), dpdk.Version(), runtime.Version(), memory, lcore.ICRCVersion())
}

// save writes the figures for programs.
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
