// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Membership is an IGMP or MLD message of any version: a query, or changes of membership. Reports of older versions are
// converted to records (RFC 3376 §7.3.2, RFC 3810 §8.3.2): an IGMPv2 report is ModeIsExclude without sources, a leave
// is ToInclude without sources.
type Membership struct {
	Version uint8  // of the protocol: 1 to 3 of IGMP, 1 and 2 of MLD
	Query   *Query // nil in a report
	Records []GroupRecord
}

// Query asks for memberships. Group is unspecified in a general query. The fields from Suppress on are of IGMPv3 and
// MLDv2, and zero in older queries.
type Query struct {
	Group      netip.Addr
	MaxResp    time.Duration // answers are spread over this time; 0 in a query of IGMPv1
	Suppress   bool          // routers must not restart their timers
	Robustness uint8         // 0 to 7
	Interval   time.Duration // between queries
	Sources    []netip.Addr
}

// RecordType says how a group record's sources count (RFC 3376 §4.2.12, RFC 3810 §5.2.12).
type RecordType uint8

// Types of group records.
const (
	ModeIsInclude   RecordType = 1
	ModeIsExclude   RecordType = 2
	ToInclude       RecordType = 3
	ToExclude       RecordType = 4
	AllowNewSources RecordType = 5
	BlockOldSources RecordType = 6
)

// GroupRecord is a host's change of membership in one group, or its state.
type GroupRecord struct {
	Type    RecordType
	Group   netip.Addr
	Sources []netip.Addr
}

// JoinRecord joins a group, for all sources.
func JoinRecord(group netip.Addr) GroupRecord { return GroupRecord{Type: ToExclude, Group: group} }

// LeaveRecord leaves a group.
func LeaveRecord(group netip.Addr) GroupRecord { return GroupRecord{Type: ToInclude, Group: group} }

// Joins reports whether the record makes its sender a member, for some or all sources. BlockOldSources neither joins
// nor leaves.
func (r GroupRecord) Joins() bool {
	switch r.Type {
	case ModeIsExclude, ToExclude:
		return true
	case ModeIsInclude, ToInclude, AllowNewSources:
		return len(r.Sources) > 0
	}
	return false
}

// Leaves reports whether the record ends its sender's membership.
func (r GroupRecord) Leaves() bool {
	return (r.Type == ModeIsInclude || r.Type == ToInclude) && len(r.Sources) == 0
}

const (
	recType    = 0
	recAuxLen  = 1 // in words
	recSources = 2 // their number
	recGroup   = 4
	reportLen  = 8 // of a version 3 report of IGMP or a version 2 report of MLD without records
	reportNum  = 6
)

// recordAt returns the first record of b, with addresses of alen bytes, and its length.
// It reports false when the record, its sources or its auxiliary data are cut off.
func recordAt(b []byte, alen int) (r GroupRecord, n int, ok bool) {
	if len(b) < recGroup+alen {
		return r, 0, false
	}
	sources := int(binary.BigEndian.Uint16(b[recSources:]))
	first := recGroup + alen
	n = first + sources*alen + 4*int(b[recAuxLen])
	if n > len(b) {
		return r, 0, false
	}
	r = GroupRecord{Type: RecordType(b[recType]), Group: addrAt(b[recGroup:], alen)}
	r.Sources = addrsAt(b[first:], sources, alen)
	return r, n, true
}

// records returns the records of b, a report with addresses of alen bytes. It reports false when b is too
// short for the number of records it announces.
func records(b []byte, alen int) ([]GroupRecord, bool) {
	if len(b) < reportLen {
		return nil, false
	}
	var rs []GroupRecord
	num, b := int(binary.BigEndian.Uint16(b[reportNum:])), b[reportLen:]
	if num > len(b)/(recGroup+alen) {
		return nil, false
	}
	for range num {
		r, n, ok := recordAt(b, alen)
		if !ok {
			return nil, false
		}
		rs, b = append(rs, r), b[n:]
	}
	return rs, true
}

// recordsLen returns the length of a report with these records.
func recordsLen(rs []GroupRecord, alen int) int {
	n := reportLen
	for _, r := range rs {
		n += recGroup + alen + len(r.Sources)*alen
	}
	return n
}

// putRecords writes the number of records and the records to b, a report whose type is written.
func putRecords(b []byte, rs []GroupRecord, alen int) {
	binary.BigEndian.PutUint16(b[reportNum:], uint16(len(rs)))
	b = b[reportLen:]
	for _, r := range rs {
		b[recType], b[recAuxLen] = uint8(r.Type), 0
		binary.BigEndian.PutUint16(b[recSources:], uint16(len(r.Sources)))
		b = b[recGroup:]
		putAddr(b, r.Group, alen)
		b = b[alen:]
		for _, s := range r.Sources {
			putAddr(b, s, alen)
			b = b[alen:]
		}
	}
}

// knownRecords returns rs without those of unknown types, which must be ignored (RFC 3376 §4.2.12).
// It reports false when one of the others has no group address.
func knownRecords(rs []GroupRecord) (known []GroupRecord, groups bool) {
	for _, r := range rs {
		if r.Type < ModeIsInclude || r.Type > BlockOldSources {
			continue
		}
		if !isGroup(r.Group) {
			return nil, false
		}
		known = append(known, r)
	}
	return known, true
}

// isGroup reports whether a is a group address, and not an IPv4-mapped one.
func isGroup(a netip.Addr) bool { return a.IsMulticast() && !a.Is4In6() }

// addrAt returns the address of alen bytes, 4 or 16, at the start of b.
func addrAt(b []byte, alen int) netip.Addr {
	a, _ := netip.AddrFromSlice(b[:alen])
	return a
}

// addrsAt returns the n addresses at the start of b, nil when n is 0.
func addrsAt(b []byte, n, alen int) []netip.Addr {
	if n == 0 {
		return nil
	}
	as := make([]netip.Addr, n)
	for i := range as {
		as[i] = addrAt(b[i*alen:], alen)
	}
	return as
}

// putAddr writes a as alen bytes, 4 or 16, to b.
func putAddr(b []byte, a netip.Addr, alen int) {
	if alen == 4 {
		v := as4(a)
		copy(b, v[:])
		return
	}
	v := as16(a)
	copy(b, v[:])
}

// The codes of times in queries are numbers of units below 1<<bits, and above that floating point: a set top bit, 3
// bits of exponent, and a mantissa of bits-3 bits with a 1 in front of it (RFC 3376 §4.1.1, RFC 3810 §5.1.3).
const (
	igmpCodeBits = 7
	mldCodeBits  = 15
)

// decodeTime returns the number of units of a code.
func decodeTime(code uint16, bits int) int {
	if code < 1<<bits {
		return int(code)
	}
	mant := bits - 3
	exp := int(code>>mant) & 7
	return (int(code)&(1<<mant-1) | 1<<mant) << (exp + 3)
}

// encodeTime returns the code of the largest time that is not above n units. Negative numbers are 0.
func encodeTime(n, bits int) uint16 {
	if n < 1<<bits {
		return uint16(max(n, 0))
	}
	mant := bits - 3
	exp := 0
	for exp < 7 && n>>(exp+3) >= 1<<(mant+1) {
		exp++
	}
	m := min(n>>(exp+3), 1<<(mant+1)-1)
	return uint16(1<<bits | exp<<mant | m&(1<<mant-1))
}
