// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"

	"causeway/lcore"
)

// A Point is the cost of a packet in nanoseconds with N groups, hosts or proxy QPs.
type Point struct {
	N  int        `json:"n"`
	NS [2]float64 `json:"ns"` // by direction
}

// A Curve is the cost of a packet by the number of one kind of entries, all else being equal.
type Curve struct {
	Of     string  `json:"of"`
	Points []Point `json:"points"`
}

// others is how many entries there are of the kinds that a curve does not vary.
const others = 1 << 10

// curves are powers of 2, from 1 to above 1000 groups, and from below 10 to above 100 000 hosts and proxy QPs.
var curves = []struct {
	of    string
	ns    []int
	shape func(n int) shape
}{
	{"groups", []int{1, 4, 16, 64, 256, 1 << 10}, func(n int) shape { return shape{hosts: others, qpns: 1, nodes: others, groups: n} }},
	{"hosts", []int{8, 64, 512, 1 << 12, 1 << 15, 1 << 17}, func(n int) shape { return shape{hosts: n, qpns: 1, nodes: others} }},
	{"proxy QPs", []int{8, 64, 512, 1 << 12, 1 << 15, 1 << 17}, func(n int) shape { return shape{hosts: 1, qpns: n, nodes: others} }},
}

// Curves measures 64-byte packets. The points of a curve are measured in turn.
func Curves(cfg Config) ([]Curve, error) {
	var out []Curve
	for _, c := range curves {
		curve := Curve{Of: c.of}
		var all []variant
		for _, n := range c.ns {
			all = append(all, variant{what: c.of, shape: c.shape(n)})
			curve.Points = append(curve.Points, Point{N: n})
		}
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			cfg.progress("%s by number of %s", directions[d], c.of)
			ns, err := measureShapes(&cfg, d, 64, all)
			if err != nil {
				return nil, err
			}
			for i := range ns {
				curve.Points[i].NS[d] = ns[i].median()
			}
		}
		out = append(out, curve)
	}
	return out, nil
}

// PrintCurves writes each point and its ratio to the first one of its curve.
func PrintCurves(w io.Writer, all []Curve) error {
	cells := [][]string{{"64 B", "", "RoCE to IB ns", "/first", "IB to RoCE ns", "/first"}}
	for _, c := range all {
		cells = append(cells, nil)
		for _, p := range c.Points {
			first := c.Points[0].NS
			cells = append(cells, []string{
				c.Of, fmt.Sprint(p.N), fmt.Sprintf("%.1f", p.NS[0]), fmt.Sprintf("%.2f", p.NS[0]/first[0]),
				fmt.Sprintf("%.1f", p.NS[1]), fmt.Sprintf("%.2f", p.NS[1]/first[1]),
			})
		}
	}
	return printTable(w, cells, []int{0})
}
