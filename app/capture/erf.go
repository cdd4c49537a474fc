// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"causeway/ibside/ib"
	"causeway/lcore"
)

const erfHeader = 16

// erf makes an ERF record of a message. length is what it would be had the payload not been cut.
func erf(s *lcore.Sight) (record []byte, length int) {
	p := packet(s)
	missing := s.Len - len(s.Data)
	if missing > 0 {
		p.Payload = append(append([]byte(nil), s.Data...), make([]byte, missing)...)
	}
	whole := p.AppendTo(nil)
	record = ib.AppendERF(nil, s.Time, whole)
	length = len(record)
	if missing > 0 {
		behind := -s.Len&3 + ib.ICRCLen + ib.VCRCLen // the payload
		record = record[:erfHeader+len(whole)-behind-missing]
	}
	return record, length
}

// packet puts in front of a payload what its door said of it.
func packet(s *lcore.Sight) ib.Packet {
	m := s.IB
	p := ib.Packet{SL: m.SL, SLID: m.SLID, DLID: m.DLID, OpCode: ib.OpUDSendOnly, Solicited: m.Solicited, FECN: m.FECN, PKey: m.PKey,
		QKey: m.QKey, Payload: s.Data, DestQP: m.QPN, SrcQP: m.Peer}
	if s.Point == lcore.Sent {
		p.DestQP, p.SrcQP = m.Peer, m.QPN
	} else if m.DGID.IsMulticast() {
		p.DestQP = ib.QPMulticast
	}
	if m.HasImm {
		p.OpCode, p.Imm = ib.OpUDSendOnlyImm, m.Imm
	}
	if m.GRH || m.DGID != (ib.GID{}) && m.SGID != (ib.GID{}) && s.Point != lcore.Sent {
		p.GRH = &ib.GRHFields{TClass: m.TClass, FlowLabel: m.FlowLabel, HopLimit: m.HopLimit, SGID: m.SGID, DGID: m.DGID}
	}
	return p
}
