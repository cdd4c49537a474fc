// SPDX-License-Identifier: Apache-2.0

// Package gen is a generator and receiver of RoCEv2 frames and InfiniBand messages: a loop in C on an lcore, on both
// sides of a bridge, with the time-stamp counter as its clock.
//
// Each message begins with a stamp: flow, sequence number and time. From it the receiver counts lost, duplicate,
// reordered, corrupted and misdelivered messages, and measures latency. Frames have a valid ICRC.
//
// Go makes flows and reads counts; it does not touch messages while a trial runs.
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
const MinPayload = C.STAMP_LEN

// MaxPayload is InfiniBand's largest MTU.
const MaxPayload = C.GEN_MAX_PAYLOAD

// PrivateBytes and DataRoom are the least private area and data room of a generator's mempool.
const (
	PrivateBytes = 64
	DataRoom     = C.GEN_PAYLOAD_AT + MaxPayload + 64
)

// Network is the kind of network header, which decides how the ICRC is computed.
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
	Head    []byte  // all headers before the payload: Ethernet to DETH or ImmDt; from IB the 40-byte GRH area
	Network Network // RoCE only, as are the next two
	Net     int     // offset of the network header in Head
	BTH     int     // offset of the BTH in Head
	Payload int     // bytes
	Recv    Recv    // from IB: the metadata of each message
	Want    Want
}

// Recv is the metadata of a received IB message.
type Recv struct {
	QPN, SrcQPN uint32
	SLID        uint16
	GRH         bool // the 40-byte area has a GRH
}

// Want is how messages must arrive; else they are misdelivered.
type Want struct {
	Side      Side
	Unchanged bool     // they come back as they were sent: nothing below is compared
	Addr      [16]byte // IB: DGID; RoCE: destination IP address, IPv4-mapped
	QPN       uint32   // destination
	QKey      uint32
	Src       uint32  // IB: the port's handle of the sending QP; RoCE: source QPN
	LID       uint16  // IB: destination
	MAC       [6]byte // RoCE: destination
}

func (f *Flow) check() error {
	switch {
	case f.Payload < MinPayload || f.Payload > MaxPayload:
		return fmt.Errorf("a payload of %d bytes; use %d, for the stamp, to %d", f.Payload, MinPayload, MaxPayload)
	case len(f.Head) > C.GEN_HEAD:
		return fmt.Errorf("%d bytes of headers; there is room for %d", len(f.Head), C.GEN_HEAD)
	case f.From == IB && len(f.Head) != C.IB_GRH_LEN:
		return fmt.Errorf("a GRH area of %d bytes before a payload from IB; it must have %d", len(f.Head), C.IB_GRH_LEN)
	case f.From == RoCE && (f.Net < 14 || f.BTH < f.Net+28 || f.BTH+12 > len(f.Head)):
		return fmt.Errorf("headers of %d bytes with the network header at %d and the BTH at %d", len(f.Head), f.Net, f.BTH)
	}
	return nil
}

// restCRC is the CRC of what follows the stamp in messages of a size, pad included. With move, the CRC of the first
// bytes is moved over the rest, one byte of the CRC at a time.
func restCRC(filler []byte, size int) (rest uint32, move [4][256]uint32) {
	pad := -size & 3
	tail := append(append([]byte(nil), filler[MinPayload:size]...), make([]byte, pad)...)
	zeros := make([]byte, len(tail))
	for i := range move {
		for b := range move[i] {
			// hash/crc32 complements before and after; here the bare register is needed.
			move[i][b] = ^crc32.Update(^(uint32(b) << (8 * i)), crc32.IEEETable, zeros)
		}
	}
	return crc32.ChecksumIEEE(tail), move
}
