// SPDX-License-Identifier: Apache-2.0

// Package erftest reads captures of InfiniBand packets, ours and others', for tests of packages that write them.
//
//	rlen bytes: header 16 │ extension headers, 8 each │ packet │ pad
//
// A record is as long as its rlen says. Endace's cards pad records to a multiple of 8 bytes; ibdump does not. wlen is
// the packet's length on the wire: a record that holds fewer bytes is of a packet that was truncated, by the writer, so
// that rlen is short, or with the rest of the record by the file around it (the captured length of pcap).
package erftest

import (
	"encoding/binary"
	"time"
)

const (
	erfHdrLen = 16
	erfExtLen = 8

	erfTypeIB     = 21 // LRH to VCRC
	erfTypeIBLink = 25 // the same, with link packets among them
	erfTypeMore   = 0x80
)

const (
	erfTime = 0 // 2^-32 s since 1970, little-endian
	erfType = 8
	erfRLen = 10
	erfWLen = 14 // after 16 bits of loss counter
)

// A Record is a packet that was captured.
type Record struct {
	Time    time.Time
	Packet  []byte // LRH to VCRC, or the beginning of it; without pad
	WireLen int    // of the whole packet, bytes
}

// IsTruncated reports whether the record has only the beginning of its packet.
func (r *Record) IsTruncated() bool { return len(r.Packet) < r.WireLen }

// Parse reads one ERF record, whose Packet aliases b; b may end before the record does, and may go on behind it. It
// reports false when b ends inside the record's headers, and when the record is not of InfiniBand.
func Parse(b []byte) (r Record, ok bool) {
	if len(b) < erfHdrLen {
		return Record{}, false
	}
	more, typ := b[erfType]&erfTypeMore != 0, b[erfType]&^erfTypeMore
	end, wlen := int(binary.BigEndian.Uint16(b[erfRLen:])), int(binary.BigEndian.Uint16(b[erfWLen:]))
	if typ != erfTypeIB && typ != erfTypeIBLink {
		return Record{}, false
	}
	end = min(end, len(b))
	from := erfHdrLen
	for ; more && from+erfExtLen <= end; from += erfExtLen {
		more = b[from]&erfTypeMore != 0
	}
	if more || from > end {
		return Record{}, false
	}
	ts := binary.LittleEndian.Uint64(b[erfTime:])
	end = min(end, from+wlen)
	return Record{
		Time:   time.Unix(int64(ts>>32), int64(ts&0xffffffff*1e9>>32)),
		Packet: b[from:end:end], WireLen: wlen,
	}, true
}
