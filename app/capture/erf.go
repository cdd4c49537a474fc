// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"causeway/ibside/ib"
	"causeway/lcore"
)

const erfHeader = 16

// erf returns a message as an ERF record. length is the record's length without truncation.
func erf(s *lcore.MirroredPacket) (record []byte, length int) {
	p := packet(s)
	missing := s.Len - len(s.Data)
	if missing > 0 {
		p.Payload = append(append([]byte(nil), s.Data...), make([]byte, missing)...)
	}
	whole := p.AppendTo(nil)
	record = ib.AppendERF(nil, s.Time, whole)
	length = len(record)
	if missing > 0 {
		trailer := -s.Len&3 + ib.ICRCLen + ib.VCRCLen
		record = record[:erfHeader+len(whole)-trailer-missing]
	}
	return record, length
}

// packet returns a message with headers rebuilt from its metadata.
func packet(s *lcore.MirroredPacket) ib.Packet {
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
