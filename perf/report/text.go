// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"causeway/perf/trial"
)

// table is a table of the text and of the page.
type table struct {
	Title string
	Head  []string
	Rows  [][]string
	Note  string
}

// tables are the figures of a report by test.
func (r *Report) tables() []table {
	var out []table
	for _, t := range []table{
		r.generatorTable(), r.throughputTable(), r.latencyTable(), r.lossTable(), r.burstTable(), r.soakTable(), r.multicastTable(),
		r.mixedTable(), r.yardstickTable(), r.faultTable(),
	} {
		if len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Text prints the figures.
func (r *Report) Text(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n", r.line(), r.Device)
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tw, "%s\t\n", strings.Join(t.Head, "\t"))
		for _, row := range t.Rows {
			fmt.Fprintf(tw, "%s\t\n", strings.Join(row, "\t"))
		}
		tw.Flush()
		if t.Note != "" {
			fmt.Fprintf(w, "%s\n", t.Note)
		}
	}
	for _, n := range r.allNotes() {
		fmt.Fprintf(w, "\nnote: %s\n", n)
	}
}

// allNotes are the notes of the report and of its cases.
func (r *Report) allNotes() []string {
	notes := slices.Clone(r.Notes)
	for _, c := range r.Cases {
		if c.Problem != "" {
			notes = append(notes, c.Name+": "+c.Problem)
		}
	}
	return notes
}

// line is date, duration, host and versions.
func (r *Report) line() string {
	return fmt.Sprintf("%s, %v: %v, %s", r.Started.Format(minute), time.Duration(r.Seconds*1e9).Round(time.Second), r.Host, r.versionLine())
}

// foot is the foot line of plots, each of which may be shown without the page.
func (r *Report) foot() string {
	return fmt.Sprintf("%v; %s; %s; %s, profile %s", r.Host, r.versionLine(), r.noise(), r.Started.Format(time.DateOnly), r.Profile.Name)
}

// noise says how much the same loop differed from one time to the next.
func (r *Report) noise() string {
	most := 0.0
	for _, c := range r.Ceiling {
		most = max(most, c.Noise)
	}
	if len(r.Ceiling) == 0 {
		return "noise not measured"
	}
	return fmt.Sprintf("noise %.0f %% (of the generator by itself)", most*100)
}

const minute = "2006-01-02 15:04 MST"

func (r *Report) versionLine() string {
	var parts []string
	for _, k := range []string{"Causeway", "DPDK", "Go", "ICRC"} {
		if v := r.Versions[k]; v != "" {
			parts = append(parts, k+" "+strings.TrimPrefix(v, "go"))
		}
	}
	return strings.Join(parts, ", ")
}

func mpps(pps float64) string { return fmt.Sprintf("%.3f", pps/1e6) }

func ns(v int64) string { return time.Duration(v).Round(resolution(v)).String() }

// resolution keeps four digits.
func resolution(v int64) time.Duration {
	r := time.Duration(1)
	for v >= 10000 {
		v /= 10
		r *= 10
	}
	return r
}

func percent(ratio float64) string {
	if ratio == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3g %%", ratio*100)
}

func (r *Report) generatorTable() table {
	t := table{Title: "The generator by itself", Head: []string{"payload", "Mpps", "noise", "p50 at 10 %", "p99"}, Note: r.ceilingNote()}
	for _, c := range r.Ceiling {
		t.Rows = append(t.Rows, []string{c.Payload, mpps(c.PPS), fmt.Sprintf("%.1f %%", c.Noise*100), at(c.Latency, 50), at(c.Latency, 99)})
	}
	return t
}

// ceilingNote says what the generator's figures are, and which figures of the device are above them.
func (r *Report) ceilingNote() string {
	note := "One core makes and reads all messages, through a ring: the best of several floods. Noise: how far the middle half of them lies apart."
	above, most := 0, 0.0
	for i := range r.Cases {
		c := &r.Cases[i]
		for _, t := range []*trial.Throughput{c.NDR, c.PDR} {
			if limit := r.ceiling(c.Payload); t != nil && limit > 0 && t.TotalPPS > limit {
				above, most = above+1, max(most, t.TotalPPS/limit-1)
			}
		}
	}
	if above > 0 {
		note += fmt.Sprintf(" Figures of the device that are above it: %d, by up to %.1f %%. The machine's speed changed meanwhile, or its queues cost the "+
			"generator less than the ring: differences of that size mean nothing.", above, most*100)
	}
	return note
}

// ceiling is what all generators can do with a payload; 0: it was not measured.
func (r *Report) ceiling(payload string) float64 {
	for _, c := range r.Ceiling {
		if c.Payload == payload {
			return c.PPS * float64(r.Profile.Device.Workers) // as many generators
		}
	}
	return 0
}

// at is a percentile; "-": there are too few samples.
func at(l trial.Latency, p float64) string {
	for i, x := range l.Percentile {
		if x == p {
			return ns(l.At[i])
		}
	}
	return "-"
}

func (r *Report) throughputTable() table {
	t := table{Title: "Throughput", Head: []string{"case", "NDR Mpps", "Gbit/s", "limited by", "PDR Mpps", "Gbit/s", "limited by", "trials"}}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.PDR == nil {
			continue
		}
		row := []string{c.Name, "-", "-", "-"}
		trials := len(c.PDR.Steps)
		if n := c.NDR; n != nil {
			row = []string{c.Name, mpps(n.TotalPPS), fmt.Sprintf("%.1f", c.Gbps(n.TotalPPS)), n.Limit}
			trials += len(n.Steps)
		}
		pdr := []string{mpps(c.PDR.TotalPPS), fmt.Sprintf("%.1f", c.Gbps(c.PDR.TotalPPS)), c.PDR.Limit}
		if c.PDR.Limit == "" { // ended early
			pdr = []string{"-", "-", "-"}
		}
		t.Rows = append(t.Rows, append(append(row, pdr...), fmt.Sprint(trials)))
	}
	if len(t.Rows) > 0 {
		t.Note = "With both directions loaded, their sum. Gbit/s of payload. Limited by the machine: other programs used the CPUs, and the device may be faster."
	}
	return t
}

func (r *Report) latencyTable() table {
	t := table{Title: "Latency", Head: []string{"case", "direction", "load", "Mpps", "lost", "per burst", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max"}}
	for _, c := range r.Cases {
		for _, l := range c.Latency {
			t.Rows = append(t.Rows, []string{
				c.Name, l.Direction, fmt.Sprintf("%.0f %%", l.Part*100), mpps(l.PPS), lost(l.Loss, l.Verdict), burst(l.PerBurst), ns(l.Min),
				at(l, 50), at(l, 90), at(l, 99), at(l, 99.9), at(l, 99.99), ns(l.Max),
			})
		}
	}
	if len(t.Rows) > 0 {
		t.Note = "Load: of the PDR. Per burst: messages that a worker received in a turn of its loop, at most 64 from each side."
	}
	return t
}

func burst(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", n)
}

// lost is the loss ratio, or why the trial does not count.
func lost(ratio float64, verdict string) string {
	if verdict == trial.Disturbed || verdict == trial.TooSlow {
		return verdict
	}
	return percent(ratio)
}

func (r *Report) lossTable() table {
	t := table{Title: "Loss rate", Head: []string{"case", "offered Mpps", "received Mpps", "lost", "per burst"}}
	counts, disturbed, most := 0, 0, 0.0
	for _, c := range r.Cases {
		for _, s := range c.Loss {
			t.Rows = append(t.Rows, []string{c.Name, mpps(s.Offered()), mpps(s.Received), lost(s.Loss, s.Verdict), burst(s.PerBurst)})
			if trial.Valid(s.Verdict) {
				counts, most = counts+1, max(most, s.Loss)
			} else {
				disturbed++
			}
		}
	}
	switch {
	case counts == 0:
		t.Note = "None of these trials is a figure of the device."
	case most == 0 && disturbed > 0:
		t.Note = "In trials that were not disturbed nothing was lost, so there is no plot."
	case most == 0:
		t.Note = "Nothing was lost at any load, so there is no plot."
	}
	return t
}

func (r *Report) burstTable() table {
	t := table{Title: "Back-to-back", Head: []string{"case", "packets", "stddev", "least", "most", "at Mpps", "buffer"}}
	for _, c := range r.Cases {
		b := c.Burst
		if b == nil {
			continue
		}
		most := fmt.Sprint(b.Max)
		if b.Max == b.Limit {
			most = "≥ " + most
		}
		t.Rows = append(t.Rows, []string{
			c.Name, fmt.Sprintf("%.0f", b.Mean), fmt.Sprintf("%.0f", b.Deviation), fmt.Sprint(b.Min), most, mpps(b.RatePPS),
			ns(int64(b.BufferSeconds * 1e9)),
		})
	}
	return t
}

func (r *Report) soakTable() table {
	t := table{Title: "Soak", Head: []string{"case", "direction", "for", "Mpps", "offered", "lost", "reordered", "duplicates", "corrupted", "misdelivered", "p99", "max"}}
	for _, c := range r.Cases {
		if c.Soak == nil {
			continue
		}
		for _, l := range c.Soak.Latency {
			x := c.Soak.Counts[l.Direction]
			t.Rows = append(t.Rows, []string{
				c.Name, l.Direction, time.Duration(c.Soak.Seconds * 1e9).Round(time.Second).String(), mpps(c.Soak.PPS), fmt.Sprint(x.Offered),
				fmt.Sprint(x.Lost()), fmt.Sprint(x.Reordered), fmt.Sprint(x.Duplicates), fmt.Sprint(x.Corrupted), fmt.Sprint(x.Misdelivered),
				at(l, 99), ns(l.Max),
			})
		}
	}
	return t
}

func (r *Report) multicastTable() table {
	t := table{Title: "Multicast", Head: []string{"case", "groups", "at Mpps", "join min", "avg", "max", "leave min", "avg", "max", "p50", "p99"}}
	for _, c := range r.Cases {
		m := c.Multicast
		if m == nil || m.Capacity.Limit == 0 {
			continue
		}
		groups := fmt.Sprint(m.Capacity.Groups)
		if m.Capacity.Groups == m.Capacity.Limit {
			groups = "≥ " + groups
		}
		row := []string{
			c.Name, groups, mpps(m.Capacity.PPS), ns(int64(m.Join.Min)), ns(int64(m.Join.Avg)), ns(int64(m.Join.Max)),
			ns(int64(m.Leave.Min)), ns(int64(m.Leave.Avg)), ns(int64(m.Leave.Max)), "-", "-",
		}
		if len(m.Latency) > 0 {
			row[9], row[10] = at(m.Latency[0], 50), at(m.Latency[0], 99)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Report) mixedTable() table {
	t := table{Title: "Mixed multicast and unicast", Head: []string{"case", "share of multicast", "Mpps", "limited by"}}
	for _, c := range r.Cases {
		if c.Multicast == nil {
			continue
		}
		for _, x := range c.Multicast.Mixed {
			t.Rows = append(t.Rows, []string{c.Name, fmt.Sprintf("%.0f %%", x.Share*100), mpps(x.Throughput.TotalPPS), x.Throughput.Limit})
		}
	}
	return t
}

// faultTable adds up faults over all trials.
func (r *Report) faultTable() table {
	t := table{Title: "Faults, over all trials", Head: []string{"case", "messages", "compared whole", "reordered", "duplicates", "corrupted", "misdelivered", "without a stamp"}}
	for i := range r.Cases {
		c := &r.Cases[i]
		var sum trial.Counts
		var foreign uint64
		for _, s := range c.steps() {
			foreign += s.Foreign
			for _, x := range s.Counts {
				sum.Add(x)
			}
		}
		if c.Soak != nil {
			foreign += c.Soak.Foreign
			for _, x := range c.Soak.Counts {
				sum.Add(x)
			}
		}
		t.Rows = append(t.Rows, []string{
			c.Name, fmt.Sprint(sum.Received), fmt.Sprint(sum.Checked), fmt.Sprint(sum.Reordered), fmt.Sprint(sum.Duplicates + sum.Stale),
			fmt.Sprint(sum.Corrupted), fmt.Sprint(sum.Misdelivered), fmt.Sprint(foreign),
		})
	}
	return t
}

// steps are all trials of a case, except a soak's.
func (c *Case) steps() []trial.Step {
	var out []trial.Step
	for _, t := range []*trial.Throughput{c.NDR, c.PDR} {
		if t != nil {
			out = append(out, t.Steps...)
		}
	}
	out = append(append(out, c.Trials...), c.Loss...)
	if c.Burst != nil {
		out = append(out, c.Burst.Steps...)
	}
	if c.Multicast != nil {
		out = append(out, c.Multicast.Steps...)
		for _, m := range c.Multicast.Mixed {
			out = append(out, m.Throughput.Steps...)
		}
	}
	return out
}
