// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report returns the tables of a soak.
func (r *rig) report() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "traffic\tsent\tarrived\tlost meanwhile\tnot sent")
	for _, kind := range slices.Sorted(maps.Keys(r.tallies)) {
		t := r.tallies[kind]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", kind, t.sent, t.arrived, t.excused, t.unsent)
	}
	for i, answers := range r.answered() {
		of := r.partitions[i].of()
		fmt.Fprintf(w, "requests of hosts%s\t\t%d\t\t\nrequests of the node%s\t\t%d\t\t\n", of, sum(answers[fromHost]), of, sum(answers[fromNode]))
	}
	_ = w.Flush()
	longest := slices.Clone(r.silences)
	slices.SortFunc(longest, func(a, b silence) int { return int(b.took - a.took) })
	fmt.Fprintf(&b, "%d rounds; traffic came back latest after:\n", len(longest))
	for _, s := range longest[:min(5, len(longest))] {
		fmt.Fprintf(&b, "  %v  %s\n", s.took.Round(10*time.Millisecond), s.what)
	}
	if u, v := r.last.first, r.last.latest; u != nil && v != nil {
		fmt.Fprintf(&b, "the last bridge, after %v: resident %+d KiB of %d, descriptors %+d of %d, goroutines %+d of %d, threads %+d of %d, mbufs %+d of %d\n",
			v.at.Sub(u.at).Round(time.Second), int64(v.resident-u.resident)>>10, u.resident>>10, int64(v.descriptors-u.descriptors), u.descriptors,
			int64(v.goroutines-u.goroutines), u.goroutines, int64(v.threads-u.threads), u.threads, int64(v.mbufs-u.mbufs), u.mbufs)
	}
	fmt.Fprintf(&b, "%d faults of the bridge", len(r.faults))
	return b.String()
}

// answered returns how many requests of each asker were answered, by partition.
func (r *rig) answered() (all [][2]map[int]int) {
	for _, p := range r.partitions {
		all = append(all, p.services.count())
	}
	return all
}

func sum(m map[int]int) (n int) {
	for _, x := range m {
		n += x
	}
	return n
}
