// SPDX-License-Identifier: Apache-2.0

package lcore

import "maps"

// A Direction is a way through the bridge.
type Direction int

// The two ways.
const (
	RoCEToIB Direction = iota
	IBToRoCE
)

// String returns the direction as metrics and reports print it.
func (d Direction) String() string {
	return [...]string{"roce_to_ib", "ib_to_roce"}[d]
}

// DirectionCounters says what became of the packets of one direction.
// At any quiet moment Received = Sent + the sum of Drops.
type DirectionCounters struct {
	Received  uint64
	Sent      uint64
	SentBytes uint64 // payload
	Drops     map[Drop]uint64

	CongestionMarked uint64 // came marked CE, or with FECN
	ReservedBits     uint64 // had reserved bits set, which the bridge cleared
	StandInWaits     uint64 // waited for a stand-in
	HandedOver       uint64 // went to the worker that owns the stand-in
	SourceBridged    uint64 // came from an unknown source and went out with the bridge's own address
}

// Dropped returns the sum of all drops.
func (c *DirectionCounters) Dropped() uint64 {
	var sum uint64
	for _, n := range c.Drops {
		sum += n
	}
	return sum
}

// Conserved reports whether every packet received left by exactly one way.
func (c *DirectionCounters) Conserved() bool {
	return c.Received == c.Sent+c.Dropped()
}

// Add adds what another writer counted.
func (c *DirectionCounters) Add(o DirectionCounters) {
	c.Received += o.Received
	c.Sent += o.Sent
	c.SentBytes += o.SentBytes
	c.CongestionMarked += o.CongestionMarked
	c.ReservedBits += o.ReservedBits
	c.StandInWaits += o.StandInWaits
	c.HandedOver += o.HandedOver
	c.SourceBridged += o.SourceBridged
	drops := maps.Clone(c.Drops)
	if drops == nil {
		drops = map[Drop]uint64{}
	}
	for d, n := range o.Drops {
		drops[d] += n
	}
	c.Drops = drops
}

// OddCounters says what became of frames that are management's: ARP, ND, IGMP, MLD, ICMP.
// Received = Handed + Full.
type OddCounters struct {
	Received uint64
	Handed   uint64
	Full     uint64 // lost: management's ring was full
	Sent     uint64 // frames of management's that went out
	Refused  uint64 // frames of management's that the port did not take
}

// Counters is one worker's reading, or the sum of several.
type Counters struct {
	Direction [2]DirectionCounters
	Odd       OddCounters
	Loops     uint64
	Busy      uint64 // loops that moved something
}

// Add adds another reading.
func (c *Counters) Add(o Counters) {
	for d := range c.Direction {
		c.Direction[d].Add(o.Direction[d])
	}
	c.Odd.Received += o.Odd.Received
	c.Odd.Handed += o.Odd.Handed
	c.Odd.Full += o.Odd.Full
	c.Odd.Sent += o.Odd.Sent
	c.Odd.Refused += o.Odd.Refused
	c.Loops += o.Loops
	c.Busy += o.Busy
}

// GroupCounters counts one group's messages that crossed.
type GroupCounters struct {
	Packets [2]uint64
	Bytes   [2]uint64 // payload
}
