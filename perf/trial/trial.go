// SPDX-License-Identifier: Apache-2.0

// Package trial measures a device by trials, each of which offers a load and counts what arrives.
//
//	Device ◀─ Load ─ trial ─▶ Outcome        throughput   binary search for the largest load with little or no loss
//	                                         latency      percentiles at parts of that
//	                                         loss         by load, from the highest
//	                                         burst        the longest without loss
//	                                         soak         a long load, in pieces
//	                                         multicast    groups, joins, leaves, mixed with unicast
//
// The methods are those of RFC 2544, RFC 9004, RFC 3918 and ETSI GS NFV-TST 009. The device is an interface; tests have
// a simulated one.
package trial

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Direction is a direction through the bridge.
type Direction int

// The directions, numbered as in the packet path.
const (
	RoCEToIB Direction = iota
	IBToRoCE
	Directions
)

// String returns the name in reports and profiles.
func (d Direction) String() string { return [...]string{"roce_to_ib", "ib_to_roce"}[d] }

// Flood is a rate: as fast as the generator can send.
var Flood = math.Inf(1)

// Load is what a trial offers.
type Load struct {
	PPS      [Directions]float64 // packets a second; 0: none
	Packets  uint64              // in each direction; 0: until Duration is over
	Duration time.Duration
}

// At is a load of the same rate in each of the directions.
func At(directions []Direction, pps float64, d time.Duration) Load {
	l := Load{Duration: d}
	for _, dir := range directions {
		l.PPS[dir] = pps
	}
	return l
}

// Counts are the counters of one direction of a trial.
type Counts struct {
	Offered      uint64        `json:"offered"`
	Rejected     uint64        `json:"rejected"` // the device's queue was full; they are lost
	Received     uint64        `json:"received"`
	Bytes        uint64        `json:"payload_bytes"` // of those received
	Reordered    uint64        `json:"reordered"`     // received after a later message of the flow
	Duplicates   uint64        `json:"duplicates"`
	Stale        uint64        `json:"stale"` // too late to know whether they are duplicates
	Corrupted    uint64        `json:"corrupted"`
	Misdelivered uint64        `json:"misdelivered"`
	Checked      uint64        `json:"checked"`    // compared to the last byte
	Skipped      time.Duration `json:"skipped_ns"` // the generator was preempted or too slow
}

// Lost is how many messages were offered and did not arrive.
func (c Counts) Lost() uint64 { return c.Offered - min(c.Offered, c.Received) }

// LossRatio is Lost over Offered.
func (c Counts) LossRatio() float64 {
	if c.Offered == 0 {
		return 0
	}
	return float64(c.Lost()) / float64(c.Offered)
}

// Add adds the counts of another trial or generator.
func (c *Counts) Add(o Counts) {
	c.Offered += o.Offered
	c.Rejected += o.Rejected
	c.Received += o.Received
	c.Bytes += o.Bytes
	c.Reordered += o.Reordered
	c.Duplicates += o.Duplicates
	c.Stale += o.Stale
	c.Corrupted += o.Corrupted
	c.Misdelivered += o.Misdelivered
	c.Checked += o.Checked
	c.Skipped += o.Skipped
}

// Outcome is the result of a trial.
type Outcome struct {
	Elapsed time.Duration // of sending
	Counts  [Directions]Counts
	Latency [Directions]*hdrhistogram.Histogram // nanoseconds; nil: none was recorded
	Foreign uint64                              // arrived without a valid stamp
	Stray   uint64                              // arrived from an earlier trial
	Starved uint64                              // messages for which the generator had no mbuf
	Drops   map[string]uint64                   // the device's drops, by reason
	// Disturbed is for how long the device's and the generator's threads were runnable while other programs used their
	// CPUs.
	Disturbed time.Duration
	// Away is the longest turn of the generator's loop; Silence the longest time in which messages waited in the device's
	// input queues and none came out.
	Away, Silence time.Duration
	// Discarded is the duration of slices that did not count; see Sliced.
	Discarded time.Duration
	// Taken is how many messages the device received, in Bursts turns of its loop, both directions together. 0: unknown.
	Taken, Bursts uint64
}

// PerBurst is how many messages the device received in a turn of its loop that received any; 0: unknown.
func (o Outcome) PerBurst() float64 {
	if o.Bursts == 0 {
		return 0
	}
	return float64(o.Taken) / float64(o.Bursts)
}

// Rate is packets received a second in a direction.
func (o Outcome) Rate(d Direction) float64 { return perSecond(o.Counts[d].Received, o.Elapsed) }

// OfferedRate is packets offered a second in a direction.
func (o Outcome) OfferedRate(d Direction) float64 { return perSecond(o.Counts[d].Offered, o.Elapsed) }

// LossRatio is the largest of the directions'.
func (o Outcome) LossRatio() float64 {
	var worst float64
	for _, c := range o.Counts {
		worst = max(worst, c.LossRatio())
	}
	return worst
}

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Device is what is measured, with a generator around it.
type Device interface {
	// Run runs one trial until no message is left in the device.
	Run(ctx context.Context, l Load) (Outcome, error)
}

// Step is one trial of a test, for the report.
type Step struct {
	PPS      float64           `json:"pps"` // wanted, of each direction
	Packets  uint64            `json:"packets,omitempty"`
	Seconds  float64           `json:"seconds"`
	Loss     float64           `json:"loss_ratio"`
	Verdict  string            `json:"verdict"`
	Counts   map[string]Counts `json:"counts"`
	Foreign  uint64            `json:"foreign,omitempty"`
	Stray    uint64            `json:"stray,omitempty"`
	Starved  uint64            `json:"starved,omitempty"`
	Drops    map[string]uint64 `json:"drops,omitempty"`
	Received float64           `json:"received_pps"` // all directions together
	// Of these, see Outcome.
	Disturbed float64 `json:"disturbed_seconds,omitempty"`
	Discarded float64 `json:"discarded_seconds,omitempty"`
	Away      float64 `json:"longest_away_seconds"`
	Silence   float64 `json:"longest_silence_seconds"`
	PerBurst  float64 `json:"messages_per_burst,omitempty"`
}

// Verdicts of a step.
const (
	Passed     = "passed"
	Lossy      = "loss"
	Disturbed  = "disturbed"          // failed while other programs used the CPUs: not a figure of the device
	TooSlow    = "generator too slow" // less than the load was offered: not a figure of the device
	Faulty     = "faults"             // corrupted, misdelivered, duplicated or foreign: never acceptable
	Informs    = "informs"            // measured without pass or fail
	maxPackets = 1 << 40
)

func stepOf(l Load, o Outcome, verdict string) Step {
	s := Step{
		PPS: rateOf(l), Packets: l.Packets, Seconds: o.Elapsed.Seconds(), Loss: o.LossRatio(), Verdict: verdict,
		Counts: map[string]Counts{}, Foreign: o.Foreign, Stray: o.Stray, Starved: o.Starved, Drops: o.Drops, Disturbed: o.Disturbed.Seconds(),
		Discarded: o.Discarded.Seconds(), Away: o.Away.Seconds(), Silence: o.Silence.Seconds(),
		PerBurst: o.PerBurst(),
	}
	for d := range Directions {
		if l.PPS[d] > 0 {
			s.Counts[d.String()] = o.Counts[d]
			s.Received += o.Rate(d)
		}
	}
	if math.IsInf(s.PPS, 1) {
		s.PPS = 0
		for d := range Directions {
			s.PPS = max(s.PPS, o.OfferedRate(d))
		}
	}
	return s
}

func rateOf(l Load) float64 { return max(l.PPS[RoCEToIB], l.PPS[IBToRoCE]) }

// faults describes what a device must never do, "": nothing. Reordering is not a fault, since UD allows it.
func faults(o Outcome) string {
	for d, c := range o.Counts {
		switch {
		case c.Corrupted > 0:
			return fmt.Sprintf("%v: %d messages corrupted", Direction(d), c.Corrupted)
		case c.Misdelivered > 0:
			return fmt.Sprintf("%v: %d messages misdelivered", Direction(d), c.Misdelivered)
		case c.Duplicates > 0:
			return fmt.Sprintf("%v: %d messages duplicated", Direction(d), c.Duplicates)
		}
	}
	if o.Foreign > 0 {
		return fmt.Sprintf("%d messages arrived without a readable stamp", o.Foreign)
	}
	return ""
}

// Offered is packets offered a second, all directions together.
func (s Step) Offered() float64 {
	var n uint64
	for _, c := range s.Counts {
		n += c.Offered
	}
	return float64(n) / max(s.Seconds, 1e-9)
}

// Valid reports whether a trial with this verdict is a valid figure of the device.
func Valid(verdict string) bool { return verdict != Disturbed && verdict != TooSlow }

// Observer is called after each trial; it may be nil.
type Observer func(what string, s Step)

func (f Observer) notify(what string, s Step) {
	if f != nil {
		f(what, s)
	}
}

// Merge adds the outcome of the same load at another generator.
func (o *Outcome) Merge(other Outcome) {
	o.Elapsed = max(o.Elapsed, other.Elapsed)
	o.Foreign += other.Foreign
	o.Stray += other.Stray
	o.Starved += other.Starved
	o.Disturbed += other.Disturbed
	o.Away, o.Silence = max(o.Away, other.Away), max(o.Silence, other.Silence)
	o.Discarded += other.Discarded
	o.Taken += other.Taken
	o.Bursts += other.Bursts
	for d := range o.Counts {
		o.Counts[d].Add(other.Counts[d])
		switch {
		case o.Latency[d] == nil:
			o.Latency[d] = other.Latency[d]
		case other.Latency[d] != nil:
			o.Latency[d].Merge(other.Latency[d])
		}
	}
}
