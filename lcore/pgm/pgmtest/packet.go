// SPDX-License-Identifier: Apache-2.0

// Package pgmtest builds packets of Pragmatic General Multicast (RFC 3208), and shows them to a tracker, for tests of
// lcore/pgm.
package pgmtest

import (
	"encoding/binary"
	"net/netip"

	"causeway/lcore/frame"
)

// A Type is the type of a packet (RFC 3208 §8); ACK is PGMCC's.
type Type uint8

// The types.
const (
	SPM   Type = 0x0
	POLL  Type = 0x1
	POLR  Type = 0x2
	ODATA Type = 0x4
	RDATA Type = 0x5
	NAK   Type = 0x8
	NNAK  Type = 0x9
	NCF   Type = 0xa
	SPMR  Type = 0xc
	ACK   Type = 0xd
)

// Types of options (RFC 3208 §9).
const (
	OptLength  = 0x00
	OptNAKList = 0x02
	OptJoin    = 0x03
	OptSYN     = 0x0d
	OptFIN     = 0x0e
	OptRST     = 0x0f
)

// HeadLen is the length of the header that all packets have.
const HeadLen = 16

// An Option is one option; AppendTo adds OPT_LENGTH and OPT_END. Data begins at the option's third byte, and is padded
// to two bytes.
type Option struct {
	Type uint8
	Data []byte
}

// NAKList returns the option that asks for more sequence numbers than a NAK's own, at most 62.
func NAKList(sqns ...uint32) Option {
	data := []byte{0, 0}
	for _, n := range sqns {
		data = binary.BigEndian.AppendUint32(data, n)
	}
	return Option{OptNAKList, data}
}

// A Packet is the payload of a datagram, over UDP or IP. Each type uses some of the fields.
type Packet struct {
	Type     Type
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
	Options     []Option
	Data        []byte // ODATA, RDATA
}

// upstream reports whether a packet goes from receivers to the source.
func (t Type) upstream() bool {
	return t == NAK || t == NNAK || t == POLR || t == SPMR || t == ACK
}

// AppendTo appends the packet to b, with its checksum.
func (p *Packet) AppendTo(b []byte) []byte {
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
		sum := frame.Checksum(b[at:])
		if sum == 0 {
			sum = 0xffff // 0 means no checksum
		}
		binary.BigEndian.PutUint16(b[at+6:], sum)
	}
	return b
}

// appendBody appends what is between header and options.
func (p *Packet) appendBody(b []byte) []byte {
	word := binary.BigEndian.AppendUint32
	switch p.Type {
	case SPM:
		return appendNLA(word(word(word(b, p.SQN), p.Trail), p.Lead), p.NLA)
	case ODATA, RDATA:
		return word(word(b, p.SQN), p.Trail)
	case NAK, NNAK, NCF:
		return appendNLA(appendNLA(word(b, p.SQN), p.NLA), p.Group)
	case POLL: // with back-off interval, random string and matching mask: all receivers answer
		b = appendNLA(word(word(b, p.SQN), uint32(p.Round)<<16), p.NLA)
		return word(word(word(b, 0), 0), 0)
	case POLR:
		return word(word(b, p.SQN), uint32(p.Round)<<16)
	case ACK: // and the bitmap of received packets
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
func (p *Packet) appendOptions(b []byte) []byte {
	if len(p.Options) == 0 {
		return b
	}
	at := len(b)
	b = append(b, OptLength, 4, 0, 0)
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
