// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// MCMemberRecordLen is the length of an MCMemberRecord; in a list each takes 56 bytes.
const MCMemberRecordLen = 52

// Components of an MCMemberRecord (IBTA vol 1 §15.2.5.17).
const (
	MCMemberMGID uint64 = 1 << iota
	MCMemberPortGID
	MCMemberQKey
	MCMemberMLID
	MCMemberMTUSelector
	MCMemberMTU
	MCMemberTClass
	MCMemberPKey
	MCMemberRateSelector
	MCMemberRate
	MCMemberLifeSelector
	MCMemberLife
	MCMemberSL
	MCMemberFlowLabel
	MCMemberHopLimit
	MCMemberScope
	MCMemberJoinState
	MCMemberProxyJoin

	// MCMemberJoin is required to join or leave an existing group.
	MCMemberJoin = MCMemberMGID | MCMemberPortGID | MCMemberJoinState
	// MCMemberCreate is required in a join that may create the group (OpenSM osm_sa_mcmember_record.c).
	// Linux rdma_cm sends it.
	MCMemberCreate = MCMemberJoin | MCMemberQKey | MCMemberTClass | MCMemberPKey | MCMemberSL | MCMemberFlowLabel
)

// Join states, which may be ORed. A port must join to receive (full) or to have its packets routed (send-only).
const (
	JoinFull         = 1
	JoinNonMember    = 2
	JoinSendOnly     = 4 // cannot create a group
	JoinSendOnlyFull = 8 // can create one; the SA must announce support in its ClassPortInfo
)

// JoinStateOf is how a port becomes a member (IBTA vol 1 §15.2.5.17). Full members and non-members that receive get
// messages. A send-only full member also creates the group if needed; a non-member neither creates it nor keeps it
// alive.
func JoinStateOf(receive, nonMember bool) uint8 {
	switch {
	case nonMember && receive:
		return JoinNonMember
	case nonMember:
		return JoinSendOnly
	case receive:
		return JoinFull
	}
	return JoinSendOnlyFull
}

const (
	mcMGID      = 0
	mcPortGID   = 16
	mcQKey      = 32
	mcMLID      = 36
	mcMTU       = 38 // selector 2, MTU 6
	mcTClass    = 39
	mcPKey      = 40
	mcRate      = 42 // selector 2, rate 6
	mcLife      = 43 // selector 2, lifetime 6
	mcSLFlowHop = 44 // SL 4, FlowLabel 20, HopLimit 8
	mcScopeJoin = 48 // scope 4, join state 4
	mcProxyJoin = 49 // ProxyJoin 1, reserved 23
)

// MCMemberRecord is a view of an SA MCMemberRecord (IBTA vol 1 §15.2.5.17), in wire order: a multicast group and one
// port's membership. It aliases its packet.
type MCMemberRecord []byte

// AsMCMemberRecord returns the first MCMemberRecordLen bytes of b; false when b is too short.
func AsMCMemberRecord(b []byte) (MCMemberRecord, bool) {
	if len(b) < MCMemberRecordLen {
		return nil, false
	}
	return MCMemberRecord(b[:MCMemberRecordLen:MCMemberRecordLen]), true
}

func (r MCMemberRecord) slFlowHop() uint32 { return binary.BigEndian.Uint32(r[mcSLFlowHop:]) }

// MGID returns the group.
func (r MCMemberRecord) MGID() GID { return GID(r[mcMGID:mcPortGID]) }

// PortGID returns the member. The SA shows zero to clients it does not trust.
func (r MCMemberRecord) PortGID() GID { return GID(r[mcPortGID:mcQKey]) }

// QKey returns the group's Q_Key.
func (r MCMemberRecord) QKey() QKey { return QKey(binary.BigEndian.Uint32(r[mcQKey:])) }

// MLID returns the multicast LID the group's packets go to; several groups may share one.
func (r MCMemberRecord) MLID() LID { return LID(binary.BigEndian.Uint16(r[mcMLID:])) }

// MTUSelector returns the selector of MTU.
func (r MCMemberRecord) MTUSelector() Selector { return Selector(r[mcMTU] >> 6) }

// MTU returns the group's MTU.
func (r MCMemberRecord) MTU() MTU { return MTU(r[mcMTU] & 0x3f) }

// TClass returns the traffic class for the GRH.
func (r MCMemberRecord) TClass() uint8 { return r[mcTClass] }

// PKey returns the group's partition.
func (r MCMemberRecord) PKey() PKey { return PKey(binary.BigEndian.Uint16(r[mcPKey:])) }

// RateSelector returns the selector of Rate.
func (r MCMemberRecord) RateSelector() Selector { return Selector(r[mcRate] >> 6) }

// Rate returns the group's rate.
func (r MCMemberRecord) Rate() Rate { return Rate(r[mcRate] & 0x3f) }

// LifeSelector returns the selector of Life.
func (r MCMemberRecord) LifeSelector() Selector { return Selector(r[mcLife] >> 6) }

// Life returns the packet lifetime, 4.096 us * 2^n.
func (r MCMemberRecord) Life() uint8 { return r[mcLife] & 0x3f }

// SL returns the service level.
func (r MCMemberRecord) SL() SL { return SL(r[mcSLFlowHop] >> 4) }

// FlowLabel returns the flow label for the GRH, 20 bits.
func (r MCMemberRecord) FlowLabel() uint32 { return r.slFlowHop() >> 8 & flowLabels }

// HopLimit returns the hop limit for the GRH.
func (r MCMemberRecord) HopLimit() uint8 { return uint8(r.slFlowHop()) }

// Scope returns the group's scope, 4 bits.
func (r MCMemberRecord) Scope() uint8 { return r[mcScopeJoin] >> 4 }

// JoinState returns the membership, Join constants ORed.
func (r MCMemberRecord) JoinState() uint8 { return r[mcScopeJoin] & 0x0f }

// ProxyJoin reports whether another port joined for this one.
func (r MCMemberRecord) ProxyJoin() bool { return r[mcProxyJoin]&0x80 != 0 }

// MCMemberFields is an MCMemberRecord in host order.
type MCMemberFields struct {
	MGID, PortGID GID
	QKey          QKey
	MLID          LID
	MTUSelector   Selector
	MTU           MTU
	TClass        uint8
	PKey          PKey
	RateSelector  Selector
	Rate          Rate
	LifeSelector  Selector
	Life          uint8 // 4.096 us * 2^Life
	SL            SL
	FlowLabel     uint32
	HopLimit      uint8
	Scope         uint8
	JoinState     uint8
	ProxyJoin     bool
}

// Fields returns all that PutMCMemberRecord writes.
func (r MCMemberRecord) Fields() MCMemberFields {
	return MCMemberFields{
		MGID: r.MGID(), PortGID: r.PortGID(), QKey: r.QKey(), MLID: r.MLID(),
		MTUSelector: r.MTUSelector(), MTU: r.MTU(), TClass: r.TClass(), PKey: r.PKey(),
		RateSelector: r.RateSelector(), Rate: r.Rate(), LifeSelector: r.LifeSelector(), Life: r.Life(),
		SL: r.SL(), FlowLabel: r.FlowLabel(), HopLimit: r.HopLimit(),
		Scope: r.Scope(), JoinState: r.JoinState(), ProxyJoin: r.ProxyJoin(),
	}
}

// PutMCMemberRecord writes f into the first MCMemberRecordLen bytes of b and returns the view. Too large values lose
// their upper bits.
func PutMCMemberRecord(b []byte, f MCMemberFields) MCMemberRecord {
	r := MCMemberRecord(b[:MCMemberRecordLen:MCMemberRecordLen])
	clear(r)
	copy(r[mcMGID:], f.MGID[:])
	copy(r[mcPortGID:], f.PortGID[:])
	binary.BigEndian.PutUint32(r[mcQKey:], uint32(f.QKey))
	binary.BigEndian.PutUint16(r[mcMLID:], uint16(f.MLID))
	r[mcMTU] = selected(f.MTUSelector, uint8(f.MTU))
	r[mcTClass] = f.TClass
	binary.BigEndian.PutUint16(r[mcPKey:], uint16(f.PKey))
	r[mcRate] = selected(f.RateSelector, uint8(f.Rate))
	r[mcLife] = selected(f.LifeSelector, f.Life)
	binary.BigEndian.PutUint32(r[mcSLFlowHop:], uint32(f.SL)<<28|f.FlowLabel&flowLabels<<8|uint32(f.HopLimit))
	r[mcScopeJoin] = f.Scope<<4 | f.JoinState&0x0f
	r[mcProxyJoin] = bit(f.ProxyJoin, 0x80)
	return r
}

// selected joins a selector and its 6-bit value.
func selected(s Selector, v uint8) uint8 { return uint8(s)<<6 | v&0x3f }
