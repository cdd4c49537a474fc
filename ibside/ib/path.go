// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// PathRecordLen is the length of a PathRecord.
const PathRecordLen = 64

// Components of a PathRecord (IBTA vol 1 §15.2.5.16). The service ID counts as two, the reserved bits as one.
const (
	PathServiceIDHigh uint64 = 1 << iota
	PathServiceIDLow
	PathDGID
	PathSGID
	PathDLID
	PathSLID
	PathRawTraffic
	_
	PathFlowLabel
	PathHopLimit
	PathTClass
	PathReversible
	PathNumbPath
	PathPKey
	PathQoSClass
	PathSL
	PathMTUSelector
	PathMTU
	PathRateSelector
	PathRate
	PathLifeSelector
	PathLife

	// PathResolve asks for one reversible path between two GIDs.
	PathResolve = PathDGID | PathSGID | PathReversible | PathNumbPath
)

const (
	pathServiceID  = 0
	pathDGID       = 8
	pathSGID       = 24
	pathDLID       = 40
	pathSLID       = 42
	pathRawFlowHop = 44 // RawTraffic 1, reserved 3, FlowLabel 20, HopLimit 8
	pathTClass     = 48
	pathNumb       = 49 // Reversible 1, NumbPath 7
	pathPKey       = 50
	pathQoSSL      = 52 // QoSClass 12, SL 4
	pathMTU        = 54 // selector 2, MTU 6
	pathRate       = 55 // selector 2, rate 6
	pathLife       = 56 // selector 2, lifetime 6
	pathPreference = 57 // then reserved 48
)

// PathRecord is a view of an SA PathRecord (IBTA vol 1 §15.2.5.16), in wire order. It aliases its packet.
type PathRecord []byte

// AsPathRecord returns the first PathRecordLen bytes of b; false when b is too short.
func AsPathRecord(b []byte) (PathRecord, bool) {
	if len(b) < PathRecordLen {
		return nil, false
	}
	return PathRecord(b[:PathRecordLen:PathRecordLen]), true
}

func (r PathRecord) rawFlowHop() uint32 { return binary.BigEndian.Uint32(r[pathRawFlowHop:]) }

func (r PathRecord) qosSL() uint16 { return binary.BigEndian.Uint16(r[pathQoSSL:]) }

// ServiceID returns the service the path is wanted for.
func (r PathRecord) ServiceID() ServiceID {
	return ServiceID(binary.BigEndian.Uint64(r[pathServiceID:]))
}

// DGID returns the destination GID.
func (r PathRecord) DGID() GID { return GID(r[pathDGID:pathSGID]) }

// SGID returns the source GID.
func (r PathRecord) SGID() GID { return GID(r[pathSGID:pathDLID]) }

// DLID returns the destination LID.
func (r PathRecord) DLID() LID { return LID(binary.BigEndian.Uint16(r[pathDLID:])) }

// SLID returns the source LID.
func (r PathRecord) SLID() LID { return LID(binary.BigEndian.Uint16(r[pathSLID:])) }

// RawTraffic reports whether the path is for raw packets.
func (r PathRecord) RawTraffic() bool { return r[pathRawFlowHop]&0x80 != 0 }

// FlowLabel returns the flow label for the GRH, 20 bits.
func (r PathRecord) FlowLabel() uint32 { return r.rawFlowHop() >> 8 & flowLabels }

// HopLimit returns the hop limit for the GRH.
func (r PathRecord) HopLimit() uint8 { return uint8(r.rawFlowHop()) }

// TClass returns the traffic class for the GRH.
func (r PathRecord) TClass() uint8 { return r[pathTClass] }

// Reversible reports whether answers may take the same path.
func (r PathRecord) Reversible() bool { return r[pathNumb]&0x80 != 0 }

// NumbPath returns, in a query, how many paths are wanted at most.
func (r PathRecord) NumbPath() uint8 { return r[pathNumb] & 0x7f }

// PKey returns the partition.
func (r PathRecord) PKey() PKey { return PKey(binary.BigEndian.Uint16(r[pathPKey:])) }

// QoSClass returns the QoS class, 12 bits.
func (r PathRecord) QoSClass() uint16 { return r.qosSL() >> 4 }

// SL returns the service level.
func (r PathRecord) SL() SL { return SL(r.qosSL() & 0x0f) }

// MTUSelector returns the selector of MTU.
func (r PathRecord) MTUSelector() Selector { return Selector(r[pathMTU] >> 6) }

// MTU returns the path's MTU.
func (r PathRecord) MTU() MTU { return MTU(r[pathMTU] & 0x3f) }

// RateSelector returns the selector of Rate.
func (r PathRecord) RateSelector() Selector { return Selector(r[pathRate] >> 6) }

// Rate returns the path's rate.
func (r PathRecord) Rate() Rate { return Rate(r[pathRate] & 0x3f) }

// LifeSelector returns the selector of Life.
func (r PathRecord) LifeSelector() Selector { return Selector(r[pathLife] >> 6) }

// Life returns the packet lifetime, 4.096 us * 2^n.
func (r PathRecord) Life() uint8 { return r[pathLife] & 0x3f }

// Preference orders the paths of an answer; 0 is best.
func (r PathRecord) Preference() uint8 { return r[pathPreference] }

// PathFields is a PathRecord in host order.
type PathFields struct {
	ServiceID    ServiceID
	DGID, SGID   GID
	DLID, SLID   LID
	RawTraffic   bool
	FlowLabel    uint32
	HopLimit     uint8
	TClass       uint8
	Reversible   bool
	NumbPath     uint8
	PKey         PKey
	QoSClass     uint16
	SL           SL
	MTUSelector  Selector
	MTU          MTU
	RateSelector Selector
	Rate         Rate
	LifeSelector Selector
	Life         uint8 // 4.096 us * 2^Life
	Preference   uint8
}

// Fields returns all that PutPathRecord writes.
func (r PathRecord) Fields() PathFields {
	return PathFields{
		ServiceID: r.ServiceID(), DGID: r.DGID(), SGID: r.SGID(), DLID: r.DLID(), SLID: r.SLID(),
		RawTraffic: r.RawTraffic(), FlowLabel: r.FlowLabel(), HopLimit: r.HopLimit(), TClass: r.TClass(),
		Reversible: r.Reversible(), NumbPath: r.NumbPath(), PKey: r.PKey(), QoSClass: r.QoSClass(), SL: r.SL(),
		MTUSelector: r.MTUSelector(), MTU: r.MTU(), RateSelector: r.RateSelector(), Rate: r.Rate(),
		LifeSelector: r.LifeSelector(), Life: r.Life(), Preference: r.Preference(),
	}
}

// PutPathRecord writes f into the first PathRecordLen bytes of b and returns the view. Too large values lose their
// upper bits.
func PutPathRecord(b []byte, f PathFields) PathRecord {
	r := PathRecord(b[:PathRecordLen:PathRecordLen])
	clear(r)
	binary.BigEndian.PutUint64(r[pathServiceID:], uint64(f.ServiceID))
	copy(r[pathDGID:], f.DGID[:])
	copy(r[pathSGID:], f.SGID[:])
	binary.BigEndian.PutUint16(r[pathDLID:], uint16(f.DLID))
	binary.BigEndian.PutUint16(r[pathSLID:], uint16(f.SLID))
	binary.BigEndian.PutUint32(r[pathRawFlowHop:], f.FlowLabel&flowLabels<<8|uint32(f.HopLimit))
	r[pathRawFlowHop] |= bit(f.RawTraffic, 0x80)
	r[pathTClass] = f.TClass
	r[pathNumb] = bit(f.Reversible, 0x80) | f.NumbPath&0x7f
	binary.BigEndian.PutUint16(r[pathPKey:], uint16(f.PKey))
	binary.BigEndian.PutUint16(r[pathQoSSL:], f.QoSClass<<4|uint16(f.SL)&0x0f)
	r[pathMTU] = selected(f.MTUSelector, uint8(f.MTU))
	r[pathRate] = selected(f.RateSelector, uint8(f.Rate))
	r[pathLife] = selected(f.LifeSelector, f.Life)
	r[pathPreference] = f.Preference
	return r
}
