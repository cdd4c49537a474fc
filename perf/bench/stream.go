// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math/rand/v2"

	"causeway/ibside/ib"
)

// steps is the length of a stream: a prime, so that each of 2048 packets in a ring goes through all of them. They take
// 1 MiB, which the loops read in order.
const steps = 65537

// step is what one trip changes in a packet, in host order; struct step has it in wire order.
type step struct {
	from, to uint32
	icrc     uint32
}

// layout says at which offsets in a frame the addresses are that change.
type layout struct {
	net    int // the IP header
	from   int // low 32 bits of the source address, or the source QPN
	to     int
	sum    int // of the IPv4 header; 0: none
	fromIP bool
}

// layout is the layout of a shape's frames.
func (s shape) layout() layout {
	l := layout{net: 14, fromIP: s.qpns == 1}
	if s.vlan != 0 {
		l.net += 4
	}
	header := 20
	l.from, l.to, l.sum = l.net+12, l.net+16, l.net+10
	if s.six {
		header = 40
		l.from, l.to, l.sum = l.net+20, l.net+36, 0
	}
	if !l.fromIP {
		const udp, srcQP = 8, ib.BTHLen + 4
		l.from = l.net + header + udp + srcQP
	}
	return l
}

// stream draws the steps for frames like f; from and to are masks of the bits that may change.
func (l layout) stream(f []byte, from, to uint32) []step {
	r := rand.New(rand.NewPCG(1, uint64(len(f))))
	fromBits, toBits := l.icrcs(f, l.from), l.icrcs(f, l.to)
	all := make([]step, steps)
	for i := range all {
		s := step{from: r.Uint32() & from, to: r.Uint32() & to}
		for bit := range 32 {
			if s.from>>bit&1 != 0 {
				s.icrc ^= fromBits[bit]
			}
			if s.to>>bit&1 != 0 {
				s.icrc ^= toBits[bit]
			}
		}
		all[i] = s
	}
	return all
}

// icrcs is how each bit of the 32-bit word at an offset, lowest first, changes the ICRC of a frame.
func (l layout) icrcs(f []byte, at int) (out [32]uint32) {
	covered := append([]byte(nil), f[l.net:len(f)-ib.ICRCLen]...)
	before := ib.ICRCRoCEv2(covered)
	for bit := range out {
		b := &covered[at-l.net+3-bit/8]
		*b ^= 1 << (bit % 8)
		out[bit] = ib.ICRCRoCEv2(covered) ^ before
		*b ^= 1 << (bit % 8)
	}
	return out
}
