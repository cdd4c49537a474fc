// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Line is one of a plot's, for measurements that have no report. Lines of one colour belong together.
type Line struct {
	Name   string
	X, Y   []float64
	Colour int
	Dashed bool
}

// Lines draws lines as PNG, X on a logarithmic axis and Y from 0, so that growth looks as large as it is. Foot says of
// which machine and day they are.
func Lines(title, x, y, foot string, lines []Line) ([]byte, error) {
	p := newPlot(title, x, y)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	for _, l := range lines {
		xy := make(plotter.XYs, len(l.X))
		for i := range xy {
			xy[i] = plotter.XY{X: l.X[i], Y: l.Y[i]}
		}
		if err := addStyled(p, xy, l.Colour, l.Name, l.Dashed); err != nil {
			return nil, fmt.Errorf("report: plot %s: %w", title, err)
		}
	}
	p.Y.Min = 0
	p.Y.Max *= 1.1
	legendLeft(p)
	p.Legend.Top, p.Legend.YOffs = false, vg.Points(6) // where lines that begin well above 0 leave room
	f := figure{title, p, fullWidth}
	return f.png(foot)
}
