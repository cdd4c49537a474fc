// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// A GUIDInfoRecord has one block of a port's GUID table: GUIDsPerBlock entries, of which the first of block 0 is the
// port's own and cannot be set. All others are alias GUIDs.
const (
	GUIDInfoRecordLen = 72
	GUIDsPerBlock     = 8
)

// Components of a GUIDInfoRecord (OpenSM ib_types.h). The SA wants LID and block number in each request.
const (
	GUIDInfoLID uint64 = 1 << iota
	GUIDInfoBlock
	_
	_
	GUIDInfoGUID0 // that of entry n is GUIDInfoGUID0 << n
)

const (
	guidInfoLID   = 0
	guidInfoBlock = 2 // then reserved 40
	guidInfoGUIDs = 8
)

// GUIDInfoRecord is a view of an SA GUIDInfoRecord (IBTA vol 1 §15.2.5.18), in wire order. It aliases its packet.
type GUIDInfoRecord []byte

// AsGUIDInfoRecord returns the first GUIDInfoRecordLen bytes of b; false when b is too short.
func AsGUIDInfoRecord(b []byte) (GUIDInfoRecord, bool) {
	if len(b) < GUIDInfoRecordLen {
		return nil, false
	}
	return GUIDInfoRecord(b[:GUIDInfoRecordLen:GUIDInfoRecordLen]), true
}

// LID returns the port.
func (r GUIDInfoRecord) LID() LID { return LID(binary.BigEndian.Uint16(r[guidInfoLID:])) }

// Block returns the number of the block.
func (r GUIDInfoRecord) Block() uint8 { return r[guidInfoBlock] }

// GUIDs returns the block's entries; 0 is an empty one.
func (r GUIDInfoRecord) GUIDs() [GUIDsPerBlock]GUID {
	var all [GUIDsPerBlock]GUID
	for i := range all {
		all[i] = GUID(binary.BigEndian.Uint64(r[guidInfoGUIDs+8*i:]))
	}
	return all
}

// GUIDInfoFields is a GUIDInfoRecord in host order.
type GUIDInfoFields struct {
	LID   LID
	Block uint8
	GUIDs [GUIDsPerBlock]GUID // in a Set, 0 asks the SA to choose one
}

// Fields returns all that PutGUIDInfoRecord writes.
func (r GUIDInfoRecord) Fields() GUIDInfoFields {
	return GUIDInfoFields{LID: r.LID(), Block: r.Block(), GUIDs: r.GUIDs()}
}

// PutGUIDInfoRecord writes f into the first GUIDInfoRecordLen bytes of b and returns the view.
func PutGUIDInfoRecord(b []byte, f GUIDInfoFields) GUIDInfoRecord {
	r := GUIDInfoRecord(b[:GUIDInfoRecordLen:GUIDInfoRecordLen])
	clear(r)
	binary.BigEndian.PutUint16(r[guidInfoLID:], uint16(f.LID))
	r[guidInfoBlock] = f.Block
	for i, g := range f.GUIDs {
		binary.BigEndian.PutUint64(r[guidInfoGUIDs+8*i:], uint64(g))
	}
	return r
}
