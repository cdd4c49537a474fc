// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// A PGMType is the type of a PGM packet (RFC 3208 §8); ACK is that of PGMCC.
type PGMType uint8

// The types.
const (
	PGMSPM   PGMType = 0x0
	PGMPOLL  PGMType = 0x1
	PGMPOLR  PGMType = 0x2
	PGMODATA PGMType = 0x4
	PGMRDATA PGMType = 0x5
	PGMNAK   PGMType = 0x8
	PGMNNAK  PGMType = 0x9
	PGMNCF   PGMType = 0xa
	PGMSPMR  PGMType = 0xc
	PGMACK   PGMType = 0xd
)

// Types of PGM options (RFC 3208 §9).
const (
	PGMOptLength  = 0x00
	PGMOptNAKList = 0x02
	PGMOptJoin    = 0x03
	PGMOptSYN     = 0x0d
	PGMOptFIN     = 0x0e
	PGMOptRST     = 0x0f
)

// PGMHeadLen is the length of the header that all PGM packets have.
const PGMHeadLen = 16

// A PGMOption is one option; OPT_LENGTH and OPT_END come of themselves. Data begins at the option's third byte, and is
// filled up to two bytes.
type PGMOption struct {
	Type uint8
	Data []byte
}

// NAKList returns the option that asks for more sequence numbers than a NAK's own, at most 62.
func NAKList(sqns ...uint32) PGMOption {
	data := []byte{0, 0}
	for _, n := range sqns {
		data = binary.BigEndian.AppendUint32(data, n)
	}
	return PGMOption{PGMOptNAKList, data}
}

// PGM is a packet of Pragmatic General Multicast (RFC 3208), of which each type uses some fields. It is the payload of
// a datagram of any kind.
type PGM struct {
	Type     PGMType
	GSI      [6]byte
	SrcPort  uint16 // the session's; a receiver's packets carry it as their destination port
	DstPort  uint16
	Parity   bool
	Unsummed bool // no checksum

	SQN         uint32
	Trail, Lead uint32     // Trail: ODATA, RDATA, SPM; Lead: SPM
	NLA         netip.Addr // SPM, POLL: the path; NAK, NNAK, NCF: the source
	Group       netip.Addr // NAK, NNAK, NCF
	Round       uint16     // POLL, POLR
	Options     []PGMOption
	Data        []byte // ODATA, RDATA
}

// upstream reports whether a packet goes from receivers to the source.
func (t PGMType) upstream() bool {
	return t == PGMNAK || t == PGMNNAK || t == PGMPOLR || t == PGMSPMR || t == PGMACK
}

// AppendTo appends the packet to b, with its checksum.
func (p *PGM) AppendTo(b []byte) []byte {
	at := len(b)
	src, dst := p.SrcPort, p.DstPort
	if p.Type.upstream() {
		src, dst = dst, src
	}
	var flags byte
	if len(p.Options) > 0 {
		flags |= 0x01
	}
	if p.Parity {
		flags |= 0x80
	}
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = append(b, byte(p.Type), flags, 0, 0)
	b = append(b, p.GSI[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.Data)))
	b = p.appendOptions(p.appendBody(b))
	b = append(b, p.Data...)
	if !p.Unsummed {
		sum := Checksum(b[at:])
		if sum == 0 {
			sum = 0xffff // 0 says that there is none
		}
		binary.BigEndian.PutUint16(b[at+6:], sum)
	}
	return b
}

// appendBody appends what lies between header and options.
func (p *PGM) appendBody(b []byte) []byte {
	word := binary.BigEndian.AppendUint32
	switch p.Type {
	case PGMSPM:
		return appendNLA(word(word(word(b, p.SQN), p.Trail), p.Lead), p.NLA)
	case PGMODATA, PGMRDATA:
		return word(word(b, p.SQN), p.Trail)
	case PGMNAK, PGMNNAK, PGMNCF:
		return appendNLA(appendNLA(word(b, p.SQN), p.NLA), p.Group)
	case PGMPOLL: // with back-off interval, random string and matching mask: all are to answer
		b = appendNLA(word(word(b, p.SQN), uint32(p.Round)<<16), p.NLA)
		return word(word(word(b, 0), 0), 0)
	case PGMPOLR:
		return word(word(b, p.SQN), uint32(p.Round)<<16)
	case PGMACK: // and the map of what has come before
		return word(word(b, p.SQN), 0)
	}
	return b
}

// appendNLA appends an address with its family.
func appendNLA(b []byte, a netip.Addr) []byte {
	family := byte(1)
	if a.Is6() {
		family = 2
	}
	return append(append(b, 0, family, 0, 0), a.AsSlice()...)
}

// appendOptions appends OPT_LENGTH and the options, if there are any.
func (p *PGM) appendOptions(b []byte) []byte {
	if len(p.Options) == 0 {
		return b
	}
	at := len(b)
	b = append(b, PGMOptLength, 4, 0, 0)
	for i, o := range p.Options {
		kind := o.Type
		if i == len(p.Options)-1 {
			kind |= 0x80
		}
		data := o.Data
		for len(data) < 2 {
			data = append(data[:len(data):len(data)], 0)
		}
		b = append(append(b, kind, byte(2+len(data))), data...)
	}
	binary.BigEndian.PutUint16(b[at+2:], uint16(len(b)-at))
	return b
}
