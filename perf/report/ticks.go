// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"causeway/perf/trial"
)

// round is the ticks of a linear axis: about five round numbers. plot.DefaultTicks has only two or three labels.
type round struct{}

// Ticks implements plot.Ticker.
func (round) Ticks(least, most float64) []plot.Tick {
	const wanted = 5
	if !(most > least) {
		return []plot.Tick{{Value: least, Label: fmt.Sprint(least)}}
	}
	step := math.Pow(10, math.Floor(math.Log10((most-least)/wanted)))
	for _, times := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (most-least)/step <= wanted+1 {
			break
		}
		step *= times
	}
	var out []plot.Tick
	digits := int(max(0, -math.Floor(math.Log10(step)+1e-9)))
	for n := math.Ceil(least/step - 1e-9); n*step <= most+1e-9*step; n++ {
		v := n*step + 0 // there is a negative zero
		out = append(out, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', digits, 64)})
	}
	return out
}

// decades are the ticks of a logarithmic axis: labels at powers of 10 and, on a short axis, at 2 and 5 times those,
// which plot.LogTicks does not label.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(least, most float64) []plot.Tick {
	var out []plot.Tick
	few := most/least < 120
	for e := math.Floor(math.Log10(least)); e <= math.Log10(most); e++ {
		for times := 1.0; times < 10; times++ {
			v := times * math.Pow(10, e)
			if v < least*0.9999 || v > most*1.0001 {
				continue
			}
			t := plot.Tick{Value: v}
			if times == 1 || few && (times == 2 || times == 5) {
				t.Label = grouped(v)
			}
			out = append(out, t)
		}
	}
	return out
}

// grouped writes a number with its digits in groups of three.
func grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if v < 1 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	for i := len(s) - 3; i > 0 && v >= 1000; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// ninesOf is the number of nines of a percentile: 1 for 90, 2 for 99.
func ninesOf(p float64) float64 { return -math.Log10(1 - p/100) }

// nines are the ticks of an axis of percentiles by their nines.
type nines struct{}

// Ticks implements plot.Ticker.
func (nines) Ticks(least, most float64) []plot.Tick {
	var out []plot.Tick
	for _, p := range trial.Percentiles {
		if x := ninesOf(p); x >= least-1e-9 && x <= most+1e-9 && p != 75 && p != 95 {
			out = append(out, plot.Tick{Value: x, Label: strings.TrimSuffix(fmt.Sprint(p), ".0")})
		}
	}
	return out
}
