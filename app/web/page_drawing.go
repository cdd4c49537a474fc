// SPDX-License-Identifier: Apache-2.0

package web

import (
	"math"

	"causeway/app/command"
	"causeway/lcore"
)

// A drawing shows both fabrics, the bridge between them, and what goes from one to the other in the last second.
type drawing struct {
	RoCE, IB fabricDrawing
	Lanes    [4]lane // left of the bridge, then right; of each to IB, then to RoCE
	Dropped  command.Rate
}

type fabricDrawing struct {
	Mirrored bool
	Spokes   []int // the heights at which hosts are drawn
	Port     string
	LID      string
}

// A lane is an arrow: packets between a fabric and the bridge, in one direction.
type lane struct {
	Class     string
	Backwards bool
	Verb      string
	Packets   command.Rate
	Bits      command.Rate
	HasBits   bool // only of what was sent are bits counted
	Width     int
}

func drawingOf(s *Status, e *command.Env, history []command.Point) (d drawing) {
	d.RoCE.Spokes, d.IB.Spokes, d.IB.Mirrored = spokes(s.Counts.Hosts), spokes(s.Counts.Nodes), true
	if e != nil {
		ethernet, infiniband := e.Bridge.Ports()
		d.RoCE.Port, d.IB.Port, d.IB.LID = ethernet.Name, infiniband.Name, infiniband.LID
	}
	var last [2]command.Rates
	if n := len(history); n > 0 {
		last = history[n-1].Rates
	}
	toIB, toRoCE := &last[lcore.RoCEToIB], &last[lcore.IBToRoCE]
	d.Lanes = [4]lane{
		{Class: "to-ib", Verb: "received", Packets: toIB.Received},
		{Class: "to-roce", Verb: "sent", Packets: toRoCE.Sent, Bits: toRoCE.Bits, HasBits: true, Backwards: true},
		{Class: "to-ib", Verb: "sent", Packets: toIB.Sent, Bits: toIB.Bits, HasBits: true},
		{Class: "to-roce", Verb: "received", Packets: toRoCE.Received, Backwards: true},
	}
	for i := range d.Lanes {
		d.Lanes[i].Width = width(d.Lanes[i].Packets)
	}
	d.Dropped = toIB.Dropped + toRoCE.Dropped
	return d
}

// width returns how thick an arrow is: a pixel more for each power of ten.
func width(r command.Rate) int { return 2 + int(math.Log10(max(float64(r), 1))) }

// spokes returns where hosts are drawn, of which there may be many more than can be.
func spokes(hosts int) (y []int) {
	const most, middle, height = 7, 45, 76
	n := min(hosts, most)
	step := 0
	if n > 1 {
		step = min(24, height/(n-1))
	}
	for i := range n {
		y = append(y, middle-(n-1)*step/2+i*step)
	}
	return y
}
