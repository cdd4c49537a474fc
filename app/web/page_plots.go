// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"causeway/app/command"
	"causeway/lcore"
)

// The plots' coordinates: a unit a second, and the page stretches them. The line to IB is above the middle, the line to
// RoCE below it, because they are often alike.
const (
	plotSeconds = 600
	plotHeight  = 100 // of each half
	// plotGap is how long may be between two points of one line: without readings there is no line.
	plotGap = 5 * time.Second
)

// A plot shows a rate of both directions over ten minutes.
type plot struct {
	Title     string
	Top, Peak command.Rate
	Lines     [2]plotLine // by direction
}

type plotLine struct {
	Class string
	Path  string // of SVG; closed at the middle, so that it can be filled
	Last  command.Rate
}

func plotsOf(points []command.Point, now time.Time) []plot {
	return []plot{
		plotOf("Packets/s", points, now, func(r *command.Rates) command.Rate { return r.Sent }),
		plotOf("Payload, bit/s", points, now, func(r *command.Rates) command.Rate { return r.Bits }),
		plotOf("Drops/s", points, now, func(r *command.Rates) command.Rate { return r.Dropped }),
	}
}

func plotOf(title string, points []command.Point, now time.Time, pick func(*command.Rates) command.Rate) plot {
	p := plot{Title: title}
	p.Top, p.Peak = scaleOf(points, pick)
	p.Lines = [2]plotLine{lcore.RoCEToIB: {Class: "to-ib"}, lcore.IBToRoCE: {Class: "to-roce"}}
	for d, side := range [2]command.Rate{lcore.RoCEToIB: 1, lcore.IBToRoCE: -1} {
		l := &p.Lines[d]
		l.Path = pathOf(points, now, func(x *command.Point) command.Rate { return side * min(pick(&x.Rates[d])/p.Top, 1) })
		if n := len(points); n > 0 {
			l.Last = pick(&points[n-1].Rates[d])
		}
	}
	return p
}

// scaleOf returns the top of a plot's scale, and the highest rate. A short peak would make all else a flat line: what is higher than the
// rest many times, for less than a fiftieth of the time and not just now, is cut off at the top.
func scaleOf(points []command.Point, pick func(*command.Rates) command.Rate) (top, peak command.Rate) {
	const lately, most = 10, 4
	var all []command.Rate
	usual := command.Rate(0)
	for i := range points {
		for d := range points[i].Rates {
			r := pick(&points[i].Rates[d])
			if all = append(all, r); i >= len(points)-lately {
				usual = max(usual, r)
			}
		}
	}
	if len(all) == 0 {
		return roundUp(0), 0
	}
	slices.Sort(all)
	peak = all[len(all)-1]
	if top = roundUp(max(usual, all[(len(all)-1)*98/100])); peak > most*top {
		return top, peak
	}
	return roundUp(peak), peak
}

// roundUp returns the next higher 1, 2, 3 or 5 times a power of ten; at least 10.
func roundUp(r command.Rate) command.Rate {
	power := math.Pow(10, math.Floor(math.Log10(max(float64(r), 10))))
	for _, n := range []float64{1, 2, 3, 5} {
		if float64(r) <= n*power {
			return command.Rate(n * power)
		}
	}
	return command.Rate(10 * power)
}

// pathOf draws a line of shares of the height, from -1 to 1.
func pathOf(points []command.Point, now time.Time, share func(*command.Point) command.Rate) string {
	var b strings.Builder
	x, y, level := 0, 0, 0 // where the pen is; level seconds are not drawn yet
	flat := func() {
		if level > 0 {
			fmt.Fprintf(&b, "h%d", level)
			level = 0
		}
	}
	for i := range points {
		p := &points[i]
		toX := plotSeconds - int(math.Round(now.Sub(p.At).Seconds()))
		toY := plotHeight - int(math.Round(float64(share(p))*plotHeight))
		switch {
		case toX < 0 || toX > plotSeconds:
			continue
		case b.Len() == 0 || p.At.Sub(points[i-1].At) > plotGap:
			if flat(); b.Len() > 0 {
				fmt.Fprintf(&b, "V%d", plotHeight)
			}
			fmt.Fprintf(&b, "M%d %dV%d", toX, plotHeight, toY)
		case toY == y:
			level += toX - x
		default:
			flat()
			fmt.Fprintf(&b, "l%d %d", toX-x, toY-y)
		}
		x, y = toX, toY
	}
	if flat(); b.Len() > 0 {
		fmt.Fprintf(&b, "V%d", plotHeight)
	}
	return b.String()
}
