// SPDX-License-Identifier: Apache-2.0

// Package erftest reads captures of InfiniBand packets, for tests of packages that write them.
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

// Parse reads one ERF record and returns when it was captured and its packet, LRH to VCRC, which aliases b. It
// reports false when the record is cut off or is not of InfiniBand.
func Parse(b []byte) (t time.Time, ibPacket []byte, ok bool) {
	if len(b) < erfHdrLen {
		return time.Time{}, nil, false
	}
	more, typ := b[erfType]&erfTypeMore != 0, b[erfType]&^erfTypeMore
	rlen, wlen := int(binary.BigEndian.Uint16(b[erfRLen:])), int(binary.BigEndian.Uint16(b[erfWLen:]))
	if typ != erfTypeIB && typ != erfTypeIBLink || rlen > len(b) {
		return time.Time{}, nil, false
	}
	from := erfHdrLen
	for ; more && from+erfExtLen <= rlen; from += erfExtLen {
		more = b[from]&erfTypeMore != 0
	}
	if more || from+wlen > rlen {
		return time.Time{}, nil, false
	}
	ts := binary.LittleEndian.Uint64(b[erfTime:])
	t = time.Unix(int64(ts>>32), int64(ts&0xffffffff*1e9>>32))
	return t, b[from : from+wlen : from+wlen], true
}
