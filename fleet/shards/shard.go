// SPDX-License-Identifier: Apache-2.0

// Package shards divides the work between two fabrics among the bridges of a fleet.
//
// What hosts on RoCE send is divided by the source MAC address of their frames, so that a host's queue pair has one proxy
// QP in the whole fleet: Hosts host shards. Multicast from InfiniBand is divided by MGID: Groups group shards. Each shard
// has one owner at a time, by one Assignment that all members follow.
package shards

import (
	"encoding/binary"
	"fmt"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// How many shards there are.
const (
	Hosts  = 64
	Groups = 4096
	Count  = Hosts + Groups
)

// Shard is a part of the work: a host shard below Hosts, else a group shard.
type Shard uint16

// golden spreads keys whose low bits differ, as addresses do that are given out in order: the high bits of a product
// with it are the shard (Knuth, The Art of Computer Programming 6.4, multiplicative hashing).
const golden = 0x9e3779b97f4a7c15

// OfHost returns the shard of what the station with a MAC address sends.
func OfHost(m frame.MAC) Shard {
	key := binary.BigEndian.Uint64(append([]byte{0, 0}, m[:]...))
	return Shard(key * golden >> 58)
}

// OfGroup returns the shard of a multicast group.
func OfGroup(mgid ib.GID) Shard {
	key := binary.BigEndian.Uint64(mgid[:8])*golden ^ binary.BigEndian.Uint64(mgid[8:])
	key ^= key >> 32 // or what differs in the low half alone would not reach the high bits in full
	return Hosts + Shard(key*golden>>52)
}

// String returns "host/5" or "group/4095".
func (s Shard) String() string {
	if s < Hosts {
		return fmt.Sprintf("host/%d", uint16(s))
	}
	return fmt.Sprintf("group/%d", uint16(s)-Hosts)
}
