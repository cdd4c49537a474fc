// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"causeway/perf/trial"
)

// figure is a plot and the name of its file.
//
//	┌──────────────┐
//	│ plot         │
//	├──────────────┤
//	│ legend       │  below the plot, where it covers nothing
//	├──────────────┤
//	│ note, foot   │  what was left out; machine, versions, noise, day
//	└──────────────┘
type figure struct {
	name  string
	plot  *plot.Plot
	width vg.Length
	note  string
}

const (
	plotHeight = 8 * vg.Centimeter
	fullWidth  = 15.5 * vg.Centimeter // two fit side by side on a page
	smallWidth = 0.645 * fullWidth    // three do
	footHeight = 0.32 * vg.Centimeter // of a line
	indent     = 12                   // points, of legend and foot
)

// leftOut counts readings that are not drawn, by verdict.
type leftOut map[string]int

// is counts a reading with this verdict, if it is not a valid figure of the device.
func (l *leftOut) is(verdict string) bool {
	if trial.Valid(verdict) {
		return false
	}
	if *l == nil {
		*l = leftOut{}
	}
	(*l)[verdict]++
	return true
}

// String says what was left out; "": nothing.
func (l leftOut) String() string {
	var parts []string
	for verdict, n := range l {
		parts = append(parts, fmt.Sprintf("%d (%s)", n, verdict))
	}
	if parts == nil {
		return ""
	}
	slices.Sort(parts)
	return "Readings left out: " + strings.Join(parts, ", ")
}

// areas are the parts of a picture.
type areas struct{ plot, legend, foot vg.Rectangle }

// legendHeight is that of all entries, with some room.
func (f *figure) legendHeight() vg.Length {
	r := f.plot.Legend.Rectangle(draw.Canvas{})
	if r.Max.Y <= r.Min.Y {
		return 0
	}
	return r.Max.Y - r.Min.Y + vg.Points(10)
}

// footStyle is that of a line of the foot.
func (f *figure) footStyle() draw.TextStyle {
	style := draw.TextStyle{Color: color.Gray{90}, Font: sans, Handler: f.plot.Title.TextStyle.Handler}
	style.Font.Size = vg.Points(6.5)
	return style
}

// lines are those of the foot: the note, and the parts of foot, which "; " separates, as many in a line as fit. There is
// room for the wider font of a browser that does not have ours.
func (f *figure) lines(foot string) []string {
	const wider = 1.25
	style, room := f.footStyle(), (f.width-2*vg.Points(indent))/wider
	lines := slices.DeleteFunc([]string{f.note}, func(s string) bool { return s == "" })
	line := ""
	for part := range strings.SplitSeq(foot, "; ") {
		if line != "" && style.Width(line+"; "+part) > room {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += "; "
		}
		line += part
	}
	return append(lines, line)
}

func (f *figure) height(foot string) vg.Length {
	return plotHeight + f.legendHeight() + vg.Length(len(f.lines(foot)))*footHeight + vg.Points(4)
}

func (f *figure) areas(all vg.Rectangle, foot string) areas {
	a := areas{plot: all, legend: all, foot: all}
	a.foot.Max.Y = all.Min.Y + vg.Length(len(f.lines(foot)))*footHeight + vg.Points(4)
	a.legend.Min.Y = a.foot.Max.Y
	a.legend.Max.Y = a.legend.Min.Y + f.legendHeight()
	a.legend.Min.X += vg.Points(indent)
	a.plot.Min.Y = a.legend.Max.Y
	return a
}

// widen gives a logarithmic axis with one value room on both sides: gonum would begin it one below, where there is no
// logarithm, and panic.
func widen(a *plot.Axis) {
	if _, log := a.Scale.(plot.LogScale); log && a.Min == a.Max {
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

func (f *figure) paint(c draw.Canvas, foot string) {
	a := f.areas(c.Rectangle, foot)
	p := *f.plot
	widen(&p.X)
	widen(&p.Y)
	legend := p.Legend
	p.Legend = plot.NewLegend() // drawn below
	// Labels extend beyond the ends of their axes.
	p.Draw(draw.Crop(draw.Canvas{Canvas: c.Canvas, Rectangle: a.plot}, vg.Points(3), -vg.Points(12), vg.Points(3), -vg.Points(4)))
	legend.Draw(draw.Canvas{Canvas: c.Canvas, Rectangle: a.legend})
	y := a.foot.Max.Y
	for _, line := range f.lines(foot) {
		y -= footHeight
		style := f.footStyle()
		if room := f.width - 2*vg.Points(indent); style.Width(line) > room {
			style.Font.Size *= room / style.Width(line)
		}
		c.FillText(style, vg.Point{X: vg.Points(indent), Y: y + vg.Points(3)}, line)
	}
}

// svg draws the plot for the page.
func (f *figure) svg(foot string) (string, error) {
	c := vgsvg.New(f.width, f.height(foot))
	f.paint(draw.New(c), foot)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", fmt.Errorf("report: plot %s: %w", f.name, err)
	}
	// A page embeds it without XML declaration and document type.
	_, body, _ := strings.Cut(b.String(), "<svg")
	return "<svg" + body, nil
}

// png draws the plot as a file of its own.
func (f *figure) png(foot string) ([]byte, error) {
	c := vgimg.NewWith(vgimg.UseWH(f.width, f.height(foot)), vgimg.UseDPI(120))
	f.paint(draw.New(c), foot)
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("report: plot %s: %w", f.name, err)
	}
	return b.Bytes(), nil
}
