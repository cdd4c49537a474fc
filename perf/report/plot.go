// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours can be distinguished with most kinds of colour blindness (Okabe and Ito).
var colours = []color.RGBA{
	{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {213, 94, 0, 255},
	{120, 120, 120, 255},
}

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	for _, s := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		size := s.Font.Size
		s.Font = sans
		s.Font.Size = size
	}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.X.Tick.Marker, p.Y.Tick.Marker = round{}, round{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.Padding = vg.Points(3)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	return p
}

// figures are the plots of what was measured.
func (r *Report) figures() ([]figure, error) {
	var out []figure
	for _, f := range []func() ([]figure, error){r.throughputFigures, r.loadFigures, r.latencyFigures, r.soakFigures} {
		figs, err := f()
		if err != nil {
			return nil, fmt.Errorf("report: plot: %w", err)
		}
		out = append(out, figs...)
	}
	return out, nil
}

// latencyFigures have a line for each load over percentiles.
func (r *Report) latencyFigures() ([]figure, error) {
	var out []figure
	for i, c := range r.Cases {
		p := newPlot("Latency: "+c.Name, "percentile", "µs")
		p.X.Tick.Marker, p.Y.Scale, p.Y.Tick.Marker = nines{}, plot.LogScale{}, decades{}
		lines := 0
		var left leftOut
		for k, l := range c.Latency {
			var xy plotter.XYs
			for j, q := range l.Percentile {
				if l.At[j] > 0 {
					xy = append(xy, plotter.XY{X: ninesOf(q), Y: float64(l.At[j]) / 1e3})
				}
			}
			if left.is(l.Verdict) || len(xy) < 2 {
				continue
			}
			if err := addLine(p, xy, k, fmt.Sprintf("%s at %.0f %%", l.Direction, l.Part*100)); err != nil {
				return nil, err
			}
			lines++
		}
		if lines > 0 {
			out = append(out, figure{name: fmt.Sprintf("latency-%02d", i+1), plot: p, width: smallWidth, note: left.String()})
		}
	}
	return out, nil
}

func addLine(p *plot.Plot, xy plotter.XYs, k int, name string) error {
	return addStyled(p, xy, k, name, false)
}

var dashes = []vg.Length{vg.Points(5), vg.Points(3)}

// addStyled adds a line in the k-th colour; without a name it is not in the legend.
func addStyled(p *plot.Plot, xy plotter.XYs, k int, name string, dashed bool) error {
	line, points, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	c := colours[k%len(colours)]
	line.Color, line.Width, points.Color, points.Shape, points.Radius = c, vg.Points(1.5), c, draw.CircleGlyph{}, vg.Points(2)
	if dashed {
		line.Dashes = dashes
	}
	p.Add(line, points)
	if name != "" {
		p.Legend.Add(name, line)
	}
	return nil
}

// soakFigures show percentiles over time.
func (r *Report) soakFigures() ([]figure, error) {
	var out []figure
	for i, c := range r.Cases {
		if c.Soak == nil {
			continue
		}
		p := newPlot("Soak: "+c.Name, "seconds", "µs")
		var p50, p99 plotter.XYs
		var left leftOut
		for _, s := range c.Soak.Pieces {
			if left.is(s.Verdict) {
				continue
			}
			p50 = append(p50, plotter.XY{X: s.At, Y: float64(max(s.P50, 1)) / 1e3})
			p99 = append(p99, plotter.XY{X: s.At, Y: float64(max(s.P99, 1)) / 1e3})
		}
		if len(p50) < 2 {
			continue
		}
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		for k, xy := range []plotter.XYs{p50, p99} {
			if err := addLine(p, xy, k, []string{"p50", "p99"}[k]); err != nil {
				return nil, err
			}
		}
		out = append(out, figure{name: fmt.Sprintf("soak-%02d", i+1), plot: p, width: smallWidth, note: left.String()})
	}
	return out, nil
}
