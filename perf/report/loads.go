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
	add := func(name string, p *plot.Plot, err error) error {
		if err == nil && p != nil {
			out = append(out, figure{name, p, smallWidth})
		}
		return err
	}
	for i, k := range r.kinds() {
		for _, d := range []trial.Direction{trial.RoCEToIB, trial.IBToRoCE} {
			p, err := k.latency(d.String())
			if err = add(fmt.Sprintf("load-%02d-latency-%v", i+1, d), p, err); err != nil {
				return nil, err
			}
		}
		p, err := k.bursts()
		if err = add(fmt.Sprintf("load-%02d-bursts", i+1), p, err); err != nil {
			return nil, err
		}
		p, err = k.loss()
		if err = add(fmt.Sprintf("load-%02d-loss", i+1), p, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// latency has two lines for each payload; nil: nothing was measured in that direction.
func (k *kind) latency(direction string) (*plot.Plot, error) {
	title := "Latency by load: " + k.name
	if k.cases[0].Direction != direction {
		title += ", " + direction
	}
	p := newPlot(title, "load, % of the PDR", "µs; p99 dashed")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	legendLeft(p)
	lines := 0
	for i, c := range k.cases {
		for j, percentile := range []float64{50, 99} {
			var xy plotter.XYs
			for _, l := range c.Latency {
				if v := value(l, percentile); l.Direction == direction && v > 0 && l.Valid() {
					xy = append(xy, plotter.XY{X: l.Part * 100, Y: v / 1e3})
				}
			}
			if len(xy) == 0 {
				continue
			}
			if err := addStyled(p, xy, i, []string{c.payloadName(), ""}[j], j == 1); err != nil {
				return nil, err
			}
			lines++
		}
	}
	if lines == 0 {
		return nil, nil
	}
	p.X.Min, p.X.Max = 0, 100
	p.Y.Max *= 3 // room for the legend
	return p, nil
}

// bursts has a line for each payload: messages in a burst, also for loads above the PDR.
func (k *kind) bursts() (*plot.Plot, error) {
	p := newPlot("Burst size by load: "+k.name, "load, % of the PDR", "messages in a burst")
	legendLeft(p)
	lines := 0
	for i, c := range k.cases {
		var xy plotter.XYs
		for _, l := range c.Latency {
			if l.PerBurst > 0 && l.Direction == c.Latency[0].Direction && l.Valid() {
				xy = append(xy, plotter.XY{X: l.Part * 100, Y: l.PerBurst})
			}
		}
		for _, s := range c.Loss {
			if s.PerBurst > 0 && s.Valid() && c.PDR != nil && c.PDR.PPS > 0 {
				xy = append(xy, plotter.XY{X: s.PPS / c.PDR.PPS * 100, Y: s.PerBurst})
			}
		}
		if len(xy) < 2 {
			continue
		}
		slices.SortStableFunc(xy, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		if err := addLine(p, xy, i, c.payloadName()); err != nil {
			return nil, err
		}
		lines++
	}
	if lines == 0 {
		return nil, nil
	}
	p.X.Min, p.X.Max, p.Y.Min = 0, max(p.X.Max, 100), 0
	p.Y.Max = max(p.Y.Max, 4) * (1.1 + 0.05*float64(lines)) // room for the legend
	return p, nil
}

// loss has a line for each payload.
func (k *kind) loss() (*plot.Plot, error) {
	p := newPlot("Loss rate: "+k.name, "offered, Mpps", "lost, %")
	legendLeft(p)
	lines := 0
	for i, c := range k.cases {
		var xy plotter.XYs
		for _, s := range c.Loss {
			if s.Valid() {
				xy = append(xy, plotter.XY{X: s.Offered() / 1e6, Y: s.Loss * 100})
			}
		}
		if len(xy) < 2 {
			continue
		}
		if err := addLine(p, xy, i, c.payloadName()); err != nil {
			return nil, err
		}
		lines++
	}
	if lines == 0 {
		return nil, nil
	}
	p.X.Min, p.Y.Min = 0, 0
	p.Y.Max = max(p.Y.Max*(1.1+0.08*float64(lines)), 0.1) // room for the legend
	return p, nil
}

func (c *Case) payloadName() string {
	if c.Payload == "imix" {
		return c.Payload
	}
	return c.Payload + " B"
}
