// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// Bridges of a fleet send each other messages as MADs of a vendor's class (IBTA vol 1 §16.5, vendor classes of range 2):
// QP1 is there on both fabrics, and takes them without a connection.
//
//	 0  MAD header: method Send, attribute AttrBridgeMessage, attribute modifier: the data's length
//	24  RMPP header, not used
//	36  reserved 8, OUI 24
//	40  data, zero behind its length
const (
	// ClassBridge is one of the 32 classes that anybody may use who has an OUI. ibping and ibsysstat use 0x32 and 0x33.
	ClassBridge        = 0x4b
	ClassVersionBridge = 1
	// OUIBridge is locally administered (IEEE 802 §8.4): it is nobody's, and a class's user is told by both.
	OUIBridge uint32 = 0x024357

	AttrBridgeMessage = 0x0001

	// BridgeDataLen is the most data of one message.
	BridgeDataLen = MADLen - bridgeData

	bridgeRMPP = MADHdrLen
	bridgeOUI  = 36
	bridgeData = 40
)

// BridgeMAD is a view of a whole MAD with a message of a bridge, in wire order. It aliases its packet.
type BridgeMAD []byte

// AsBridgeMAD returns the first MADLen bytes of b; false when b is too short, when it is another MAD, or when the length
// of the data is more than there is room for.
func AsBridgeMAD(b []byte) (BridgeMAD, bool) {
	h, ok := AsMAD(b)
	if !ok || len(b) < MADLen || h.BaseVersion() != madBaseVersion || h.Class() != ClassBridge || h.ClassVersion() != ClassVersionBridge ||
		h.Method() != MethodSend || h.AttrID() != AttrBridgeMessage || h.AttrMod() > BridgeDataLen ||
		binary.BigEndian.Uint32(b[bridgeOUI:])&0xffffff != OUIBridge {
		return nil, false
	}
	return BridgeMAD(b[:MADLen:MADLen]), true
}

// Data returns the message, aliased.
func (h BridgeMAD) Data() []byte {
	// The owner of the bytes may have changed them since AsBridgeMAD.
	n := min(MAD(h).AttrMod(), BridgeDataLen)
	return h[bridgeData : bridgeData+n : bridgeData+n]
}

// BridgeMADFields is a BridgeMAD in host order.
type BridgeMADFields struct {
	TID  uint64 // by which a kernel tells the MADs that it is to send apart; it changes the upper half
	Data []byte // at most BridgeDataLen bytes
}

// PutBridgeMAD writes f into the first MADLen bytes of b and returns the view. Too long data is cut. It must not overlap b.
func PutBridgeMAD(b []byte, f BridgeMADFields) BridgeMAD {
	h := BridgeMAD(b[:MADLen:MADLen])
	n := copy(h[bridgeData:], f.Data)
	PutMAD(h, MADFields{
		Class: ClassBridge, ClassVersion: ClassVersionBridge, Method: MethodSend, TID: f.TID, AttrID: AttrBridgeMessage, AttrMod: uint32(n),
	})
	clear(h[bridgeRMPP:bridgeOUI])
	binary.BigEndian.PutUint32(h[bridgeOUI:], OUIBridge)
	clear(h[bridgeData+n:])
	return h
}
