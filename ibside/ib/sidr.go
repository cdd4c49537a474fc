// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// Service ID resolution (SIDR) finds the QPN and Q_Key of a datagram service: one SIDR_REQ to QP1, one SIDR_REP back.
// Both fill the MAD after its header; it has class ClassCM, method MethodSend and one of these attributes.
const (
	AttrSIDRReq = 0x0017
	AttrSIDRRep = 0x0018

	SIDRReqLen = MADLen - MADHdrLen
	SIDRRepLen = MADLen - MADHdrLen

	SIDRReqPrivateLen  = 216
	SIDRRepPrivateLen  = 136
	SIDRAdditionalLen  = 72
	sidrReqPrivate     = 16
	sidrRepAdditional  = 24
	sidrRepPrivateFrom = 96
)

// Statuses of a SIDR_REP (IBTA vol 1 §12.11.2).
const (
	SIDRStatusOK          = 0
	SIDRStatusUnsupported = 1 // nobody listens on that service ID
	SIDRStatusRejected    = 2
	SIDRStatusNoQP        = 3
	SIDRStatusRedirect    = 4
	SIDRStatusVersion     = 5
)

const (
	sidrRequestID = 0 // of both

	sidrReqPKey      = 4 // then reserved 16
	sidrReqServiceID = 8

	sidrRepStatus        = 4
	sidrRepAdditionalCnt = 5 // then reserved 16
	sidrRepQPN           = 8 // QPN 24, reserved 8
	sidrRepServiceID     = 12
	sidrRepQKey          = 20
)

// SIDRReq is a view of a SIDR_REQ (IBTA vol 1 §12.11.1), in wire order. It begins right after the MAD header and
// aliases its packet.
type SIDRReq []byte

// AsSIDRReq returns the first SIDRReqLen bytes of b, the bytes after a MAD header; false when b is too short.
func AsSIDRReq(b []byte) (SIDRReq, bool) {
	if len(b) < SIDRReqLen {
		return nil, false
	}
	return SIDRReq(b[:SIDRReqLen:SIDRReqLen]), true
}

// RequestID returns the requester's number for this request. Linux takes two pending requests from one SLID with the
// same number for one, so a bridge, whose LID many hosts share, must renumber.
func (h SIDRReq) RequestID() uint32 { return binary.BigEndian.Uint32(h[sidrRequestID:]) }

// PKey returns the partition of the request: that of the packet.
func (h SIDRReq) PKey() PKey { return PKey(binary.BigEndian.Uint16(h[sidrReqPKey:])) }

// ServiceID returns the service.
func (h SIDRReq) ServiceID() ServiceID {
	return ServiceID(binary.BigEndian.Uint64(h[sidrReqServiceID:]))
}

// Private returns all SIDRReqPrivateLen bytes of private data, aliased; with rdma_cm a CMAHeader begins it.
func (h SIDRReq) Private() []byte { return h[sidrReqPrivate:] }

// SIDRReqFields is a SIDR_REQ in host order.
type SIDRReqFields struct {
	RequestID uint32
	PKey      PKey
	ServiceID ServiceID
	Private   []byte // at most SIDRReqPrivateLen bytes; the rest is zero
}

// Fields returns all that PutSIDRReq writes. Private aliases h.
func (h SIDRReq) Fields() SIDRReqFields {
	return SIDRReqFields{RequestID: h.RequestID(), PKey: h.PKey(), ServiceID: h.ServiceID(), Private: h.Private()}
}

// PutSIDRReq writes f into the first SIDRReqLen bytes of b and returns the view. Too long private data is cut. It may
// already be in its place in b, but must not overlap b otherwise.
func PutSIDRReq(b []byte, f SIDRReqFields) SIDRReq {
	h := SIDRReq(b[:SIDRReqLen:SIDRReqLen])
	clear(h[copy(h[sidrReqPrivate:], f.Private)+sidrReqPrivate:])
	clear(h[:sidrReqPrivate])
	binary.BigEndian.PutUint32(h[sidrRequestID:], f.RequestID)
	binary.BigEndian.PutUint16(h[sidrReqPKey:], uint16(f.PKey))
	binary.BigEndian.PutUint64(h[sidrReqServiceID:], uint64(f.ServiceID))
	return h
}

// SIDRRep is a view of a SIDR_REP (IBTA vol 1 §12.11.2), in wire order. It begins right after the MAD header and
// aliases its packet.
type SIDRRep []byte

// AsSIDRRep returns the first SIDRRepLen bytes of b, the bytes after a MAD header; false when b is too short, or when
// the length of the additional information is more than there is room for.
func AsSIDRRep(b []byte) (SIDRRep, bool) {
	if len(b) < SIDRRepLen || b[sidrRepAdditionalCnt] > SIDRAdditionalLen {
		return nil, false
	}
	return SIDRRep(b[:SIDRRepLen:SIDRRepLen]), true
}

// RequestID returns that of the request.
func (h SIDRRep) RequestID() uint32 { return binary.BigEndian.Uint32(h[sidrRequestID:]) }

// Status returns one of the SIDRStatus constants, or a number above them.
func (h SIDRRep) Status() uint8 { return h[sidrRepStatus] }

// QPN returns the queue pair of the service; only status 0 gives one.
func (h SIDRRep) QPN() QPN { return QPN(binary.BigEndian.Uint32(h[sidrRepQPN:]) >> 8) }

// ServiceID returns that of the request.
func (h SIDRRep) ServiceID() ServiceID {
	return ServiceID(binary.BigEndian.Uint64(h[sidrRepServiceID:]))
}

// QKey returns the Q_Key of the service.
func (h SIDRRep) QKey() QKey { return QKey(binary.BigEndian.Uint32(h[sidrRepQKey:])) }

// Additional returns the additional information, as long as the reply says, aliased.
func (h SIDRRep) Additional() []byte {
	// The owner of the bytes may have changed them since AsSIDRRep.
	n := min(int(h[sidrRepAdditionalCnt]), SIDRAdditionalLen)
	return h[sidrRepAdditional : sidrRepAdditional+n : sidrRepAdditional+n]
}

// Private returns all SIDRRepPrivateLen bytes of private data, aliased.
func (h SIDRRep) Private() []byte { return h[sidrRepPrivateFrom:] }

// SIDRRepFields is a SIDR_REP in host order.
type SIDRRepFields struct {
	RequestID  uint32
	Status     uint8
	QPN        QPN
	ServiceID  ServiceID
	QKey       QKey
	Additional []byte // at most SIDRAdditionalLen bytes; the rest is zero
	Private    []byte // at most SIDRRepPrivateLen bytes; the rest is zero
}

// Fields returns all that PutSIDRRep writes. Additional and Private alias h.
func (h SIDRRep) Fields() SIDRRepFields {
	return SIDRRepFields{
		RequestID: h.RequestID(), Status: h.Status(), QPN: h.QPN(), ServiceID: h.ServiceID(), QKey: h.QKey(),
		Additional: h.Additional(), Private: h.Private(),
	}
}

// PutSIDRRep writes f into the first SIDRRepLen bytes of b and returns the view. What is too long is cut. Additional
// and Private may already be in their places in b, but must not overlap b otherwise.
func PutSIDRRep(b []byte, f SIDRRepFields) SIDRRep {
	h := SIDRRep(b[:SIDRRepLen:SIDRRepLen])
	n := copy(h[sidrRepAdditional:sidrRepPrivateFrom], f.Additional)
	clear(h[sidrRepAdditional+n : sidrRepPrivateFrom])
	clear(h[copy(h[sidrRepPrivateFrom:], f.Private)+sidrRepPrivateFrom:])
	clear(h[:sidrRepAdditional])
	binary.BigEndian.PutUint32(h[sidrRequestID:], f.RequestID)
	h[sidrRepStatus] = f.Status
	h[sidrRepAdditionalCnt] = uint8(n)
	binary.BigEndian.PutUint32(h[sidrRepQPN:], uint32(f.QPN)<<8)
	binary.BigEndian.PutUint64(h[sidrRepServiceID:], uint64(f.ServiceID))
	binary.BigEndian.PutUint32(h[sidrRepQKey:], uint32(f.QKey))
	return h
}
