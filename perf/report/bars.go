// SPDX-License-Identifier: Apache-2.0

package report

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"causeway/perf/trial"
)

// bar is a value. Hollow: the machine was its limit, so that the device may be faster.
type bar struct {
	value  float64
	hollow bool
}

// throughputFigures have a group of bars for each payload, with a bar for each direction and traffic.
func (r *Report) throughputFigures() ([]figure, error) {
	var payloads, kinds []string
	cases := map[string]*Case{}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.PDR == nil || c.NDR == nil || c.PDR.TotalPPS == 0 {
			continue
		}
		kind := c.Direction + ", " + c.Traffic
		if !slices.Contains(payloads, c.Payload) {
			payloads = append(payloads, c.Payload)
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		cases[kind+c.Payload] = c
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	pair := func(scale func(*Case, float64) float64) func(kind, payload string) (upper, lower bar) {
		return func(kind, payload string) (upper, lower bar) {
			if c := cases[kind+payload]; c != nil {
				upper = bar{scale(c, c.PDR.TotalPPS), c.PDR.Limit == trial.ByMachine}
				lower = bar{scale(c, c.NDR.TotalPPS), c.NDR.Limit == trial.ByMachine}
			}
			return upper, lower
		}
	}
	m, err := bars("Throughput: PDR; darker: NDR", "Mpps", payloads, kinds, pair(func(_ *Case, pps float64) float64 { return pps / 1e6 }))
	if err != nil {
		return nil, err
	}
	g, err := bars("Throughput in payload: PDR; darker: NDR", "Gbit/s", payloads, kinds, pair((*Case).Gbps))
	if err != nil {
		return nil, err
	}
	return []figure{{name: "throughput-mpps", plot: m, width: fullWidth}, {name: "throughput-gbps", plot: g, width: fullWidth}}, nil
}

// hollowName is the legend of hollow bars.
const hollowName = "hollow: other programs of the machine were the limit"

// bars draws pairs of values: the lower one darker, in front of the upper one.
func bars(title, unit string, groups, kinds []string, value func(kind, group string) (upper, lower bar)) (*plot.Plot, error) {
	p := newPlot(title, "payload, bytes", unit)
	width := min(vg.Points(28), fullWidth*0.7/vg.Length(len(groups)*len(kinds)))
	var hollow *plotter.BarChart
	for k, kind := range kinds {
		c := colours[k%len(colours)]
		light := color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
		offset := width * (vg.Length(k) - vg.Length(len(kinds)-1)/2)
		for i, g := range groups {
			upper, lower := value(kind, g)
			for j, v := range []bar{upper, lower} {
				b, err := v.chart(i, width, offset, []color.Color{light, c}[j], c)
				if err != nil {
					return nil, err
				}
				p.Add(b)
				if v.hollow {
					hollow = b
				}
			}
		}
		sample, err := bar{}.chart(0, width, offset, c, c)
		if err != nil {
			return nil, err
		}
		p.Legend.Add(kind, sample)
	}
	if hollow != nil {
		p.Legend.Add(hollowName, hollow)
	}
	p.NominalX(groups...)
	p.X.Min, p.X.Max, p.Y.Min = -0.5, float64(len(groups))-0.5, 0
	p.Y.Max *= 1.05
	return p, nil
}

// chart is a bar chart of this bar alone, in the i-th group.
func (b bar) chart(i int, width, offset vg.Length, fill, line color.Color) (*plotter.BarChart, error) {
	c, err := plotter.NewBarChart(plotter.Values{b.value}, width)
	if err != nil {
		return nil, err
	}
	c.XMin, c.Offset, c.Color, c.LineStyle.Width = float64(i), offset, fill, 0
	if b.hollow {
		c.Color, c.LineStyle.Width, c.LineStyle.Color, c.LineStyle.Dashes = color.White, vg.Points(1), line, dashes
	}
	return c, nil
}

func mix(c uint8) uint8 { return uint8((int(c) + 2*255) / 3) }
