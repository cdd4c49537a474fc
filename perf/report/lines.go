// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// Line is a line of Lines.
type Line struct {
	Name   string
	X, Y   []float64
	Colour int
	Dashed bool
}

// Lines draws a plot that is not in a report, as PNG, with a logarithmic X axis and a Y axis from 0. Foot names machine
// and day.
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
	f := figure{name: title, plot: p, width: fullWidth}
	return f.png(foot)
}
