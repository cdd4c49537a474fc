// SPDX-License-Identifier: Apache-2.0

package report

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Area is where the parts of a figure are, and how wide its legend is.
type Area struct {
	Plot, Legend, Foot vg.Rectangle
	Entries            vg.Length
}

// Areas returns the areas of all figures, by name.
func (r *Report) Areas() (map[string]Area, error) {
	figs, err := r.figures()
	out := map[string]Area{}
	for _, f := range figs {
		all := vg.Rectangle{Max: vg.Point{X: f.width, Y: f.height(r.foot())}}
		a := f.areas(all, r.foot())
		legend := f.plot.Legend.Rectangle(draw.Canvas{Rectangle: all})
		out[f.name] = Area{a.plot, a.legend, a.foot, legend.Max.X - legend.Min.X}
	}
	return out, err
}
