// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Lengths of MLD messages: those of version 1, and version 2 without records or sources.
const (
	MLDLen         = 24
	MLDv2QueryLen  = 28
	MLDv2ReportLen = reportLen
)

// Types of ICMPv6 messages that are MLD (RFC 2710 §3.1, RFC 3810 §5).
const (
	MLDQuery    uint8 = 130
	MLDv1Report uint8 = 131
	MLDv1Done   uint8 = 132
	MLDv2Report uint8 = 143
)

// Groups of IPv6 itself (RFC 4291 §2.7.1, RFC 3810 §5.2.14).
var (
	AllNodes6   = netip.AddrFrom16([16]byte{0xff, 0x02, 15: 0x01})
	AllRouters6 = netip.AddrFrom16([16]byte{0xff, 0x02, 15: 0x02})
	AllMLDv2    = netip.AddrFrom16([16]byte{0xff, 0x02, 15: 0x16})
)

const (
	mldMaxResp = 4 // in milliseconds
	mldGroup   = 8

	mld2Flags   = 24
	mld2QQIC    = 25
	mld2Sources = 26
)

// HopByHopLen is the length of the hop-by-hop options header that carries a router alert.
const HopByHopLen = 8

const (
	optPad1        = 0
	optRouterAlert = 5
)

// HopByHop is a view of an IPv6 hop-by-hop options header (RFC 8200 §4.3), in wire order.
// It aliases the packet it was taken from and lives as long as its caller owns that packet.
type HopByHop []byte

// AsHopByHop returns the hop-by-hop header at the start of b, the IPv6 payload.
// It reports false when b is shorter than the header says; it never panics.
func AsHopByHop(b []byte) (HopByHop, bool) {
	if len(b) < 8 || len(b) < 8+8*int(b[1]) {
		return nil, false
	}
	n := 8 + 8*int(b[1])
	return HopByHop(b[:n:n]), true
}

// NextHeader returns what follows.
func (h HopByHop) NextHeader() uint8 { return h[0] }

// RouterAlert returns the value of the router alert option, 0 for MLD (RFC 2711 §2.1). It reports false when there is
// no such option or when the options before it do not fit.
func (h HopByHop) RouterAlert() (uint16, bool) {
	for o := h[2:]; len(o) > 0; {
		if o[0] == optPad1 {
			o = o[1:]
			continue
		}
		if len(o) < 2 || len(o) < 2+int(o[1]) {
			return 0, false
		}
		if o[0] == optRouterAlert && o[1] == 2 {
			return binary.BigEndian.Uint16(o[2:]), true
		}
		o = o[2+int(o[1]):]
	}
	return 0, false
}

// PutRouterAlert writes a hop-by-hop header with a router alert for MLD, filled up by a PadN option without data, to
// the first HopByHopLen bytes of b. It panics when b is shorter.
func PutRouterAlert(b []byte, next uint8) HopByHop {
	h := HopByHop(b[:HopByHopLen:HopByHopLen])
	copy(h, []byte{next, 0, optRouterAlert, 2, 0, 0, 1, 0})
	return h
}

// MLD is a view of an MLD message of any version, its ICMPv6 header included (RFC 2710 §3, RFC 3810 §5), all of it,
// in wire order. It aliases the packet it was taken from and lives as long as its caller owns that packet.
type MLD []byte

// AsMLD returns b, all that follows the hop-by-hop header, as an MLD message. It reports false when b is of another
// type or of a length that its type cannot have; it never panics.
func AsMLD(b []byte) (MLD, bool) {
	if len(b) < icmpLen {
		return nil, false
	}
	least := MLDLen
	switch b[icmpType] {
	case MLDQuery, MLDv1Report, MLDv1Done:
	case MLDv2Report:
		least = MLDv2ReportLen
	default:
		return nil, false
	}
	between := b[icmpType] == MLDQuery && len(b) > MLDLen && len(b) < MLDv2QueryLen
	if len(b) < least || between {
		return nil, false
	}
	return MLD(b[:len(b):len(b)]), true
}

// Type returns the message type.
func (h MLD) Type() uint8 { return h[icmpType] }

// Version returns which version of MLD has such a message; of the queries, the longer ones are version 2's
// (RFC 3810 §8.1). AsMLD rejects lengths between.
func (h MLD) Version() uint8 {
	if h.Type() == MLDv2Report || (h.Type() == MLDQuery && len(h) >= MLDv2QueryLen) {
		return 2
	}
	return 1
}

// Group returns the group of any message but a version 2 report, whose records have them and for which it is ::.
func (h MLD) Group() netip.Addr {
	if h.Type() == MLDv2Report {
		return netip.IPv6Unspecified()
	}
	return addrAt(h[mldGroup:], 16)
}

// Query returns a query's fields. It reports false when h is no query or its sources are cut off.
func (h MLD) Query() (Query, bool) {
	if h.Type() != MLDQuery {
		return Query{}, false
	}
	code := binary.BigEndian.Uint16(h[mldMaxResp:])
	q := Query{Group: h.Group(), MaxResp: time.Duration(code) * time.Millisecond}
	if h.Version() < 2 {
		return q, true
	}
	q.MaxResp = time.Duration(decodeTime(code, mldCodeBits)) * time.Millisecond
	q.Suppress, q.Robustness = h[mld2Flags]&querySuppress != 0, h[mld2Flags]&queryRobustness
	q.Interval = time.Duration(decodeTime(uint16(h[mld2QQIC]), igmpCodeBits)) * time.Second
	n := int(binary.BigEndian.Uint16(h[mld2Sources:]))
	if n > (len(h)-MLDv2QueryLen)/16 {
		return Query{}, false
	}
	q.Sources = addrsAt(h[MLDv2QueryLen:], n, 16)
	return q, true
}

// Records returns the records of a version 2 report. It reports false when h is none or its records are cut off.
func (h MLD) Records() ([]GroupRecord, bool) {
	if h.Type() != MLDv2Report {
		return nil, false
	}
	return records(h, 16)
}

// PutMLDv1 writes a report or a done of version 1, with its checksum between the two addresses, to the first MLDLen
// bytes of b (RFC 2710 §3). It panics when b is shorter.
func PutMLDv1(b []byte, src, dst netip.Addr, kind uint8, group netip.Addr) MLD {
	h := MLD(b[:MLDLen:MLDLen])
	clear(h)
	h[icmpType] = kind
	putAddr(h[mldGroup:], group, 16)
	return h.seal(src, dst)
}

// MLDv2QueryFullLen returns the length of the query that PutMLDv2Query writes.
func MLDv2QueryFullLen(q Query) int { return MLDv2QueryLen + 16*len(q.Sources) }

// PutMLDv2Query writes a query of version 2 with its checksum between the two addresses to b. Times are cut to what
// their codes can say. It panics when b is shorter than MLDv2QueryFullLen.
func PutMLDv2Query(b []byte, src, dst netip.Addr, q Query) MLD {
	n := MLDv2QueryFullLen(q)
	h := MLD(b[:n:n])
	clear(h)
	h[icmpType] = MLDQuery
	binary.BigEndian.PutUint16(h[mldMaxResp:], encodeTime(int(q.MaxResp/time.Millisecond), mldCodeBits))
	putAddr(h[mldGroup:], q.Group, 16)
	h[mld2Flags] = bit(q.Suppress, querySuppress) | q.Robustness&queryRobustness
	h[mld2QQIC] = uint8(encodeTime(int(q.Interval/time.Second), igmpCodeBits))
	binary.BigEndian.PutUint16(h[mld2Sources:], uint16(len(q.Sources)))
	for i, s := range q.Sources {
		putAddr(h[MLDv2QueryLen+16*i:], s, 16)
	}
	return h.seal(src, dst)
}

// MLDv2ReportFullLen returns the length of the report that PutMLDv2Report writes.
func MLDv2ReportFullLen(rs []GroupRecord) int { return recordsLen(rs, 16) }

// PutMLDv2Report writes a report of version 2 with its checksum between the two addresses to b.
// It panics when b is shorter than MLDv2ReportFullLen.
func PutMLDv2Report(b []byte, src, dst netip.Addr, rs []GroupRecord) MLD {
	n := MLDv2ReportFullLen(rs)
	h := MLD(b[:n:n])
	clear(h[:reportLen])
	h[icmpType] = MLDv2Report
	putRecords(h, rs, 16)
	return h.seal(src, dst)
}

// seal writes the checksum.
func (h MLD) seal(src, dst netip.Addr) MLD {
	binary.BigEndian.PutUint16(h[icmpCsum:], 0)
	binary.BigEndian.PutUint16(h[icmpCsum:], PseudoChecksum(src, dst, ProtoICMPv6, h))
	return h
}

// ParseMLD validates an MLD message with the header ip, whose NextHeader is ProtoHopByHop; b is all of ip's payload,
// the hop-by-hop header included. A report from :: is valid: a host sends it during duplicate address detection of its
// first address (RFC 3810 §5.2.13), and snooping must accept it (RFC 4541 §3). Other ICMPv6 is MLDType. The number of
// records is bounded by the packet's length.
func ParseMLD(ip IPv6, b []byte) (Membership, Fault) {
	opts, ok := AsHopByHop(b)
	if !ok {
		return Membership{}, MLDShort
	}
	b = b[len(opts):]
	if opts.NextHeader() != ProtoICMPv6 {
		return Membership{}, MLDType
	}
	if len(b) < icmpLen {
		return Membership{}, MLDShort
	}
	if !isMLDType(b[icmpType]) {
		return Membership{}, MLDType
	}
	h, ok := AsMLD(b)
	if !ok {
		return Membership{}, MLDShort
	}
	if fault := h.arrival(ip, opts); fault != "" {
		return Membership{}, fault
	}
	return h.membership()
}

func isMLDType(t uint8) bool {
	return t == MLDQuery || t == MLDv1Report || t == MLDv1Done || t == MLDv2Report
}

// arrival checks what all received MLD messages must satisfy (RFC 3810 §6.2, §7.4).
func (h MLD) arrival(ip IPv6, opts HopByHop) Fault {
	value, alert := opts.RouterAlert()
	switch {
	case ip.HopLimit() != 1:
		return MLDHops
	case !alert || value != 0:
		return MLDAlert
	case PseudoChecksum(ip.Src(), ip.Dst(), ProtoICMPv6, h) != 0:
		return MLDCsum
	case ip.Src().IsUnspecified() && h.Type() != MLDQuery:
		return ""
	case !ip.Src().IsLinkLocalUnicast():
		return MLDSource
	}
	return ""
}

// membership converts the message.
func (h MLD) membership() (Membership, Fault) {
	m := Membership{Version: h.Version()}
	switch h.Type() {
	case MLDQuery:
		q, ok := h.Query()
		return queried(m, q, ok, MLDRecords, MLDGroup)
	case MLDv2Report:
		rs, ok := h.Records()
		return reported(m, rs, ok, MLDRecords, MLDGroup)
	case MLDv1Done:
		return reported(m, []GroupRecord{LeaveRecord(h.Group())}, true, MLDRecords, MLDGroup)
	default: // the report of version 1
		return reported(m, []GroupRecord{{Type: ModeIsExclude, Group: h.Group()}}, true, MLDRecords, MLDGroup)
	}
}
