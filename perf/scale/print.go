// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// What is told.
var (
	Workers = []int{1, 2, 3, 4, 6, 8, 12, 16}
	Hosts   = []int{16, 64, 256, 1024, 16 << 10, 100_000}
)

var spreads = map[Spread]string{BySource: "by source", ByBoth: "by source and destination"}

// Compute computes all that is told for a card that spreads so.
func Compute(s Spread, c Costs) []Point {
	var all []Point
	for _, hosts := range Hosts {
		addresses := sets(hosts)
		for _, workers := range Workers {
			all = append(all, at(addresses, workers, s, c))
		}
	}
	return all
}

// Print writes what Compute computes, a table for each way.
func Print(w io.Writer, s Spread, all []Point) error {
	ways := []struct {
		name string
		mpps func(Point) float64
	}{{"RoCE to IB", func(p Point) float64 { return p.ToIB }}, {"IB to RoCE", func(p Point) float64 { return p.ToRoCE }}}
	for _, way := range ways {
		fmt.Fprintf(w, "\n%s, Mpps, cards that spread %s\n", way.name, spreads[s])
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "hosts\\workers\t")
		for _, n := range Workers {
			fmt.Fprintf(t, "%d\t", n)
		}
		fmt.Fprint(t, "of linear\thanded over\t\n")
		for i := 0; i < len(all); i += len(Workers) {
			row := all[i : i+len(Workers)]
			fmt.Fprintf(t, "%d\t", row[0].Hosts)
			for _, p := range row {
				fmt.Fprintf(t, "%.1f\t", way.mpps(p))
			}
			last := row[len(row)-1]
			handed := "-"
			if way.name == ways[0].name {
				handed = fmt.Sprintf("%.0f %%", 100*last.Handed)
			}
			fmt.Fprintf(t, "%.0f %%\t%s\t\n", 100*way.mpps(last)/way.mpps(row[0])/float64(last.Workers), handed)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
