// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"causeway/perf/trial"
)

// Comparison compares two reports.
type Comparison struct {
	Before, After *Report
	Rows          []Change
	Differences   []string // of host, versions and profile, which make figures hard to compare
	Unmatched     []string // cases in only one of the reports
}

// Change is one figure of a case in both reports.
type Change struct {
	Case, What, Unit string
	Before, After    float64
	MoreIsBetter     bool
	Machine          bool // the machine limited one of them, so that it is not a figure of the device
}

// Ratio is After over Before; 0: there is none.
func (c Change) Ratio() float64 {
	if c.Before == 0 {
		return 0
	}
	return c.After / c.Before
}

// noise is the largest difference that is not called a change.
const noise = 0.03

// Word says whether a change is better or worse.
func (c Change) Word() string {
	r := c.Ratio()
	switch {
	case c.Machine:
		return "limited by the machine"
	case r == 0 || r > 1-noise && r < 1+noise:
		return ""
	case (r > 1) == c.MoreIsBetter:
		return "better"
	}
	return "worse"
}

// Compare matches cases by name.
func Compare(before, after *Report) *Comparison {
	c := &Comparison{Before: before, After: after}
	old := map[string]*Case{}
	for i := range before.Cases {
		old[before.Cases[i].Name] = &before.Cases[i]
	}
	for i := range after.Cases {
		now := &after.Cases[i]
		was := old[now.Name]
		if was == nil {
			c.Unmatched = append(c.Unmatched, "only after: "+now.Name)
			continue
		}
		delete(old, now.Name)
		c.add(was, now)
	}
	for i := range before.Cases {
		if name := before.Cases[i].Name; old[name] != nil {
			c.Unmatched = append(c.Unmatched, "only before: "+name)
		}
	}
	c.differences()
	return c
}

func (c *Comparison) add(was, now *Case) {
	change := func(what, unit string, before, after float64, more bool) {
		c.Rows = append(c.Rows, Change{Case: now.Name, What: what, Unit: unit, Before: before, After: after, MoreIsBetter: more})
	}
	c.addRate(now.Name, "NDR", was.NDR, now.NDR)
	c.addRate(now.Name, "PDR", was.PDR, now.PDR)
	for _, l := range now.Latency {
		for _, k := range was.Latency {
			if k.Direction != l.Direction || k.Part != l.Part || !k.Valid() || !l.Valid() {
				continue
			}
			for _, p := range []float64{50, 99} {
				x, y := value(k, p), value(l, p)
				if x > 0 && y > 0 {
					change(fmt.Sprintf("%s p%v at %.0f %%", l.Direction, p, l.Part*100), "µs", x/1e3, y/1e3, false)
				}
			}
		}
	}
	if was.Burst != nil && now.Burst != nil {
		change("burst", "packets", was.Burst.Mean, now.Burst.Mean, true)
	}
	if was.Multicast != nil && now.Multicast != nil {
		change("groups", "", float64(was.Multicast.Capacity.Groups), float64(now.Multicast.Capacity.Groups), true)
		change("join", "µs", float64(was.Multicast.Join.Avg)/1e3, float64(now.Multicast.Join.Avg)/1e3, false)
		change("leave", "µs", float64(was.Multicast.Leave.Avg)/1e3, float64(now.Multicast.Leave.Avg)/1e3, false)
		c.addMixed(was.Multicast, now.Multicast, now.Name)
	}
}

// addRate adds a throughput that both reports have.
func (c *Comparison) addRate(name, what string, was, now *trial.Throughput) {
	if was != nil && now != nil {
		c.Rows = append(c.Rows, Change{
			Case: name, What: what, Unit: "Mpps", Before: was.TotalPPS / 1e6, After: now.TotalPPS / 1e6, MoreIsBetter: true,
			Machine: was.Limit == trial.ByMachine || now.Limit == trial.ByMachine,
		})
	}
}

func (c *Comparison) addMixed(was, now *trial.Multicast, name string) {
	for _, m := range now.Mixed {
		for _, k := range was.Mixed {
			if k.Share == m.Share {
				c.addRate(name, fmt.Sprintf("%.0f %% multicast", m.Share*100), &k.Throughput, &m.Throughput)
			}
		}
	}
}

func value(l trial.Latency, p float64) float64 {
	for i, x := range l.Percentile {
		if x == p {
			return float64(l.At[i])
		}
	}
	return 0
}

func (c *Comparison) differences() {
	b, a := c.Before, c.After
	differ := func(what, before, after string) {
		if before != after {
			c.Differences = append(c.Differences, fmt.Sprintf("%s: %s before, %s after", what, before, after))
		}
	}
	differ("CPU", b.Host.CPU, a.Host.CPU)
	differ("CPUs", fmt.Sprint(b.Host.CPUs), fmt.Sprint(a.Host.CPUs))
	differ("kernel", b.Host.Kernel, a.Host.Kernel)
	differ("device", b.Device, a.Device)
	for _, k := range []string{"Causeway", "DPDK", "Go", "ICRC"} {
		differ(k, b.Versions[k], a.Versions[k])
	}
	differ("trial", b.Profile.Throughput.Trial.D().String(), a.Profile.Throughput.Trial.D().String())
	differ("load of the machine", b.Host.Load, a.Host.Load)
}

func (c *Comparison) table() table {
	t := table{Title: "Changes", Head: []string{"case", "figure", "before", "after", "ratio", ""}}
	for _, r := range c.Rows {
		t.Rows = append(t.Rows, []string{
			r.Case, r.What, fmt.Sprintf("%.3f %s", r.Before, r.Unit), fmt.Sprintf("%.3f %s", r.After, r.Unit), fmt.Sprintf("%.3f", r.Ratio()), r.Word(),
		})
	}
	t.Note = fmt.Sprintf("Differences below %.0f %% are not called a change: two runs of the same program differ as much.", noise*100)
	return t
}

// Text prints the comparison.
func (c *Comparison) Text(w io.Writer) {
	fmt.Fprintf(w, "before: %s\nafter:  %s\n\n", c.Before.line(), c.After.line())
	t := c.table()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(t.Head, "\t"))
	for _, row := range t.Rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	tw.Flush()
	fmt.Fprintln(w, t.Note)
	for _, s := range append(c.Differences, c.Unmatched...) {
		fmt.Fprintln(w, s)
	}
}
