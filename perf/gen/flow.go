// SPDX-License-Identifier: Apache-2.0

// Package gen is a generator and receiver of RoCEv2 frames and InfiniBand messages: a loop in C on an lcore, at both
// sides of a bridge, with the time-stamp counter as its clock.
//
// Each message begins with a stamp: which flow, which number, when. The receiver tells by it what was lost, doubled,
// overtaken, changed or brought to the wrong place, and how long each message took. Frames are valid to the ICRC.
//
// Go prepares and reads; it never touches a message while a trial runs.
package gen

// #include "gen.h"
import "C"

import (
	"fmt"
	"hash/crc32"
)

// Side is a side of the bridge.
type Side int

// The sides.
const (
	RoCE Side = C.GEN_ROCE
	IB   Side = C.GEN_IB
)

// MinPayload is the stamp's length: no message is shorter.
const MinPayload = C.GEN_STAMP

// MaxPayload is InfiniBand's largest MTU.
const MaxPayload = C.GEN_MAX_PAYLOAD

// PrivateBytes of an mbuf's private area, and DataRoom, are what the mempool of a generator must have at least.
const (
	PrivateBytes = 64
	DataRoom     = C.GEN_PAYLOAD_AT + MaxPayload + 64
)

// Network is the kind of network header, by which the ICRC is computed.
type Network int

// The network headers.
const (
	IPv4 Network = C.ICRC_IPV4
	IPv6 Network = C.ICRC_IPV6
	GRH  Network = C.ICRC_GRH
)

// Flow is a stream of messages with the same headers and length.
type Flow struct {
	From    Side
	Head    []byte  // all before the payload: Ethernet to DETH or immediate; from IB the 40-byte area
	Network Network // RoCE only, as are the next two
	Net     int     // where in Head the network header begins
	BTH     int     // where the BTH begins
	Payload int     // bytes
	Recv    Recv    // from IB: what the door says with each message
	Want    Want
}

// Recv is what an IB door says of a message.
type Recv struct {
	QPN, SrcQPN uint32
	SLID        uint16
	GRH         bool // the 40-byte area holds one
}

// Want is how messages must arrive: anything else is misdelivery.
type Want struct {
	Side Side
	AsIs bool     // a mirror sends them back: nothing below is compared
	Addr [16]byte // at IB the DGID; at RoCE the destination IP address, IPv4-mapped
	QPN  uint32   // destination
	QKey uint32
	Src  uint32  // at IB the door's handle of the sending QP; at RoCE the source QPN
	LID  uint16  // at IB, destination
	MAC  [6]byte // at RoCE, destination
}

func (f *Flow) check() error {
	switch {
	case f.Payload < MinPayload || f.Payload > MaxPayload:
		return fmt.Errorf("a payload of %d bytes; use %d, for the stamp, to %d", f.Payload, MinPayload, MaxPayload)
	case len(f.Head) > C.GEN_HEAD:
		return fmt.Errorf("%d bytes of headers; there is room for %d", len(f.Head), C.GEN_HEAD)
	case f.From == IB && len(f.Head) != C.IB_GRH_LEN:
		return fmt.Errorf("an area of %d bytes before a payload from IB; it has %d", len(f.Head), C.IB_GRH_LEN)
	case f.From == RoCE && (f.Net < 14 || f.BTH < f.Net+28 || f.BTH+12 > len(f.Head)):
		return fmt.Errorf("headers of %d bytes with the network header at %d and the BTH at %d", len(f.Head), f.Net, f.BTH)
	}
	return nil
}

// restCRC is the CRC of what lies behind the stamps of messages of a length, pad included; move tells what a CRC before it
// becomes, byte by byte of that.
func restCRC(filler []byte, size int) (rest uint32, move [4][256]uint32) {
	pad := -size & 3
	tail := append(append([]byte(nil), filler[MinPayload:size]...), make([]byte, pad)...)
	zeros := make([]byte, len(tail))
	for i := range move {
		for b := range move[i] {
			// hash/crc32 complements before and after; a bare register is wanted.
			move[i][b] = ^crc32.Update(^(uint32(b) << (8 * i)), crc32.IEEETable, zeros)
		}
	}
	return crc32.ChecksumIEEE(tail), move
}
