// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "setup.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"

	"causeway/ibside/ib"
)

// The RoCE versions, as bits.
const (
	V1 = C.ROCE_V1
	V2 = C.ROCE_V2
)

// Idle is what a worker does that has found nothing for a while.
type Idle uint8

// What an idle worker does.
const (
	IdlePoll      Idle = C.IDLE_POLL
	IdleSleep     Idle = C.IDLE_SLEEP     // it gives the CPU away for some microseconds at a time
	IdleInterrupt Idle = C.IDLE_INTERRUPT // until it is woken; see Worker.SetRxWake
)

// DatapathConfig is the configuration that all workers share. Only its Policy changes while they run.
type DatapathConfig struct {
	MAC      [6]byte   // the Ethernet port's
	MoreMACs [][6]byte // those of further ports
	Segment            // the first
	More     []Segment
	Numbers  []uint8 // of all segments, in their order; nil: from 0
	RoCEPKey ib.PKey

	// RewriteImm: a unicast immediate equal to its sender's QPN becomes the proxy QP's (udaddy and mckey
	// carry their QPN there). Groups have a flag of their own.
	RewriteImm bool
	// IBIsEthernet: the IB port is a RoCE device, whose GRH area may hold an IPv4 header.
	IBIsEthernet bool
	// LearnNodes: management is asked for nodes that no table has.
	LearnNodes bool
	// Idle is what a worker does that has nothing to do.
	Idle Idle
	// Confine leaves workers' threads, also after Stop, only the system calls that drivers make (confine.h).
	Confine bool
	// VirtualMAC makes the bridge a member of a fleet, which has no shard and no lease at first (LeaseOf). It is
	// the MAC address of host shard 0; those of others have their numbers in the last byte, which is 0. Zero: there is no fleet.
	VirtualMAC [6]byte
	// Lcore is a worker's, on whose NUMA node that is which all workers read; 0: anywhere.
	Lcore uint

	Policy
}

// A Datapath is what all workers share, and the list of them.
type Datapath struct {
	c         *C.struct_datapath
	node      C.int // NUMA, of what all workers read
	workers   []*Worker
	ports     portIndices
	punts     *punts
	admission admission
	dropped   [C.MAX_PORTS][DropCount]atomic.Uint64 // by port: pending packets that management dropped
	mirrors   mirrors
	removed   [maxSegments]grace // segments
	latency   cleared
	inject    injections
	part      Part // of a fleet's work
}

func mapped(a netip.Addr) (out [16]C.uint8_t) {
	for i, x := range a.As16() {
		out[i] = C.uint8_t(x)
	}
	return out
}

func mac48(m [6]byte) C.uint64_t {
	var v uint64
	for _, x := range m {
		v = v<<8 | uint64(x)
	}
	return C.uint64_t(v)
}

// own4 returns an IPv4 address as it lies in a packet, and the broadcast address of its subnet: none in /31 and /32.
func own4(p netip.Prefix) (address, broadcast uint32) {
	if !p.Addr().Is4() {
		return 0, 0
	}
	a := p.Addr().As4()
	address = binary.NativeEndian.Uint32(a[:])
	if p.Bits() > 30 {
		return address, 0
	}
	for i := range a {
		host := max(0, min(8, (i+1)*8-p.Bits()))
		a[i] |= byte(1<<host - 1)
	}
	return address, binary.NativeEndian.Uint32(a[:])
}

// firstOf returns the first address of a kind that routers forward; zero bytes: there is none.
func firstOf(addresses []netip.Prefix, kind func(netip.Addr) bool) (out [16]C.uint8_t) {
	for _, p := range addresses {
		if a := p.Addr(); kind(a) && !a.IsLinkLocalUnicast() {
			return mapped(a)
		}
	}
	return out
}

func prefixOf(p netip.Prefix) C.struct_prefix {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return C.struct_prefix{addr: mapped(p.Masked().Addr()), len: C.uint8_t(bits)}
}

func (cfg *DatapathConfig) validate() error {
	all := cfg.segments()
	if len(all) > maxSegments {
		return fmt.Errorf("lcore: %d segments are too many; give at most %d", len(all), maxSegments)
	}
	if n := 1 + len(cfg.MoreMACs); n > C.MAX_PORTS {
		return fmt.Errorf("lcore: %d Ethernet ports are too many; use at most %d", n, C.MAX_PORTS)
	}
	places := map[[2]uint16]bool{}
	for i := range all {
		if err := all[i].Validate(); err != nil {
			return err
		}
		if int(all[i].Port) > len(cfg.MoreMACs) {
			return fmt.Errorf("lcore: a segment of port %d, and there are %d", all[i].Port, 1+len(cfg.MoreMACs))
		}
		place := [2]uint16{uint16(all[i].Port), all[i].VLAN}
		if places[place] {
			return fmt.Errorf("lcore: VLAN %d is that of two segments of a port; give each its own", all[i].VLAN)
		}
		places[place] = true
	}
	return cfg.Policy.Validate()
}

// segments are all, by number.
func (cfg *DatapathConfig) segments() []Segment {
	return append([]Segment{cfg.Segment}, cfg.More...)
}

func (cfg *DatapathConfig) fill(dp *C.struct_datapath) {
	for i, mac := range append([][6]byte{cfg.MAC}, cfg.MoreMACs...) {
		dp.mac[i] = mac48(mac)
		dp.ports |= 1 << i
	}
	if dp.ports != C.ONLY_PORT {
		dp.ports |= C.PORTS_SEVERAL
	}
	dp.roce_pkey = C.uint16_t(cfg.RoCEPKey)
	dp.rewrite_imm = C.bool(cfg.RewriteImm)
	dp.ib_is_ethernet = C.bool(cfg.IBIsEthernet)
	dp.learn = C.bool(cfg.LearnNodes)
	dp.idle = C.uint8_t(cfg.Idle)
	dp.confine = C.bool(cfg.Confine)
}

// Counters returns the sum over all workers and of the pending packets that management dropped. It is exact only while
// nothing moves.
func (dp *Datapath) Counters() Counters {
	var sum Counters
	for _, w := range dp.workers {
		sum.Add(w.Counters())
	}
	dropped := DirectionCounters{Drops: map[Drop]uint64{}}
	for port := range dp.dropped {
		dp.addDropped(port, dropped.Drops)
	}
	sum.Direction[RoCEToIB].Add(dropped)
	return sum
}

// addDropped adds what management dropped of a port's packets.
func (dp *Datapath) addDropped(port int, drops map[Drop]uint64) {
	for d := range dp.dropped[port] {
		if n := dp.dropped[port][d].Load(); n != 0 {
			drops[Drop(d)] += n
		}
	}
}

// Group returns the counters of the group with this id, summed over all workers.
func (dp *Datapath) Group(id int) GroupCounters {
	var sum GroupCounters
	for _, w := range dp.workers {
		g := w.Group(id)
		for d := range sum.Packets {
			sum.Packets[d] += g.Packets[d]
			sum.Bytes[d] += g.Bytes[d]
		}
	}
	return sum
}

// Workers returns the workers, by id.
func (dp *Datapath) Workers() []*Worker { return dp.workers }
