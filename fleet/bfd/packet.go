// SPDX-License-Identifier: Apache-2.0

package bfd

import (
	"errors"
	"fmt"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Len is the length of a control packet, in bytes: none has an authentication section.
const Len = 24

// Why a packet is discarded (RFC 5880 §6.8.6); ErrAdminDown is none of the packet's.
var (
	ErrLength        = errors.New("bfd: the length is wrong")
	ErrVersion       = errors.New("bfd: the version is not 1")
	ErrMult          = errors.New("bfd: the Detect Mult is 0")
	ErrMultipoint    = errors.New("bfd: the Multipoint bit is set")
	ErrDiscriminator = errors.New("bfd: a discriminator is 0 where it may not be, or another session's")
	ErrAuthentic     = errors.New("bfd: it has an authentication section, and none is in use")
	ErrAdminDown     = errors.New("bfd: the session is administratively down")
)

// decode makes the checks of RFC 5880 §6.8.6 that need no session. What follows the packet's Length is not looked at, as
// the RFC has it. The decoder reads an authentication section by lengths of its own, so packets that have one are discarded
// before it.
func decode(b []byte) (p layers.BFD, err error) {
	const version, bits, length = 0, 1, 3 // offsets
	const authentic = 0x04
	switch {
	case len(b) < Len || int(b[length]) < Len || int(b[length]) > len(b):
		return p, ErrLength
	case b[version]>>5 != 1:
		return p, ErrVersion
	case b[bits]&authentic != 0:
		return p, ErrAuthentic
	}
	if err := p.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err != nil {
		return p, fmt.Errorf("%w: %w", ErrLength, err)
	}
	switch {
	case p.DetectMultiplier == 0:
		return p, ErrMult
	case p.Multipoint:
		return p, ErrMultipoint
	case p.MyDiscriminator == 0:
		return p, ErrDiscriminator
	case p.YourDiscriminator == 0 && p.State != Down && p.State != AdminDown:
		return p, ErrDiscriminator
	}
	return p, nil
}

// encode returns a packet's bytes, Len of them.
func encode(p *layers.BFD) []byte {
	b := gopacket.NewSerializeBufferExpectedSize(Len, 0)
	if err := p.SerializeTo(b, gopacket.SerializeOptions{}); err != nil {
		panic(err) // it fails only of an authentication section
	}
	return b.Bytes()
}
