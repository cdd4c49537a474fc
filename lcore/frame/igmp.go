// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Lengths of IGMP messages: those of version 2, and queries of version 3 without sources.
const (
	IGMPLen        = 8
	IGMPv3QueryLen = 12
)

// Types of IGMP messages (RFC 2236 §2.1, RFC 3376 §4).
const (
	IGMPQuery    uint8 = 0x11
	IGMPv1Report uint8 = 0x12
	IGMPv2Report uint8 = 0x16
	IGMPv2Leave  uint8 = 0x17
	IGMPv3Report uint8 = 0x22
)

// Groups of IGMP itself (RFC 2236 §9, RFC 3376 §4.2.14).
var (
	AllHosts4   = netip.AddrFrom4([4]byte{224, 0, 0, 1})
	AllRouters4 = netip.AddrFrom4([4]byte{224, 0, 0, 2})
	AllIGMPv3   = netip.AddrFrom4([4]byte{224, 0, 0, 22})
)

const (
	igmpType    = 0
	igmpMaxResp = 1 // in tenths of a second
	igmpCsum    = 2
	igmpGroup   = 4

	igmp3Flags   = 8
	igmp3QQIC    = 9
	igmp3Sources = 10

	querySuppress   = 8
	queryRobustness = 7
)

// IGMP is a view of an IGMP message of any version (RFC 2236 §2, RFC 3376 §4), all of it, in wire order.
// It aliases the packet it was taken from and lives as long as its caller owns that packet.
type IGMP []byte

// AsIGMP returns b, all of the IP payload, as an IGMP message. It reports false when b is shorter than a message of
// version 2; it never panics.
func AsIGMP(b []byte) (IGMP, bool) {
	if len(b) < IGMPLen {
		return nil, false
	}
	return IGMP(b[:len(b):len(b)]), true
}

// Type returns the message type.
func (h IGMP) Type() uint8 { return h[igmpType] }

func (h IGMP) isMembership() bool {
	switch h.Type() {
	case IGMPQuery, IGMPv1Report, IGMPv2Report, IGMPv2Leave, IGMPv3Report:
		return true
	}
	return false
}

// Version returns the version of the message: the longer queries are version 3's and those without a time version 1's
// (RFC 3376 §7.1). It is 0 for unknown types and for queries of lengths between.
func (h IGMP) Version() uint8 {
	switch {
	case h.Type() == IGMPQuery && len(h) > IGMPLen && len(h) < IGMPv3QueryLen:
		return 0
	case h.Type() == IGMPv3Report, h.Type() == IGMPQuery && len(h) >= IGMPv3QueryLen:
		return 3
	case h.Type() == IGMPv2Report, h.Type() == IGMPv2Leave, h.Type() == IGMPQuery && h[igmpMaxResp] != 0:
		return 2
	case h.Type() == IGMPv1Report, h.Type() == IGMPQuery:
		return 1
	}
	return 0
}

// ChecksumOK reports whether the checksum is right.
func (h IGMP) ChecksumOK() bool { return Checksum(h) == 0 }

// Group returns the group of any message but a version 3 report, whose records have them; 0.0.0.0 in a
// general query.
func (h IGMP) Group() netip.Addr { return addrAt(h[igmpGroup:], 4) }

// Query returns a query's fields. It reports false when h is no query or its sources are cut off.
func (h IGMP) Query() (Query, bool) {
	if h.Type() != IGMPQuery || h.Version() == 0 {
		return Query{}, false
	}
	q := Query{Group: h.Group(), MaxResp: time.Duration(h[igmpMaxResp]) * time.Second / 10}
	if h.Version() < 3 {
		return q, true
	}
	q.MaxResp = time.Duration(decodeTime(uint16(h[igmpMaxResp]), igmpCodeBits)) * time.Second / 10
	q.Suppress, q.Robustness = h[igmp3Flags]&querySuppress != 0, h[igmp3Flags]&queryRobustness
	q.Interval = time.Duration(decodeTime(uint16(h[igmp3QQIC]), igmpCodeBits)) * time.Second
	n := int(binary.BigEndian.Uint16(h[igmp3Sources:]))
	if n > (len(h)-IGMPv3QueryLen)/4 {
		return Query{}, false
	}
	q.Sources = addrsAt(h[IGMPv3QueryLen:], n, 4)
	return q, true
}

// Records returns the records of a version 3 report. It reports false when h is none or its records are cut off.
func (h IGMP) Records() ([]GroupRecord, bool) {
	if h.Type() != IGMPv3Report {
		return nil, false
	}
	return records(h, 4)
}

// PutIGMP writes a message of version 1 or 2, of IGMPLen bytes, with its checksum to b: a report, leave or query.
// maxResp is 0 in all but queries and cut to tenths of a second, at most 25.5 s. It panics when b is shorter.
func PutIGMP(b []byte, kind uint8, maxResp time.Duration, group netip.Addr) IGMP {
	h := IGMP(b[:IGMPLen:IGMPLen])
	h[igmpType], h[igmpMaxResp] = kind, uint8(min(max(maxResp, 0)/(time.Second/10), 0xff))
	putAddr(h[igmpGroup:], group, 4)
	return h.seal()
}

// IGMPv3QueryFullLen returns the length of the query that PutIGMPv3Query writes.
func IGMPv3QueryFullLen(q Query) int { return IGMPv3QueryLen + 4*len(q.Sources) }

// PutIGMPv3Query writes a query of version 3 with its checksum to b. Times are rounded down to what their codes can
// express. It panics when b is shorter than IGMPv3QueryFullLen.
func PutIGMPv3Query(b []byte, q Query) IGMP {
	n := IGMPv3QueryFullLen(q)
	h := IGMP(b[:n:n])
	h[igmpType] = IGMPQuery
	h[igmpMaxResp] = uint8(encodeTime(int(q.MaxResp/(time.Second/10)), igmpCodeBits))
	putAddr(h[igmpGroup:], q.Group, 4)
	h[igmp3Flags] = bit(q.Suppress, querySuppress) | q.Robustness&queryRobustness
	h[igmp3QQIC] = uint8(encodeTime(int(q.Interval/time.Second), igmpCodeBits))
	binary.BigEndian.PutUint16(h[igmp3Sources:], uint16(len(q.Sources)))
	for i, s := range q.Sources {
		putAddr(h[IGMPv3QueryLen+4*i:], s, 4)
	}
	return h.seal()
}

// IGMPv3ReportFullLen returns the length of the report that PutIGMPv3Report writes.
func IGMPv3ReportFullLen(rs []GroupRecord) int { return recordsLen(rs, 4) }

// PutIGMPv3Report writes a report of version 3 with its checksum to b.
// It panics when b is shorter than IGMPv3ReportFullLen.
func PutIGMPv3Report(b []byte, rs []GroupRecord) IGMP {
	n := IGMPv3ReportFullLen(rs)
	h := IGMP(b[:n:n])
	clear(h[:reportLen])
	h[igmpType] = IGMPv3Report
	putRecords(h, rs, 4)
	return h.seal()
}

// seal writes the checksum.
func (h IGMP) seal() IGMP {
	binary.BigEndian.PutUint16(h[igmpCsum:], 0)
	binary.BigEndian.PutUint16(h[igmpCsum:], Checksum(h))
	return h
}

// ParseIGMP validates an IGMP message with the header ip; b is all of ip's payload. A missing Router Alert is no fault:
// hosts of version 1 (RFC 1112) and some switches do not send it. The source may be 0.0.0.0, as of hosts without an
// address and of snooping switches (RFC 3376 §4.2.13, RFC 4541). The number of records is bounded by the packet's
// length.
func ParseIGMP(ip IPv4, b []byte) (Membership, Fault) {
	h, ok := AsIGMP(b)
	switch {
	case !ok, h.Type() == IGMPQuery && h.Version() == 0:
		return Membership{}, IGMPShort
	case !h.isMembership(): // of others, which go further than the link: mtrace, DVMRP, PIM
		return Membership{}, IGMPType
	case ip.TTL() != 1:
		return Membership{}, IGMPTTL
	case !h.ChecksumOK():
		return Membership{}, IGMPCsum
	case !ip.Src().IsUnspecified() && !isHost(ip.Src()):
		return Membership{}, IGMPSource
	}
	m := Membership{Version: h.Version()}
	switch h.Type() {
	case IGMPQuery:
		q, ok := h.Query()
		return queried(m, q, ok, IGMPRecords, IGMPGroup)
	case IGMPv3Report:
		rs, ok := h.Records()
		return reported(m, rs, ok, IGMPRecords, IGMPGroup)
	case IGMPv1Report, IGMPv2Report:
		return reported(m, []GroupRecord{{Type: ModeIsExclude, Group: h.Group()}}, true, IGMPRecords, IGMPGroup)
	}
	return reported(m, []GroupRecord{LeaveRecord(h.Group())}, true, IGMPRecords, IGMPGroup)
}

// queried completes m with a query; ok: its sources were not cut off.
func queried(m Membership, q Query, ok bool, cut, group Fault) (Membership, Fault) {
	switch {
	case !ok:
		return Membership{}, cut
	case !isGroup(q.Group) && !q.Group.IsUnspecified(), q.Group.IsUnspecified() && len(q.Sources) > 0:
		return Membership{}, group
	}
	m.Query = &q
	return m, ""
}

// reported completes m with the records of a report; ok: they were not cut off.
func reported(m Membership, rs []GroupRecord, ok bool, cut, group Fault) (Membership, Fault) {
	if !ok {
		return Membership{}, cut
	}
	if m.Records, ok = knownRecords(rs); !ok {
		return Membership{}, group
	}
	return m, ""
}
