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

// RoCE versions that a bench takes and a host speaks.
const (
	V1 = C.ROCE_V1
	V2 = C.ROCE_V2
)

// BenchConfig is what all workers share. It does not change while they run, but for its Policy.
type BenchConfig struct {
	MAC       [6]byte // the Ethernet port's
	VLAN      uint16  // of the RoCE side; 0: untagged
	RoCEPKey  ib.PKey
	PKeyIndex uint16 // of the IB port
	IBMTU     int    // largest payload towards IB, bytes
	RoCEMTU   int    // largest payload towards RoCE, bytes
	Versions  uint8  // V1 | V2
	TTL       uint8  // for packets that come without a usable hop limit

	// RewriteImm: a unicast immediate equal to its sender's QPN becomes the stand-in's (udaddy and mckey
	// carry their QPN there). Groups have a flag of their own.
	RewriteImm bool
	// IBIsEthernet: the IB door is a RoCE device, whose GRH area may hold an IPv4 header.
	IBIsEthernet bool
	// Sleep gives the CPU away when there is no work: for machines that have no core to spare.
	Sleep bool

	Addresses []netip.Prefix // the bridge's own, with their subnets

	Policy
}

// A Bench is what workers stand at: their shared, read-only view of the bridge.
type Bench struct {
	c        *C.struct_bench
	workers  []*Worker
	rests    []resting
	refused  [DropCount]atomic.Uint64 // held frames that management ended
	watching watching
	latency  cleared
	inject   injections
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

func (cfg *BenchConfig) validate() error {
	switch {
	case len(cfg.Addresses) > C.MAX_ADDRESSES:
		return fmt.Errorf("lcore: %d addresses of the bridge are too many; give at most %d", len(cfg.Addresses), C.MAX_ADDRESSES)
	case cfg.IBMTU > MaxPayload || cfg.RoCEMTU > MaxPayload:
		return fmt.Errorf("lcore: an MTU of %d bytes is more than InfiniBand's largest, %d", max(cfg.IBMTU, cfg.RoCEMTU), MaxPayload)
	}
	return cfg.Policy.Validate()
}

func (cfg *BenchConfig) fill(b *C.struct_bench) {
	b.mac = mac48(cfg.MAC)
	b.vlan = C.uint16_t(cfg.VLAN)
	b.roce_pkey = C.uint16_t(cfg.RoCEPKey)
	b.pkey_index = C.uint16_t(cfg.PKeyIndex)
	b.ib_mtu = C.uint16_t(cfg.IBMTU)
	b.roce_mtu = C.uint16_t(cfg.RoCEMTU)
	b.versions = C.uint8_t(cfg.Versions)
	b.ttl = C.uint8_t(cfg.TTL)
	b.rewrite_imm = C.bool(cfg.RewriteImm)
	b.ib_is_ethernet = C.bool(cfg.IBIsEthernet)
	b.sleep = C.bool(cfg.Sleep)
	b.addresses = C.uint8_t(len(cfg.Addresses))
	for i, p := range cfg.Addresses {
		b.address[i] = mapped(p.Addr())
		address, broadcast := own4(p)
		b.own4[i].address, b.own4[i].broadcast = C.uint32_t(address), C.uint32_t(broadcast)
	}
	b.own_ip4, b.own_ip6 = firstOf(cfg.Addresses, netip.Addr.Is4), firstOf(cfg.Addresses, netip.Addr.Is6)
}

// Counters returns the sum over all workers, and what management ended. It is exact only at a quiet moment.
func (b *Bench) Counters() Counters {
	var sum Counters
	for _, w := range b.workers {
		sum.Add(w.Counters())
	}
	refused := DirectionCounters{Drops: map[Drop]uint64{}}
	for d := range b.refused {
		if n := b.refused[d].Load(); n != 0 {
			refused.Drops[Drop(d)] = n
		}
	}
	sum.Direction[RoCEToIB].Add(refused)
	return sum
}

// Group returns what crossed for the group with this id, over all workers.
func (b *Bench) Group(id int) GroupCounters {
	var sum GroupCounters
	for _, w := range b.workers {
		g := w.Group(id)
		for d := range sum.Packets {
			sum.Packets[d] += g.Packets[d]
			sum.Bytes[d] += g.Bytes[d]
		}
	}
	return sum
}

// Workers returns the workers, by id.
func (b *Bench) Workers() []*Worker { return b.workers }
