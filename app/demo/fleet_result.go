// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"fmt"

	"causeway/lcore"
)

// fleetResult is the result of -fleet, and the JSON object.
type fleetResult struct {
	OK         bool          `json:"ok"` // nothing came twice, out of order or damaged, and Conserved
	Seconds    float64       `json:"duration_seconds"`
	Stages     []stageResult `json:"stages"`
	Sent       uint64        `json:"sent"`
	Received   uint64        `json:"received"`
	Lost       uint64        `json:"lost"`
	Doubled    uint64        `json:"doubled"`
	OutOfOrder uint64        `json:"out_of_order"`
	Damaged    uint64        `json:"damaged"`
	Conserved  bool          `json:"conserved"`       // each bridge accounts for every packet
	Wrong      []string      `json:"wrong,omitempty"` // what was, by flow
}

// stageResult is what became of the messages of a stage.
type stageResult struct {
	Name       string         `json:"name"`
	LostToIB   uint64         `json:"lost_to_ib"`
	LostToRoCE uint64         `json:"lost_to_roce"`
	Outage     float64        `json:"outage_seconds"` // the longest time of which nothing of a flow arrived
	Shards     []bridgeShards `json:"shards"`         // at its end
}

func (r *stageResult) lost() uint64 { return r.LostToIB + r.LostToRoCE }

// bridgeShards are a bridge's shards.
type bridgeShards struct {
	Name   string `json:"bridge"`
	Hosts  int    `json:"hosts"`
	Groups int    `json:"groups"`
}

// shardsNow returns the shards that each bridge has said it forwards.
func (b *fleetbed) shardsNow() (all []bridgeShards) {
	for _, p := range b.bridges {
		s := p.says()
		all = append(all, bridgeShards{p.name, s.hosts, s.groups})
	}
	return all
}

// take fills in the final counts, and what was wrong. What is lost when a bridge is killed is not.
func (r *fleetResult) take(c counts, flows []*fleetFlow, conserved bool) {
	const in, out = lcore.RoCEToIB, lcore.IBToRoCE
	r.Sent, r.Received, r.Lost = c.sent[in]+c.sent[out], c.received[in]+c.received[out], c.lost[in]+c.lost[out]
	r.Doubled, r.OutOfOrder, r.Damaged, r.Conserved = c.doubled, c.disorderly, c.damaged, conserved
	for _, f := range flows {
		if x := look([]*fleetFlow{f}); x.doubled+x.disorderly+x.damaged > 0 {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %d came twice, %d out of order (by up to %d), %d damaged", f.name, x.doubled, x.disorderly, f.seen[0].Extent, x.damaged))
		}
	}
	if !conserved {
		r.Wrong = append(r.Wrong, "a bridge does not account for every packet")
	}
	r.OK = len(r.Wrong) == 0
}

// summary writes the last lines, or JSON.
func (v *fleetView) summary(r *fleetResult) error {
	if v.o.JSON {
		e := json.NewEncoder(v.o.Out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	p := &printer{w: v.o.Out}
	p.line("")
	p.line("%s", v.style(dim, fmt.Sprintf("%-16s%15s%15s%15s", "lost", "to InfiniBand", "to RoCE", "within")))
	for i := range r.Stages {
		s := &r.Stages[i]
		within := "-"
		if s.lost() > 0 {
			within = shortSeconds(s.Outage)
		}
		p.line("%-16s%15d%15d%15s", s.Name, s.LostToIB, s.LostToRoCE, within)
	}
	p.line("")
	p.line("%d messages sent in %.0f s, %d received, %d lost.", r.Sent, r.Seconds, r.Received, r.Lost)
	for _, wrong := range r.Wrong {
		p.line("%s", wrong)
	}
	if r.OutOfOrder > 0 {
		p.line("On a machine that is too busy, messages may overtake others while a proxy QP is made for a host.")
	}
	p.line("%s", map[bool]string{true: "Nothing came twice, and nothing out of order. Each bridge accounts for every packet.", false: "FAILED: see above."}[r.OK])
	return p.err
}
