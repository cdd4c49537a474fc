// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math/rand/v2"

	"causeway/ibside/ib"
)

// steps is how many steps a stream has: a prime, so that in a ring of 2048 packets each meets all of them. They take
// 1 MiB, which the loops read in order.
const steps = 65537

// step is what one trip changes; host order, see struct step for what it becomes.
type step struct {
	from, to uint32
	icrc     uint32
}

// layout says where the addresses lie that change, in bytes from the frame's first.
type layout struct {
	net    int // the IP header
	from   int // the source's low 32 bits: of its address, or its QPN
	to     int
	sum    int // of the IPv4 header; 0: none
	fromIP bool
}

// layout is of the frames of a shape.
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

// stream draws the steps for frames like f. Masks say which bits are free.
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

// icrcs is what each bit of the 32-bit word at an offset, lowest first, changes of the ICRC of a frame.
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
