// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"causeway/lcore"
)

// result is the result, and the JSON object.
type result struct {
	OK        bool            `json:"ok"` // every message arrived, and Conserved
	Duration  float64         `json:"duration_seconds"`
	Flows     []flowResult    `json:"flows"`
	RoCEToIB  directionResult `json:"roce_to_ib"`
	IBToRoCE  directionResult `json:"ib_to_roce"`
	Conserved bool            `json:"conserved"`
	Notes     []string        `json:"notes,omitempty"` // remarks
	Lost      losses          `json:"lost,omitempty"`  // outside of the bridge's workers

	flows  []*flow
	second *secondFabric
}

type flowResult struct {
	Name     string  `json:"name"`
	Sent     uint64  `json:"sent"`
	Due      uint64  `json:"due"` // Sent times the number of receivers
	Arrived  uint64  `json:"arrived"`
	Damaged  uint64  `json:"damaged"`
	Repeated uint64  `json:"repeated"`
	Excused  uint64  `json:"excused,omitempty"` // of those that did not arrive: a cut fabric may cost so many
	Failed   uint64  `json:"failed"`            // of Sent: what the kernel, or the node, did not take
	TripUS   float64 `json:"trip_microseconds"` // median of the last ones; there and back where they are answered
}

type directionResult struct {
	Received  uint64            `json:"received"`
	Sent      uint64            `json:"sent"`
	Drops     map[string]uint64 `json:"drops"`
	Conserved bool              `json:"conserved"`
}

// take fills in the final counters.
func (r *result) take(c lcore.Counters) {
	direction := func(d lcore.Direction) directionResult {
		x := &c.Direction[d]
		out := directionResult{Received: x.Received, Sent: x.Sent, Drops: map[string]uint64{}, Conserved: x.Conserved()}
		for reason, n := range x.Drops {
			out.Drops[reason.String()] = n
		}
		return out
	}
	r.RoCEToIB, r.IBToRoCE = direction(lcore.RoCEToIB), direction(lcore.IBToRoCE)
	r.Conserved = r.RoCEToIB.Conserved && r.IBToRoCE.Conserved
	r.OK = r.Conserved
	for _, f := range r.flows {
		x := flowResult{
			Name: f.name, Sent: f.sent.Load(), Due: f.due(), Arrived: f.arrived.Load(), Damaged: f.damaged.Load(),
			Repeated: f.repeats.Load(), Excused: r.second.excuse(f), Failed: f.failed.Load(), TripUS: float64(f.trips.median()) / float64(time.Microsecond),
		}
		r.OK = r.OK && x.complaint() == ""
		r.Flows = append(r.Flows, x)
	}
}

// complaint returns what was wrong with a flow; "" for nothing.
func (f *flowResult) complaint() string {
	var wrong []string
	complain := func(n uint64, what string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", n, what))
		}
	}
	if f.Sent == 0 {
		wrong = append(wrong, "nothing was sent")
	}
	if lost := f.Due - min(f.Due, f.Arrived); lost > f.Excused {
		complain(lost, "did not arrive")
	}
	complain(f.Damaged, "were damaged")
	complain(f.Repeated, "arrived twice")
	complain(f.Failed, "could not be sent")
	return strings.Join(wrong, ", ")
}

// write writes the summary, or JSON.
func (r *result) write(o Options) error {
	if o.JSON {
		e := json.NewEncoder(o.Out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	var sent, due, arrived uint64
	for _, f := range r.Flows {
		sent, due, arrived = sent+f.Sent, due+f.Due, arrived+f.Arrived
	}
	p := &printer{w: o.Out}
	p.line("")
	p.line("%d messages sent in %.0f s; %d of %d deliveries arrived, byte for byte.", sent, r.Duration, arrived, due)
	for _, d := range []struct {
		name string
		directionResult
	}{{"RoCE to InfiniBand", r.RoCEToIB}, {"InfiniBand to RoCE", r.IBToRoCE}} {
		p.line("%s: %d received = %d sent + %s%s", d.name, d.Received, d.Sent, drops(d.Drops), imbalance(d.Conserved))
	}
	if lost := r.elsewhere(due, arrived); lost != "" {
		p.line("Lost elsewhere: %s.", lost)
	}
	if o.PcapDir != "" {
		p.line("Captures for Wireshark: %s/roce.pcap and %s/ib.pcap", o.PcapDir, o.PcapDir)
	}
	for _, f := range r.Flows {
		if complaint := f.complaint(); complaint != "" {
			p.line("%s: %s", f.Name, complaint)
		}
	}
	p.line("%s", map[bool]string{true: r.good(due, arrived), false: "FAILED: see above."}[r.OK])
	return p.err
}

// good is the last line when nothing is wrong.
func (r *result) good(due, arrived uint64) string {
	if due == arrived {
		return "Everything arrived."
	}
	return fmt.Sprintf("Fabric a was cut: %d deliveries were lost until b took over, and nothing came twice.", due-arrived)
}

// elsewhere says what was lost outside of the bridge's workers; "": nothing.
func (r *result) elsewhere(due, arrived uint64) string {
	switch {
	case len(r.Lost) > 0:
		return r.Lost.String()
	case arrived < due && r.RoCEToIB.dropped()+r.IBToRoCE.dropped() == 0:
		return "nobody has counted what did not arrive; it may still be on its way"
	}
	return ""
}

// dropped is the sum over all reasons.
func (d *directionResult) dropped() (n uint64) {
	for _, x := range d.Drops {
		n += x
	}
	return n
}

func imbalance(conserved bool) string {
	if conserved {
		return ""
	}
	return " — DOES NOT ADD UP"
}

// drops lists drops by reason, the most frequent first. Some are of other traffic of the kernels than RoCE.
func drops(named map[string]uint64) string {
	var sum uint64
	for _, n := range named {
		sum += n
	}
	if sum == 0 {
		return "0 dropped"
	}
	names := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return cmp.Or(cmp.Compare(named[b], named[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", named[name], name)
	}
	return fmt.Sprintf("%d dropped (%s)", sum, strings.Join(names, ", "))
}
