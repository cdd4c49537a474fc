// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"encoding/binary"

	"causeway/lcore/frame"
	"causeway/lcore/pgm/pgmtest"
)

// A parsed is a packet as parsed by the reference.
type parsed struct {
	kind             pgmtest.Type
	named            bool // tsi is known
	tsi              TSI
	dport            uint16
	parity, unsummed bool
	trailing         bool
	sqn, trail, lead uint32
	sqns             uint64
	options          map[uint8]bool
	unknown          []uint8
	nla              []byte
	tsdu             uint64
}

// bodyLens are the lengths of the body, between header and options, without addresses; nlaAt are the offsets at which
// addresses begin, as if those before were empty.
var bodyLens = map[pgmtest.Type]int{
	pgmtest.SPM: 16, pgmtest.POLL: 24, pgmtest.POLR: 8, pgmtest.ODATA: 8, pgmtest.RDATA: 8,
	pgmtest.NAK: 12, pgmtest.NNAK: 12, pgmtest.NCF: 12, pgmtest.SPMR: 0, pgmtest.ACK: 8,
}

var nlaAt = map[pgmtest.Type][]int{
	pgmtest.SPM: {12}, pgmtest.POLL: {8}, pgmtest.NAK: {4, 8}, pgmtest.NNAK: {4, 8}, pgmtest.NCF: {4, 8},
}

// optLens are the fixed lengths of options; 0 is any length.
var optLens = map[uint8]int{
	1: 16, 2: 0, 3: 8, 4: 12, 5: 12, 7: 0, 8: 8, 9: 8, 10: 8, 11: 4, 12: 0, 13: 4, 14: 4, 15: 4, 16: 0, 17: 4, 18: 0, 19: 0,
}

var big = binary.BigEndian

// parse is a second parser for payloads, written without regard to speed.
func parse(b []byte, checksum bool) (p parsed, f Fault) {
	p.options = map[uint8]bool{}
	if len(b) < 16 {
		return p, HeadShort
	}
	if b[4]&0xc0 != 0 {
		return p, BadVersion
	}
	p.kind = pgmtest.Type(b[4])
	size, known := bodyLens[p.kind]
	if !known {
		return p, BadType
	}
	p.unsummed = big.Uint16(b[6:]) == 0
	if checksum && !p.unsummed && frame.Checksum(b) != 0 {
		return p, BadChecksum
	}
	src, dst := big.Uint16(b), big.Uint16(b[2:])
	switch p.kind {
	case pgmtest.NAK, pgmtest.NNAK, pgmtest.SPMR, pgmtest.POLR, pgmtest.ACK:
		src, dst = dst, src
	}
	p.tsi = TSI{[6]byte(b[8:14]), src}
	p.named, p.dport = p.tsi != TSI{}, dst
	p.parity, p.tsdu = b[5]&0x80 != 0, uint64(big.Uint16(b[14:]))
	body, f := p.parseBody(b[16:], size)
	if f != Fine {
		return p, f
	}
	rest := b[16+body:]
	if b[5]&1 != 0 {
		if rest, f = p.parseOptions(rest); f != Fine {
			return p, f
		}
	}
	p.trailing = uint64(len(rest)) > p.tsdu
	if uint64(len(rest)) < p.tsdu {
		return p, TSDULong
	}
	return p, Fine
}

// parseBody reads the body and returns its length.
func (p *parsed) parseBody(b []byte, size int) (int, Fault) {
	for _, at := range nlaAt[p.kind] {
		at += size - bodyLens[p.kind]
		if len(b) < at+2 {
			return 0, BodyShort
		}
		switch big.Uint16(b[at:]) {
		case 1:
			size += 4
		case 2:
			size += 16
		default:
			return 0, BadAFI
		}
	}
	if len(b) < size {
		return 0, BodyShort
	}
	switch p.kind {
	case pgmtest.SPM:
		p.sqn, p.trail, p.lead, p.nla = big.Uint32(b), big.Uint32(b[4:]), big.Uint32(b[8:]), b[16:size]
	case pgmtest.ODATA, pgmtest.RDATA:
		p.sqn, p.trail = big.Uint32(b), big.Uint32(b[4:])
	case pgmtest.NAK, pgmtest.NCF:
		p.sqns = 1
	}
	return size, Fine
}

// parseOptions reads the options at the beginning of b and returns what follows them.
func (p *parsed) parseOptions(b []byte) ([]byte, Fault) {
	if len(b) < 4 {
		return nil, OptNone
	}
	if b[0]&0x7f != 0 || b[1] != 4 {
		return nil, OptFirst
	}
	total := int(big.Uint16(b[2:]))
	if total < 4 || total > len(b) {
		return nil, OptTotal
	}
	chain, after := b[4:total], b[total:]
	if len(chain) == 0 {
		return after, Fine
	}
	if b[0]&0x80 != 0 {
		return nil, OptEndEarly
	}
	for n := 0; len(chain) > 0; n++ {
		if n == 32 {
			return nil, OptMany
		}
		size, f := p.parseOption(chain)
		if f != Fine {
			return nil, f
		}
		if last := chain[0]&0x80 != 0; last && size < len(chain) {
			return nil, OptEndEarly
		} else if last {
			return after, Fine
		}
		chain = chain[size:]
	}
	return nil, OptEndNone
}

// parseOption reads the first option and returns its length.
func (p *parsed) parseOption(b []byte) (int, Fault) {
	if len(b) < 4 || b[1] < 4 {
		return 0, OptShort
	}
	kind, size := b[0]&0x7f, int(b[1])
	want, known := optLens[kind]
	switch {
	case size > len(b):
		return 0, OptLong
	case kind == 0:
		return 0, OptSecond
	case !known:
		p.unknown = append(p.unknown, kind)
	case want != 0 && want != size:
		return 0, OptSize
	case kind == pgmtest.OptNAKList && (size < 8 || size%4 != 0):
		return 0, NAKList
	case kind == pgmtest.OptNAKList && p.sqns > 0:
		p.sqns += uint64(size/4) - 1
	}
	if known {
		p.options[kind] = true
	}
	return size, Fine
}
