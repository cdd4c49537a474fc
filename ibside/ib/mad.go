// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// A MAD is the whole payload of a management datagram, always MADLen bytes: this header, then what its
// class says.
const (
	MADLen    = 256
	MADHdrLen = 24
)

// Management classes and their versions.
const (
	ClassSubnLID      = 0x01 // SMP routed by LID
	ClassSubnDirected = 0x81 // SMP with a directed route
	ClassSA           = 0x03 // subnet administration
	ClassCM           = 0x07 // communication management

	ClassVersionSA = 2
	ClassVersionCM = 2
)

// Methods (IBTA vol 1 §13.4.5, §15.2.2). The top bit marks an answer.
const (
	MethodGet        = 0x01
	MethodSet        = 0x02
	MethodSend       = 0x03
	MethodReport     = 0x06
	MethodGetTable   = 0x12
	MethodDelete     = 0x15
	MethodResponse   = 0x80
	MethodGetResp    = 0x81 // to Get and to Set
	MethodReportResp = 0x86
	MethodTableResp  = 0x92
	MethodDeleteResp = 0x95
)

// MADStatusBusy, in a status, asks for the same request again later. All other bits of the lower byte are errors that
// a repetition does not fix (IBTA vol 1 §13.4.7).
const MADStatusBusy = 0x0001

// MADStatusUnsupported, in a status, means that nobody there handles the request: the receiver does not know its method
// or attribute, or, as Linux answers it, no program has registered for its class (drivers/infiniband/core/mad.c,
// generate_unmatched_resp).
const MADStatusUnsupported = 0x000c

const madBaseVersion = 1

const (
	madBaseVer   = 0
	madClass     = 1
	madClassVer  = 2
	madMethod    = 3
	madStatus    = 4
	madClassSpec = 6
	madTID       = 8
	madAttrID    = 16
	madReserved  = 18
	madAttrMod   = 20
)

// MAD is a view of the header that begins every management datagram (IBTA vol 1 §13.4.2), in wire order.
// It aliases its packet.
type MAD []byte

// AsMAD returns the first MADHdrLen bytes of b as a MAD; false when b is too short.
func AsMAD(b []byte) (MAD, bool) {
	if len(b) < MADHdrLen {
		return nil, false
	}
	return MAD(b[:MADHdrLen:MADHdrLen]), true
}

// BaseVersion returns the version of this header; 1 is the only one there is.
func (h MAD) BaseVersion() uint8 { return h[madBaseVer] }

// Class returns the management class.
func (h MAD) Class() uint8 { return h[madClass] }

// ClassVersion returns the version of the class.
func (h MAD) ClassVersion() uint8 { return h[madClassVer] }

// Method returns the method, top bit included.
func (h MAD) Method() uint8 { return h[madMethod] }

// IsResponse reports whether h answers another MAD.
func (h MAD) IsResponse() bool { return h[madMethod]&MethodResponse != 0 }

// Status returns the status; the upper byte is the class's own.
func (h MAD) Status() uint16 { return binary.BigEndian.Uint16(h[madStatus:]) }

// ClassSpecific returns the 16 bits that directed-route SMPs use for hops.
func (h MAD) ClassSpecific() uint16 { return binary.BigEndian.Uint16(h[madClassSpec:]) }

// TID returns the transaction ID; an answer has that of its request.
func (h MAD) TID() uint64 { return binary.BigEndian.Uint64(h[madTID:]) }

// AttrID returns the attribute.
func (h MAD) AttrID() uint16 { return binary.BigEndian.Uint16(h[madAttrID:]) }

// AttrMod returns the attribute modifier.
func (h MAD) AttrMod() uint32 { return binary.BigEndian.Uint32(h[madAttrMod:]) }

// IsCM reports whether h is a MAD of the connection manager, with the known version and method.
func (h MAD) IsCM() bool {
	return h.BaseVersion() == madBaseVersion && h.Class() == ClassCM && h.ClassVersion() == ClassVersionCM &&
		h.Method() == MethodSend
}

// IsSA reports whether h is a MAD of subnet administration with the known version.
func (h MAD) IsSA() bool {
	return h.BaseVersion() == madBaseVersion && h.Class() == ClassSA && h.ClassVersion() == ClassVersionSA
}

// MADFields is a MAD header in host order. BaseVersion is always written 1.
type MADFields struct {
	Class, ClassVersion, Method uint8
	Status, ClassSpecific       uint16
	TID                         uint64
	AttrID                      uint16
	AttrMod                     uint32
}

// Fields returns all that PutMAD writes.
func (h MAD) Fields() MADFields {
	return MADFields{
		Class: h.Class(), ClassVersion: h.ClassVersion(), Method: h.Method(), Status: h.Status(),
		ClassSpecific: h.ClassSpecific(), TID: h.TID(), AttrID: h.AttrID(), AttrMod: h.AttrMod(),
	}
}

// PutMAD writes f into the first MADHdrLen bytes of b and returns the view.
func PutMAD(b []byte, f MADFields) MAD {
	h := MAD(b[:MADHdrLen:MADHdrLen])
	h[madBaseVer] = madBaseVersion
	h[madClass] = f.Class
	h[madClassVer] = f.ClassVersion
	h[madMethod] = f.Method
	binary.BigEndian.PutUint16(h[madStatus:], f.Status)
	binary.BigEndian.PutUint16(h[madClassSpec:], f.ClassSpecific)
	binary.BigEndian.PutUint64(h[madTID:], f.TID)
	binary.BigEndian.PutUint16(h[madAttrID:], f.AttrID)
	binary.BigEndian.PutUint16(h[madReserved:], 0)
	binary.BigEndian.PutUint32(h[madAttrMod:], f.AttrMod)
	return h
}
