// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"causeway/perf/trial"
)

// kind is the cases that differ only in their payload: they share plots.
type kind struct {
	name  string
	cases []*Case
}

func (r *Report) kinds() []*kind {
	var out []*kind
	for i := range r.Cases {
		c := &r.Cases[i]
		name := c.Direction + ", " + c.Traffic
		at := slices.IndexFunc(out, func(k *kind) bool { return k.name == name })
		if at < 0 {
			at = len(out)
			out = append(out, &kind{name: name})
		}
		out[at].cases = append(out[at].cases, c)
	}
	return out
}

// loadFigures show latency, burst size and loss by load.
func (r *Report) loadFigures() ([]figure, error) {
	var out []figure
	add := func(name string, p *plot.Plot, left leftOut, err error) error {
		if err == nil && p != nil {
			out = append(out, figure{name: name, plot: p, width: smallWidth, note: left.String()})
		}
		return err
	}
	for i, k := range r.kinds() {
		for _, d := range []trial.Direction{trial.RoCEToIB, trial.IBToRoCE} {
			p, left, err := k.latency(d.String())
			if err = add(fmt.Sprintf("load-%02d-latency-%v", i+1, d), p, left, err); err != nil {
				return nil, err
			}
		}
		p, left, err := k.bursts()
		if err = add(fmt.Sprintf("load-%02d-bursts", i+1), p, left, err); err != nil {
			return nil, err
		}
		p, left, err = k.loss()
		if err = add(fmt.Sprintf("load-%02d-loss", i+1), p, left, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// latency has two lines for each payload; nil: nothing was measured in that direction.
func (k *kind) latency(direction string) (p *plot.Plot, left leftOut, err error) {
	title := "Latency by load: " + k.name
	if k.cases[0].Direction != direction {
		title += ", " + direction
	}
	p = newPlot(title, "load, % of the PDR", "µs; p99 dashed")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	lines := 0
	for i, c := range k.cases {
		var good []trial.Latency
		for _, l := range c.Latency {
			if l.Direction == direction && !left.is(l.Verdict) {
				good = append(good, l)
			}
		}
		for j, percentile := range []float64{50, 99} {
			var xy plotter.XYs
			for _, l := range good {
				if v := value(l, percentile); v > 0 {
					xy = append(xy, plotter.XY{X: l.Part * 100, Y: v / 1e3})
				}
			}
			if len(xy) == 0 {
				continue
			}
			if err := addStyled(p, xy, i, []string{c.payloadName(), ""}[j], j == 1); err != nil {
				return nil, nil, err
			}
			lines++
		}
	}
	if lines == 0 {
		return nil, nil, nil
	}
	p.X.Min, p.X.Max = 0, 100
	return p, left, nil
}

// bursts has a line for each payload: messages in a burst, also for loads above the PDR.
func (k *kind) bursts() (p *plot.Plot, left leftOut, err error) {
	p = newPlot("Burst size by load: "+k.name, "load, % of the PDR", "messages in a burst")
	lines := 0
	for i, c := range k.cases {
		var xy plotter.XYs
		for _, l := range c.Latency {
			if l.PerBurst > 0 && l.Direction == c.Latency[0].Direction && !left.is(l.Verdict) {
				xy = append(xy, plotter.XY{X: l.Part * 100, Y: l.PerBurst})
			}
		}
		for _, s := range c.Loss {
			if s.PerBurst > 0 && c.PDR != nil && c.PDR.PPS > 0 && !left.is(s.Verdict) {
				xy = append(xy, plotter.XY{X: s.PPS / c.PDR.PPS * 100, Y: s.PerBurst})
			}
		}
		if len(xy) < 2 {
			continue
		}
		slices.SortStableFunc(xy, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		if err := addLine(p, xy, i, c.payloadName()); err != nil {
			return nil, nil, err
		}
		lines++
	}
	if lines == 0 {
		return nil, nil, nil
	}
	p.X.Min, p.X.Max, p.Y.Min = 0, max(p.X.Max, 100), 0
	p.Y.Max = max(p.Y.Max, 4) * 1.05
	return p, left, nil
}

// loss has a line for each payload; nil: nothing was lost, which the table says.
func (k *kind) loss() (p *plot.Plot, left leftOut, err error) {
	p = newPlot("Loss rate: "+k.name, "offered, Mpps", "lost, %")
	lines, most := 0, 0.0
	for i, c := range k.cases {
		var xy plotter.XYs
		for _, s := range c.Loss {
			if !left.is(s.Verdict) {
				xy = append(xy, plotter.XY{X: s.Offered() / 1e6, Y: s.Loss * 100})
				most = max(most, s.Loss)
			}
		}
		if len(xy) < 2 {
			continue
		}
		if err := addLine(p, xy, i, c.payloadName()); err != nil {
			return nil, nil, err
		}
		lines++
	}
	if lines == 0 || most == 0 {
		return nil, nil, nil
	}
	p.X.Min, p.Y.Min = 0, 0
	p.Y.Max *= 1.05
	return p, left, nil
}

func (c *Case) payloadName() string {
	if c.Payload == "imix" {
		return c.Payload
	}
	return c.Payload + " B"
}
