// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"slices"

	"causeway/lcore"
)

// A Row is a measurement and what it is compared with.
type Row struct {
	What      string  `json:"what"`
	Payload   int     `json:"payload_bytes,omitempty"`
	Entries   int     `json:"entries,omitempty"` // on each of the tables
	NS        float64 `json:"ns,omitempty"`      // a packet, an ICRC or a look-up
	Over      string  `json:"over,omitempty"`    // what it is compared with, whose cost is OverNS
	OverNS    float64 `json:"over_ns,omitempty"`
	Value     float64 `json:"value"`           // the median of the ratios of both; without Over a number by itself
	Above     float64 `json:"above,omitempty"` // how far Value may be above the true ratio, but one time in fifty
	Limit     *Limit  `json:"limit,omitempty"` // nil: no gate
	Noise     float64 `json:"noise"`           // the largest spread of the readings of Over and Floor
	Floor     string  `json:"floor,omitempty"` // a simpler loop that limits both
	FloorNS   float64 `json:"floor_ns,omitempty"`
	OverFloor float64 `json:"over_floor,omitempty"`     // the ratio to it
	Wide      float64 `json:"over_wide_read,omitempty"` // the ratio to a floor that reads by 64 bytes
	Doorbells float64 `json:"doorbells,omitempty"`      // a message
	DeviceNS  float64 `json:"device_ns,omitempty"`      // the HCA's own work for a packet, which is not in NS

	section section
	packets bool // NS is the cost of a packet, so there are rates
}

// A Limit is the largest value that a Row may have.
type Limit float64

func limit(v float64) *Limit { l := Limit(v); return &l }

// Busy reports whether the row has a limit, and the machine was too busy to tell whether it is held.
func (r *Row) Busy() bool { return r.Limit != nil && r.Noise > mostSpread }

// Missed reports whether the row has a limit and is beyond it by more than chance: when the true ratio is the limit, one
// of fifty such rows is missed.
func (r *Row) Missed() bool {
	return r.Limit != nil && !r.Busy() && r.Value-r.Above > float64(*r.Limit)
}

// Near reports whether the row has a limit and may be beyond it, but its readings differ too much to tell.
func (r *Row) Near() bool {
	return r.Limit != nil && !r.Busy() && !r.Missed() && r.Value > float64(*r.Limit)
}

// section groups rows in print.
type section int

const (
	paths section = iota
	variants
	wholes
	parts
	ports
	threads
)

// sortRows sorts rows, which were measured table by table, for print: paths by payload, all others in the order in
// which they were first measured.
func sortRows(rows []Row) {
	met := map[string]int{}
	for _, r := range rows {
		if _, ok := met[r.What]; !ok {
			met[r.What] = len(met)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		by := cmp.Compare(met[a.What], met[b.What])
		if a.section == paths {
			by = cmp.Or(cmp.Compare(a.Payload, b.Payload), by)
		}
		return cmp.Or(cmp.Compare(a.section, b.section), by, cmp.Compare(a.Payload, b.Payload), cmp.Compare(a.Entries, b.Entries))
	})
}

// A Verdict counts gates.
type Verdict struct {
	Gates  int
	Missed int
	Near   int     // those that may be missed
	Busy   int     // those that could not be judged
	Noise  float64 // the largest of these
}

// Judge counts the rows with limits, and how they did.
func Judge(rows []Row) (v Verdict) {
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Limit == nil:
			continue
		case r.Busy():
			v.Busy, v.Noise = v.Busy+1, max(v.Noise, r.Noise)
		case r.Missed():
			v.Missed++
		case r.Near():
			v.Near++
		}
		v.Gates++
	}
	return v
}

func ratio(what, over string, ns, overNS readings) Row {
	value := ns.over(overNS)
	return Row{
		What: what, Over: over, NS: ns.median(), OverNS: overNS.median(), Value: value, Above: value - ns.atLeast(overNS), Noise: overNS.spread(),
	}
}

// setFloor adds what a floor needs for the same packets.
func (r *Row) setFloor(floor string, ns, floorNS readings) {
	r.Floor, r.FloorNS, r.OverFloor = floor, floorNS.median(), ns.over(floorNS)
}

// directions are the names of the directions in print.
var directions = map[lcore.Direction]string{lcore.RoCEToIB: "RoCE to IB", lcore.IBToRoCE: "IB to RoCE"}
