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
	Value     float64 `json:"value"`                    // the median of the ratios of both; without Over a number by itself
	Limit     *Limit  `json:"limit,omitempty"`          // nil: no gate
	Wide      float64 `json:"over_wide_read,omitempty"` // the ratio to a floor that reads by 64 bytes
	PeerNS    float64 `json:"peer_ns,omitempty"`
	Peer      float64 `json:"over_peer,omitempty"` // the ratio to it
	Doorbells float64 `json:"doorbells,omitempty"` // in a burst

	section section
	packets bool // NS is the cost of a packet, so there are rates
}

// A Limit is the largest value that a Row may have.
type Limit float64

func limit(v float64) *Limit { l := Limit(v); return &l }

// Missed reports whether the row has a limit and is beyond it.
func (r *Row) Missed() bool { return r.Limit != nil && r.Value > float64(*r.Limit) }

// section groups rows in print.
type section int

const (
	paths section = iota
	variants
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

// Missed counts the rows that are beyond their limits, and those that have any.
func Missed(rows []Row) (missed, gates int) {
	for i := range rows {
		if rows[i].Limit != nil {
			gates++
		}
		if rows[i].Missed() {
			missed++
		}
	}
	return missed, gates
}

func ratio(what, over string, ns, overNS readings) Row {
	return Row{What: what, Over: over, NS: ns.median(), OverNS: overNS.median(), Value: ns.over(overNS)}
}

// setPeer adds what the peer needs for the same packets.
func (r *Row) setPeer(ns, peerNS readings) { r.PeerNS, r.Peer = peerNS.median(), ns.over(peerNS) }

// directions are the names of the directions in print.
var directions = map[lcore.Direction]string{lcore.RoCEToIB: "RoCE to IB", lcore.IBToRoCE: "IB to RoCE"}
