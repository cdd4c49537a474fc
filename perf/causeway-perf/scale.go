// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"causeway/dpdk"
	"causeway/perf/bench"
	"causeway/perf/scale"
)

// scaleOptions are what scale is told.
type scaleOptions struct {
	reps   int
	window time.Duration
	json   string
}

func scaleFlags(o *scaleOptions) *flag.FlagSet {
	fs := newFlags("scale", "[OPTIONS]", "Measures on CPUs 0 and 1 what one worker and two need for a packet, and what handing one over costs,\n"+
		"and computes what up to 16 workers carry.")
	fs.IntVar(&o.reps, "reps", 9, "`N` readings of each figure, of which the median counts")
	fs.DurationVar(&o.window, "window", 25*time.Millisecond, "CPU `TIME` of a reading")
	fs.StringVar(&o.json, "json", "", "write the figures to this `FILE`, too")
	return fs
}

// scaling is all that is measured and computed.
type scaling struct {
	Costs  scale.Costs      `json:"costs"`
	Two    [2]bench.Scaling `json:"two_workers"` // by direction
	Handed []bench.Handed   `json:"handed_over"`
	Points [2][]scale.Point `json:"points"` // by spread
}

func scaleCommand(args []string) (err error) {
	var o scaleOptions
	if err := parseFlags(scaleFlags(&o), args, 0, 0); err != nil {
		return err
	}
	if o.reps < 1 || o.window <= 0 || runtime.NumCPU() < 2 {
		fmt.Fprintln(os.Stderr, "causeway-perf: give at least one reading, of more than no time, and two CPUs")
		return errUsage
	}
	two := benchOptions{workers: 2, reps: o.reps, window: o.window}
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "causeway-perf", Workers: two.cpus(), MemoryMiB: 256})
	if err != nil {
		return err
	}
	defer func() {
		if closing := eal.Close(); err == nil {
			err = closing
		}
	}()
	cfg, err := two.config(eal)
	if err != nil {
		return err
	}
	x, err := measureScaling(cfg)
	if cfg.Progress != nil {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d readings of %v\n", machine(eal), cfg.Repetitions, cfg.Window)
	if err := x.print(os.Stdout); err != nil {
		return err
	}
	return x.save(o.json)
}

// measureScaling measures what computing needs, and what shows whether it is right: the cost of handing over is taken from the
// smallest share, and the largest tells what it is worth.
func measureScaling(cfg bench.Config) (x scaling, err error) {
	if x.Two, err = bench.TwoWorkers(cfg); err != nil {
		return x, err
	}
	if x.Handed, err = bench.HandedOver(cfg, []int{0, 2, 8}); err != nil {
		return x, err
	}
	none, few := x.Handed[0], x.Handed[1]
	x.Costs = scale.Costs{
		ToIB: x.Two[0].AloneNS, ToRoCE: x.Two[1].AloneNS, HandOver: max(0, (few.EachNS-none.EachNS)/few.Share),
	}
	for s := range x.Points {
		x.Points[s] = scale.Compute(scale.Spread(s), x.Costs)
	}
	return x, nil
}

func (x *scaling) print(w io.Writer) error {
	c := x.Costs
	fmt.Fprintf(w, "\n64 B: RoCE to IB %.1f ns, IB to RoCE %.1f ns; a packet handed over costs %.1f ns more, of both workers together\n\n", c.ToIB, c.ToRoCE, c.HandOver)
	fmt.Fprintln(w, "two workers, Mpps                      computed  measured")
	line := func(what string, computed, measured float64) {
		fmt.Fprintf(w, "%-38s %8.1f  %8.1f  %+.0f %%\n", what, computed, measured, 100*(computed/measured-1))
	}
	for _, s := range x.Two {
		line(s.Direction, 2e3/s.AloneNS, 2e3/s.EachNS)
	}
	base := scale.Costs{ToIB: x.Handed[0].EachNS, HandOver: c.HandOver} // fewer packets go round there: they are nearer
	for _, h := range x.Handed[1:] {
		line(fmt.Sprintf("RoCE to IB, %.0f %% handed over", 100*h.Share), base.Even(2, h.Share), 2e3/h.EachNS)
	}
	for s, points := range x.Points {
		if err := scale.Print(w, scale.Spread(s), points); err != nil {
			return err
		}
	}
	return nil
}

// save writes the figures for programs.
func (x *scaling) save(file string) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
