// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"sync/atomic"

	"causeway/ibside/ib"
)

// drop is why a packet was dropped, at the port that it came by, or at the one that it would have left by.
type drop uint8

const (
	kept drop = iota
	dropHeader
	dropRaw
	dropLength
	dropVCRC
	dropVL
	dropInState
	dropOutState
	dropNoRoute
	dropNoMember
	dropMTU
	dropPKeyIn
	dropPKeyOut
	dropSMP
	dropSMPRoute
	dropQueue
	dropLifetime
	dropLink
	dropAsked
	dropCount
)

// dropNames are the reasons' names; the comments say what they mean.
var dropNames = [dropCount]string{
	dropHeader:   "lrh_hdr",        // a wrong LRH
	dropRaw:      "ib_raw",         // without IBA transport
	dropLength:   "lrh_len",        // PktLen is not the packet's length, or too small
	dropVCRC:     "vcrc",           // wrong VCRC
	dropVL:       "vl",             // a virtual lane other than 0 and 15
	dropInState:  "in_not_active",  // the port that it came by is not active
	dropOutState: "out_not_active", // the port that it would leave by is not active
	dropNoRoute:  "no_route",       // the forwarding table has no port for the destination
	dropNoMember: "mc_empty",       // the forwarding table has no other port for the group
	dropMTU:      "mtu",            // larger than the NeighborMTU of the port that it would leave by
	dropPKeyIn:   "pkey_in",        // not of a partition of the port that it came by
	dropPKeyOut:  "pkey_out",       // not for the partitions of the port that it would leave by
	dropSMP:      "smp_malformed",  // on VL 15, and no subnet management packet
	dropSMPRoute: "smp_route",      // a directed route that is not possible here
	dropQueue:    "queue_full",     // the link is too slow
	dropLifetime: "lifetime",       // the link took no packets for too long
	dropLink:     "link_down",      // the link went down with packets in its queue
	dropAsked:    "lost",           // Lose asks for it
}

// counters count a port's packets. Over all ports, when none is in a queue: received + copies = sent + drops.
type counters struct {
	received, sent           atomic.Uint64
	receivedWords, sentWords atomic.Uint64
	receivedGroup, sentGroup atomic.Uint64 // of received and sent: multicast
	copies                   atomic.Uint64 // of multicast packets that came by this port, beyond the first
	drops                    [dropCount]atomic.Uint64
	linkDowned               atomic.Uint64
}

func (c *counters) countIn(packet []byte) {
	c.received.Add(1)
	c.receivedWords.Add(words(packet))
	c.receivedGroup.Add(groups(packet))
}

func (c *counters) countOut(packet []byte) {
	c.sent.Add(1)
	c.sentWords.Add(words(packet))
	c.sentGroup.Add(groups(packet))
}

func (c *counters) drop(why drop) { c.drops[why].Add(1) }

// words is a packet's length as PortCounters have it, without the VCRC.
func words(packet []byte) uint64 { return uint64(max(0, len(packet)-ib.VCRCLen)) / 4 }

func groups(packet []byte) uint64 {
	if lrh, ok := ib.AsLRH(packet); ok && lrh.DLID().IsMulticast() {
		return 1
	}
	return 0
}

// PortCounts are a port's counters. Those of port 0 are of what the switch's own agents send ("received") and take
// ("sent").
type PortCounts struct {
	Name       string            `json:"name"`
	State      string            `json:"state"`
	Received   uint64            `json:"received"`
	Copies     uint64            `json:"copies"`
	Sent       uint64            `json:"sent"`
	Waiting    int               `json:"waiting"` // in the queues
	Drops      map[string]uint64 `json:"drops"`
	LinkDowned uint64            `json:"link_downed"`
}

// Counts returns all ports' counters, port 0 first.
func (s *Switch) Counts() []PortCounts {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []PortCounts
	for _, p := range s.ports {
		c := PortCounts{
			Name: p.name, State: p.Info.State.String(), Received: p.received.Load(), Copies: p.copies.Load(), Sent: p.sent.Load(),
			Waiting: int(p.waiting.Load()), Drops: map[string]uint64{}, LinkDowned: p.linkDowned.Load(),
		}
		for i, name := range dropNames {
			if n := p.drops[i].Load(); n > 0 {
				c.Drops[name] = n
			}
		}
		all = append(all, c)
	}
	return all
}
