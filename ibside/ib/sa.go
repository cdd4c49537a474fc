// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// A MAD of subnet administration (SA) is the MAD header, this header of SAHdrLen bytes, and SADataLen bytes of
// attribute: one record, or with GetTableResp a part of a list that RMPP carries in several MADs.
const (
	SAHdrLen  = 32
	SADataLen = MADLen - MADHdrLen - SAHdrLen
)

// Attributes of subnet administration (IBTA vol 1 §15.2).
const (
	AttrClassPortInfo  = 0x0001
	AttrNotice         = 0x0002
	AttrInformInfo     = 0x0003
	AttrPortInfoRecord = 0x0012
	AttrGUIDInfoRecord = 0x0030
	AttrServiceRecord  = 0x0031
	AttrPathRecord     = 0x0035
	AttrMCMemberRecord = 0x0038
)

// Statuses of subnet administration, in the MAD header (IBTA vol 1 §15.2, OpenSM ib_types.h).
const (
	SAStatusOK                 = 0x0000
	SAStatusNoResources        = 0x0100
	SAStatusRequestInvalid     = 0x0200 // no such group, or parameters that do not fit it
	SAStatusNoRecords          = 0x0300
	SAStatusTooManyRecords     = 0x0400
	SAStatusInvalidGID         = 0x0500
	SAStatusInsufficientFields = 0x0600
	SAStatusDenied             = 0x0700
)

// Selector says how an MTU, a rate or a lifetime in a query is compared; two bits before the value.
type Selector uint8

// The selectors.
const (
	SelectGreater Selector = 0
	SelectLess    Selector = 1
	SelectExactly Selector = 2
	SelectBest    Selector = 3 // the largest MTU or rate, the smallest lifetime
)

// RMPP flags and types (IBTA vol 1 §13.6.2).
const (
	RMPPFlagActive = 1
	RMPPFlagFirst  = 2
	RMPPFlagLast   = 4

	RMPPTypeData  = 1
	RMPPTypeAck   = 2
	RMPPTypeStop  = 3 // the peer ends the transfer for lack of resources
	RMPPTypeAbort = 4 // or for an error

	RMPPVersion = 1
)

// RMPP statuses of STOP and ABORT (IBTA vol 1 §13.6.2.3).
const (
	RMPPStatusResources  = 1
	RMPPStatusBadSegment = 120
)

const (
	saRMPPVersion = 0
	saRMPPType    = 1
	saRMPPFlags   = 2 // RRespTime 5, flags 3
	saRMPPStatus  = 3
	saRMPPData1   = 4
	saRMPPData2   = 8
	saSMKey       = 12
	saAttrOffset  = 20 // then reserved 16
	saComponents  = 24
)

// SAHeader is a view of the RMPP and SA headers (IBTA vol 1 §13.6.2, §15.2.1), in wire order. It begins right
// after the MAD header and aliases its packet.
type SAHeader []byte

// AsSAHeader returns the first SAHdrLen bytes of b, the bytes after a MAD header; false when b is too short.
func AsSAHeader(b []byte) (SAHeader, bool) {
	if len(b) < SAHdrLen {
		return nil, false
	}
	return SAHeader(b[:SAHdrLen:SAHdrLen]), true
}

// RMPPVersion returns 1 when RMPP is in use, else 0.
func (h SAHeader) RMPPVersion() uint8 { return h[saRMPPVersion] }

// RMPPType returns the type of an RMPP packet.
func (h SAHeader) RMPPType() uint8 { return h[saRMPPType] }

// RMPPFlags returns the flags. Without RMPPFlagActive the rest of the RMPP header means nothing.
func (h SAHeader) RMPPFlags() uint8 { return h[saRMPPFlags] & 7 }

// RMPPRespTime returns the expected response time, 4.096 us * 2^n.
func (h SAHeader) RMPPRespTime() uint8 { return h[saRMPPFlags] >> 3 }

// RMPPStatus returns the status of an RMPP transfer.
func (h SAHeader) RMPPStatus() uint8 { return h[saRMPPStatus] }

// RMPPData1 returns the segment number, counted from 1: a data packet's own, or the last one that an acknowledgement
// confirms.
func (h SAHeader) RMPPData1() uint32 { return binary.BigEndian.Uint32(h[saRMPPData1:]) }

// RMPPData2 returns, in the first data packet, the payload's length in bytes over all segments, and in the last one its
// own; the SA header counts in each segment. In an acknowledgement it is the last segment that may be sent.
func (h SAHeader) RMPPData2() uint32 { return binary.BigEndian.Uint32(h[saRMPPData2:]) }

// SMKey returns the SM_Key; a client that is not trusted sends 0.
func (h SAHeader) SMKey() uint64 { return binary.BigEndian.Uint64(h[saSMKey:]) }

// AttrOffsetWords returns the distance between two records of a list, in units of 8 bytes.
func (h SAHeader) AttrOffsetWords() uint16 { return binary.BigEndian.Uint16(h[saAttrOffset:]) }

// Components returns the component mask: which fields of the record count. Bit n is the record's n-th field.
func (h SAHeader) Components() uint64 { return binary.BigEndian.Uint64(h[saComponents:]) }

// SAFields is an SAHeader in host order. All zero but Components is a plain request.
type SAFields struct {
	RMPPVersion, RMPPType, RMPPFlags, RMPPRespTime, RMPPStatus uint8
	RMPPData1, RMPPData2                                       uint32
	SMKey                                                      uint64
	AttrOffsetWords                                            uint16
	Components                                                 uint64
}

// Fields returns all that PutSAHeader writes.
func (h SAHeader) Fields() SAFields {
	return SAFields{
		RMPPVersion: h.RMPPVersion(), RMPPType: h.RMPPType(), RMPPFlags: h.RMPPFlags(),
		RMPPRespTime: h.RMPPRespTime(), RMPPStatus: h.RMPPStatus(), RMPPData1: h.RMPPData1(), RMPPData2: h.RMPPData2(),
		SMKey: h.SMKey(), AttrOffsetWords: h.AttrOffsetWords(), Components: h.Components(),
	}
}

// PutSAHeader writes f into the first SAHdrLen bytes of b, the bytes after a MAD header, and returns the view.
func PutSAHeader(b []byte, f SAFields) SAHeader {
	h := SAHeader(b[:SAHdrLen:SAHdrLen])
	clear(h)
	h[saRMPPVersion] = f.RMPPVersion
	h[saRMPPType] = f.RMPPType
	h[saRMPPFlags] = f.RMPPRespTime<<3 | f.RMPPFlags&7
	h[saRMPPStatus] = f.RMPPStatus
	binary.BigEndian.PutUint32(h[saRMPPData1:], f.RMPPData1)
	binary.BigEndian.PutUint32(h[saRMPPData2:], f.RMPPData2)
	binary.BigEndian.PutUint64(h[saSMKey:], f.SMKey)
	binary.BigEndian.PutUint16(h[saAttrOffset:], f.AttrOffsetWords)
	binary.BigEndian.PutUint64(h[saComponents:], f.Components)
	return h
}
