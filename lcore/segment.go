// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "policy.h"
import "C"

import (
	"fmt"
	"net/netip"
)

// A Segment is a VLAN of an Ethernet port, with what is its own.
type Segment struct {
	Port     uint8  // the index of its port
	VLAN     uint16 // 0: untagged
	RoCEMTU  int    // largest payload towards RoCE, bytes
	Versions uint8  // V1 | V2
	TTL      uint8  // for packets without a usable hop limit

	Addresses []netip.Prefix // the bridge's own, with their subnets

	// Bound: messages cross to and from nodes and groups of this Partition only. Else they do of all.
	Bound     bool
	Partition uint8
}

// maxSegments is how many segments there can be.
const maxSegments = C.MAX_SEGMENTS

// Validate reports what is wrong with a segment.
func (s *Segment) Validate() error {
	switch {
	case len(s.Addresses) > C.MAX_ADDRESSES:
		return fmt.Errorf("lcore: %d addresses of the bridge are too many; give at most %d", len(s.Addresses), C.MAX_ADDRESSES)
	case s.RoCEMTU > MaxPayload:
		return fmt.Errorf("lcore: an MTU of %d bytes is more than InfiniBand's largest, %d", s.RoCEMTU, MaxPayload)
	case s.VLAN > maxVLAN:
		return fmt.Errorf("lcore: VLAN %d is not possible; use 1 to %d, or 0 for untagged", s.VLAN, maxVLAN)
	case s.Bound && s.Partition >= C.MAX_PARTITIONS:
		return fmt.Errorf("lcore: partition %d is not possible; use 0 to %d", s.Partition, C.MAX_PARTITIONS-1)
	}
	return nil
}

const maxVLAN = 4094 // 4095 is reserved (IEEE 802.1Q)

func (s *Segment) fill(c *C.struct_segment) {
	c.port = C.uint8_t(s.Port)
	c.vlan = C.uint16_t(s.VLAN)
	c.roce_mtu = C.uint16_t(s.RoCEMTU)
	c.versions = C.uint8_t(s.Versions)
	c.ttl = C.uint8_t(s.TTL)
	c.partition = C.PARTITION_ANY
	if s.Bound {
		c.partition = C.uint8_t(s.Partition)
	}
	c.addresses = C.uint8_t(len(s.Addresses))
	for i, p := range s.Addresses {
		c.address[i] = mapped(p.Addr())
		address, broadcast := own4(p)
		c.own4[i].address, c.own4[i].broadcast = C.uint32_t(address), C.uint32_t(broadcast)
	}
	c.own_ip4, c.own_ip6 = firstOf(s.Addresses, netip.Addr.Is4), firstOf(s.Addresses, netip.Addr.Is6)
}

// A grace is the time in which workers may still use what was removed.
type grace struct {
	token C.uint64_t
	runs  bool
}

// AddSegment makes workers take the frames of a segment under a number that is free; see SegmentRests. The segment is
// valid, and no other of its port has its VLAN. It and RemoveSegment may be called while workers run, by one goroutine at a time.
func (dp *Datapath) AddSegment(number uint8, s *Segment) {
	dp.c.segment[number] = C.struct_segment{}
	s.fill(&dp.c.segment[number])
	C.policy_add_segment(dp.c, C.uint(number))
}

// RemoveSegment makes workers drop the frames of a segment from now on (vlan_unknown). What they have taken of it may
// still be under way.
func (dp *Datapath) RemoveSegment(number uint8) {
	C.policy_remove_segment(dp.c, C.uint(number))
	dp.removed[number] = grace{C.policy_token(dp.c), true}
}

// SegmentRests reports whether workers may still use a segment that was removed, so that its number is not free.
func (dp *Datapath) SegmentRests(number uint8) bool {
	g := &dp.removed[number]
	g.runs = g.runs && !bool(C.policy_passed(dp.c, g.token))
	return g.runs
}
