// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is a plot and the name of its file.
type figure struct {
	name  string
	plot  *plot.Plot
	width vg.Length
}

const (
	height     = 8 * vg.Centimeter
	fullWidth  = 15.5 * vg.Centimeter // two fit side by side on a page
	smallWidth = 0.645 * fullWidth    // three do
	footHeight = 0.45 * vg.Centimeter
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
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs = vg.Points(-4)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	return p
}

// legendLeft moves the legend to the left, for plots that rise to the right.
func legendLeft(p *plot.Plot) {
	p.Legend.Left = true
	p.Legend.XOffs = vg.Points(8)
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

// throughputFigures have a group of bars for each payload, with a bar for each direction and traffic.
func (r *Report) throughputFigures() ([]figure, error) {
	var payloads, kinds []string
	pdr := map[string]*Case{}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.PDR == nil || c.NDR == nil {
			continue
		}
		kind := c.Direction + ", " + c.Traffic
		if !slices.Contains(payloads, c.Payload) {
			payloads = append(payloads, c.Payload)
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		pdr[kind+c.Payload] = c
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	m, err := bars("Throughput: PDR; darker: NDR", "Mpps", payloads, kinds, func(kind, payload string) (float64, float64) {
		if c := pdr[kind+payload]; c != nil {
			return c.PDR.TotalPPS / 1e6, c.NDR.TotalPPS / 1e6
		}
		return 0, 0
	})
	if err != nil {
		return nil, err
	}
	g, err := bars("Throughput in payload", "Gbit/s", payloads, kinds, func(kind, payload string) (float64, float64) {
		if c := pdr[kind+payload]; c != nil {
			return c.Gbps(c.PDR.TotalPPS), c.Gbps(c.NDR.TotalPPS)
		}
		return 0, 0
	})
	return []figure{{"throughput-mpps", m, fullWidth}, {"throughput-gbps", g, fullWidth}}, err
}

// bars draws pairs of values: the lower one darker, in front of the upper one.
func bars(title, unit string, groups, kinds []string, value func(kind, group string) (upper, lower float64)) (*plot.Plot, error) {
	p := newPlot(title, "payload, bytes", unit)
	width := min(vg.Points(28), fullWidth*0.7/vg.Length(len(groups)*len(kinds)))
	for k, kind := range kinds {
		upper, lower := plotter.Values{}, plotter.Values{}
		for _, g := range groups {
			u, l := value(kind, g)
			upper, lower = append(upper, u), append(lower, l)
		}
		c := colours[k%len(colours)]
		light := color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
		for _, layer := range []struct {
			v plotter.Values
			c color.Color
		}{{upper, light}, {lower, c}} {
			b, err := plotter.NewBarChart(layer.v, width)
			if err != nil {
				return nil, err
			}
			b.Color, b.LineStyle.Width = layer.c, 0
			b.Offset = width * (vg.Length(k) - vg.Length(len(kinds)-1)/2)
			p.Add(b)
			if layer.c == c {
				p.Legend.Add(kind, b)
			}
		}
	}
	p.NominalX(groups...)
	p.X.Min, p.X.Max, p.Y.Min = -0.5, float64(len(groups))-0.5, 0
	p.Y.Max *= 1.05 + 0.09*float64(len(kinds)) // room for the legend
	return p, nil
}

func mix(c uint8) uint8 { return uint8((int(c) + 2*255) / 3) }

// latencyFigures have a line for each load over percentiles.
func (r *Report) latencyFigures() ([]figure, error) {
	var out []figure
	for i, c := range r.Cases {
		if len(c.Latency) == 0 {
			continue
		}
		p := newPlot("Latency: "+c.Name, "percentile", "µs")
		p.X.Tick.Marker, p.Y.Scale, p.Y.Tick.Marker = nines{}, plot.LogScale{}, decades{}
		legendLeft(p)
		lines := 0
		for k, l := range c.Latency {
			var xy plotter.XYs
			for j, q := range l.Percentile {
				xy = append(xy, plotter.XY{X: ninesOf(q), Y: float64(l.At[j]) / 1e3})
			}
			if len(xy) < 2 {
				continue
			}
			if err := addLine(p, xy, k, fmt.Sprintf("%s at %.0f %%", l.Direction, l.Part*100)); err != nil {
				return nil, err
			}
			lines++
		}
		p.Y.Max *= 4 // room for the legend
		if lines > 0 {
			out = append(out, figure{fmt.Sprintf("latency-%02d", i+1), p, smallWidth})
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

// soakFigures show percentiles and loss over time.
func (r *Report) soakFigures() ([]figure, error) {
	var out []figure
	for i, c := range r.Cases {
		if c.Soak == nil || len(c.Soak.Pieces) < 2 {
			continue
		}
		p := newPlot("Soak: "+c.Name, "seconds", "µs")
		var p50, p99 plotter.XYs
		for _, s := range c.Soak.Pieces {
			p50 = append(p50, plotter.XY{X: s.At, Y: float64(max(s.P50, 1)) / 1e3})
			p99 = append(p99, plotter.XY{X: s.At, Y: float64(max(s.P99, 1)) / 1e3})
		}
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		for k, xy := range []plotter.XYs{p50, p99} {
			if err := addLine(p, xy, k, []string{"p50", "p99"}[k]); err != nil {
				return nil, err
			}
		}
		out = append(out, figure{fmt.Sprintf("soak-%02d", i+1), p, smallWidth})
	}
	return out, nil
}

// margins leaves room for labels that extend beyond the ends of their axes.
func margins(c draw.Canvas, foot vg.Length) draw.Canvas {
	return draw.Crop(c, vg.Points(3), -vg.Points(12), foot+vg.Points(3), -vg.Points(4))
}

// svg draws the plot for the page.
func (f *figure) svg() (string, error) {
	c := vgsvg.New(f.width, height)
	f.plot.Draw(margins(draw.New(c), 0))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", fmt.Errorf("report: plot %s: %w", f.name, err)
	}
	// A page embeds it without XML declaration and document type.
	_, body, _ := strings.Cut(b.String(), "<svg")
	return "<svg" + body, nil
}

// png draws the plot with a foot line, which names machine and day.
func (f *figure) png(foot string) ([]byte, error) {
	c := vgimg.NewWith(vgimg.UseWH(f.width, height+footHeight), vgimg.UseDPI(120))
	all := draw.New(c)
	f.plot.Draw(margins(all, footHeight))
	style := draw.TextStyle{Color: color.Gray{110}, Font: sans, Handler: f.plot.Title.TextStyle.Handler}
	style.Font.Size = vg.Points(6.5)
	if room := f.width - vg.Points(12); style.Width(foot) > room {
		style.Font.Size *= room / style.Width(foot)
	}
	all.FillText(style, vg.Point{X: vg.Points(6), Y: vg.Points(5)}, foot)
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("report: plot %s: %w", f.name, err)
	}
	return b.Bytes(), nil
}
