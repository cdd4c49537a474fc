// SPDX-License-Identifier: Apache-2.0

package lcore

import "maps"

// A Direction is that of a packet through the bridge.
type Direction int

// The two directions.
const (
	RoCEToIB Direction = iota
	IBToRoCE
)

// String returns the direction as metrics and reports print it.
func (d Direction) String() string {
	return [...]string{"roce_to_ib", "ib_to_roce"}[d]
}

// DirectionCounters counts the packets of one direction.
// At any quiet moment Received = Sent + the sum of Drops.
type DirectionCounters struct {
	Received  uint64
	Sent      uint64
	SentBytes uint64 // payload
	Drops     map[Drop]uint64

	CongestionMarked uint64 // came marked CE, or with FECN
	ReservedBits     uint64 // had reserved bits set, which the bridge cleared
	ProxyQPWaits     uint64 // waited for a proxy QP
	Handoffs         uint64 // went to the worker that owns the proxy QP
	SourceBridged    uint64 // came from an unknown source and left with the bridge's own address
	GroupCopies      uint64 // of those received: copies for the further segments of a group
}

// Dropped returns the sum of all drops.
func (c *DirectionCounters) Dropped() uint64 {
	var sum uint64
	for _, n := range c.Drops {
		sum += n
	}
	return sum
}

// Conserved reports whether every packet received was either sent or dropped.
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
	c.ProxyQPWaits += o.ProxyQPWaits
	c.Handoffs += o.Handoffs
	c.SourceBridged += o.SourceBridged
	c.GroupCopies += o.GroupCopies
	drops := maps.Clone(c.Drops)
	if drops == nil {
		drops = map[Drop]uint64{}
	}
	for d, n := range o.Drops {
		drops[d] += n
	}
	c.Drops = drops
}

// subtract takes away what was counted before.
func (c *DirectionCounters) subtract(o DirectionCounters) {
	c.Received -= o.Received
	c.Sent -= o.Sent
	c.SentBytes -= o.SentBytes
	for d, n := range o.Drops {
		if c.Drops[d] -= n; c.Drops[d] == 0 {
			delete(c.Drops, d)
		}
	}
}

// PuntCounters counts the frames to and from management: ARP, ND, IGMP, MLD, ICMP.
// Received = Handed + Full.
type PuntCounters struct {
	Received uint64
	Handed   uint64
	Full     uint64 // lost: the punt ring was full
	Sent     uint64 // frames from management that were transmitted
	Rejected uint64 // frames from management that the port did not take
	Fenced   uint64 // frames from management, from a shard's MAC address without a lease
}

// PortCounters counts the packets of one of several Ethernet ports, by direction.
type PortCounters [2]DirectionCounters

// Counters is one worker's reading, or the sum of several.
type Counters struct {
	Direction [2]DirectionCounters
	Punt      PuntCounters
	Loops     uint64
	Busy      uint64 // loops that moved something
	Sleeps    uint64 // until something woke the worker; see IdleInterrupt
	Overslept uint64 // of those: packets had come, but had not woken it

	// Of what Close returns, where there are or were several ports: by index, and what others that had one before have counted.
	Ports     []PortCounters
	GonePorts PortCounters
}

// Add adds another reading.
func (c *Counters) Add(o Counters) {
	for d := range c.Direction {
		c.Direction[d].Add(o.Direction[d])
	}
	c.Punt.Received += o.Punt.Received
	c.Punt.Handed += o.Punt.Handed
	c.Punt.Full += o.Punt.Full
	c.Punt.Sent += o.Punt.Sent
	c.Punt.Rejected += o.Punt.Rejected
	c.Punt.Fenced += o.Punt.Fenced
	c.Loops += o.Loops
	c.Busy += o.Busy
	c.Sleeps += o.Sleeps
	c.Overslept += o.Overslept
}

// GroupCounters counts one group's messages that crossed.
type GroupCounters struct {
	Packets [2]uint64
	Bytes   [2]uint64 // payload
}
