// SPDX-License-Identifier: Apache-2.0

package ib

// MinLen and UDMaxLen bound a native packet, LRH to VCRC: a BTH alone, which some transports send; or a datagram with
// everything and a payload of 4096 bytes.
const (
	MinLen   = LRHLen + BTHLen + ICRCLen + VCRCLen
	UDMaxLen = LRHLen + GRHLen + BTHLen + DETHLen + ImmDtLen + 4096 + ICRCLen + VCRCLen
)

// Fault says what is wrong with a packet, by the name of its drop counter. "" is no fault.
type Fault string

// The faults that ParsePacket finds.
const (
	FaultNone        Fault = ""
	FaultLRHHdr      Fault = "lrh_hdr"      // truncated; LVer; an invalid DLID or SLID; VL 15 for another QP than 0
	FaultIBRaw       Fault = "ib_raw"       // LNH 0 or 1: no IBA transport
	FaultLRHLen      Fault = "lrh_len"      // PktLen is not the packet's length, or too small for any packet
	FaultGRHHdr      Fault = "grh_hdr"      // truncated; IPVer; NxtHdr; a multicast SGID
	FaultGRHLen      Fault = "grh_len"      // PayLen disagrees with PktLen, or too small for any packet
	FaultVCRC        Fault = "vcrc"         // wrong VCRC
	FaultICRC        Fault = "icrc"         // wrong ICRC
	FaultBTHTVer     Fault = "bth_tver"     // transport version
	FaultBTHOpCode   Fault = "bth_opcode"   // not a datagram
	FaultCNP         Fault = "cnp_rx"       // a congestion notification: not an error, but not a datagram
	FaultBTHLen      Fault = "bth_len"      // DETH or immediate data is missing
	FaultBTHPad      Fault = "bth_pad"      // more pad than bytes
	FaultMcastIncons Fault = "mcast_incons" // DLID, DGID and DestQP do not agree on multicast or unicast
)

// Packet is one native datagram in host order, without the fields that follow from others. The BTH's M bit is not a
// field: it has no meaning for datagrams, and AppendTo sets it as HCAs do.
type Packet struct {
	VL         uint8
	SL         SL
	SLID, DLID LID
	GRH        *GRHFields // nil: there is none (LNH 2). AppendTo does not read its PayLen
	OpCode     uint8      // OpUDSendOnly or OpUDSendOnlyImm
	Solicited  bool
	FECN, BECN bool
	PKey       PKey
	DestQP     QPN
	PSN        uint32
	QKey       QKey
	SrcQP      QPN
	Imm        uint32 // carried with OpUDSendOnlyImm only
	Payload    []byte // at most 4096 bytes
}

// AppendTo appends the packet to b, LRH to VCRC, with lengths, pad and both CRCs, and returns the longer slice.
// It does not check them: values too large for their fields lose their upper bits.
func (p *Packet) AppendTo(b []byte) []byte {
	start, pad := len(b), -len(p.Payload)&3
	transport := BTHLen + DETHLen + len(p.Payload) + pad + ICRCLen
	if p.OpCode == OpUDSendOnlyImm {
		transport += ImmDtLen
	}
	n := LRHLen + transport
	if p.GRH != nil {
		n += GRHLen
	}
	b = append(b, make([]byte, n+VCRCLen)...)
	out := b[start:]
	p.putHeaders(out, n, transport, pad)
	copy(out[n-ICRCLen-pad-len(p.Payload):], p.Payload)
	PutCRCs(out)
	return b
}

// putHeaders writes all up to the payload. n is the length without VCRC, transport that from the BTH to the ICRC.
func (p *Packet) putHeaders(b []byte, n, transport, pad int) {
	lrh := LRHFields{VL: p.VL, SL: p.SL, LNH: LNHLocal, DLID: p.DLID, SLID: p.SLID, PktLenWords: n / 4}
	if p.GRH != nil {
		lrh.LNH = LNHGlobal
		grh := *p.GRH
		grh.PayLen = transport
		PutGRH(b[LRHLen:], grh)
	}
	PutLRH(b, lrh)
	b = b[n-transport:]
	PutBTH(b, BTHFields{
		OpCode: p.OpCode, Solicited: p.Solicited, MigReq: true, PadCnt: pad, PKey: p.PKey,
		FECN: p.FECN, BECN: p.BECN, DestQP: p.DestQP, PSN: p.PSN,
	})
	PutDETH(b[BTHLen:], DETHFields{QKey: p.QKey, SrcQP: p.SrcQP})
	if p.OpCode == OpUDSendOnlyImm {
		PutImmDt(b[BTHLen+DETHLen:], p.Imm)
	}
}

// ParsePacket reads one native datagram, LRH to VCRC, exactly as long as its LRH says. Payload aliases b. It checks
// lengths first, then CRCs, then contents, so that transmission errors are not reported as errors of the sender. With a
// Fault the Packet is zero. The receiver checks Q_Key, P_Key, QP 0 and 1, and MTU.
func ParsePacket(b []byte) (Packet, Fault) { return parsePacket(b, checkCRCs) }

// ParseChecked is ParsePacket for a packet whose VCRC the last hop has checked.
func ParseChecked(b []byte) (Packet, Fault) { return parsePacket(b, checkICRC) }

func parsePacket(b []byte, checkCRCs func([]byte) Fault) (Packet, Fault) {
	lrh, fault := parseLRH(b)
	if fault != FaultNone {
		return Packet{}, fault
	}
	p := Packet{VL: lrh.VL(), SL: lrh.SL(), SLID: lrh.SLID(), DLID: lrh.DLID()}
	end := len(b) - ICRCLen - VCRCLen
	transport := b[LRHLen:end]
	if lrh.LNH() == LNHGlobal {
		grh, fault := parseGRH(b[LRHLen : len(b)-VCRCLen])
		if fault != FaultNone {
			return Packet{}, fault
		}
		f := grh.Fields()
		p.GRH = &f
		transport = b[LRHLen+GRHLen : end]
	}
	if fault := checkCRCs(b); fault != FaultNone {
		return Packet{}, fault
	}
	if fault := p.parseTransport(transport); fault != FaultNone {
		return Packet{}, fault
	}
	if fault := p.checkRoute(); fault != FaultNone {
		return Packet{}, fault
	}
	return p, FaultNone
}

// parseLRH also makes sure that b holds a BTH and both CRCs behind an LRH with no GRH.
func parseLRH(b []byte) (LRH, Fault) {
	h, ok := AsLRH(b)
	if !ok || h.LVer() != 0 {
		return nil, FaultLRHHdr
	}
	if h.LNH() != LNHLocal && h.LNH() != LNHGlobal {
		return nil, FaultIBRaw
	}
	if len(b) != 4*h.PktLenWords()+VCRCLen || len(b) < MinLen {
		return nil, FaultLRHLen
	}
	if s := h.SLID(); h.DLID() == 0 || !s.IsUnicast() && s != LIDPermissive {
		return nil, FaultLRHHdr
	}
	return h, FaultNone
}

// parseGRH takes the bytes from the GRH to the end of the ICRC.
func parseGRH(b []byte) (GRH, Fault) {
	h, ok := AsGRH(b)
	if !ok || !h.IsBTHNext() || h.SGID().IsIBMulticast() {
		return nil, FaultGRHHdr
	}
	if h.PayLen() != len(b)-GRHLen || h.PayLen() < BTHLen+ICRCLen {
		return nil, FaultGRHLen
	}
	return h, FaultNone
}

func checkCRCs(b []byte) Fault {
	n := len(b) - VCRCLen
	if v, _ := VCRCField(b[n:]); v != VCRC(b[:n]) {
		return FaultVCRC
	}
	return checkICRC(b)
}

func checkICRC(b []byte) Fault {
	n := len(b) - VCRCLen - ICRCLen
	if c, _ := ICRCField(b[n:]); c != ICRCIB(b[:n]) {
		return FaultICRC
	}
	return FaultNone
}

// parseTransport takes the bytes from the BTH to the last pad byte, at least a BTH.
func (p *Packet) parseTransport(b []byte) Fault {
	bth, _ := AsBTH(b)
	if bth.TVer() != 0 {
		return FaultBTHTVer
	}
	switch bth.OpCode() {
	case OpUDSendOnly, OpUDSendOnlyImm:
	case OpCN, OpCNP:
		return FaultCNP
	default:
		return FaultBTHOpCode
	}
	deth, ok := AsDETH(b[BTHLen:])
	if !ok {
		return FaultBTHLen
	}
	rest := b[BTHLen+DETHLen:]
	if bth.OpCode() == OpUDSendOnlyImm {
		imm, ok := AsImmDt(rest)
		if !ok {
			return FaultBTHLen
		}
		p.Imm, rest = imm.Value(), rest[ImmDtLen:]
	}
	if bth.PadCnt() > len(rest) {
		return FaultBTHPad
	}
	p.Payload = rest[: len(rest)-bth.PadCnt() : len(rest)-bth.PadCnt()]
	p.OpCode, p.Solicited, p.FECN, p.BECN = bth.OpCode(), bth.Solicited(), bth.FECN(), bth.BECN()
	p.PKey, p.DestQP, p.PSN = bth.PKey(), bth.DestQP(), bth.PSN()
	p.QKey, p.SrcQP = deth.QKey(), deth.SrcQP()
	return FaultNone
}

// checkRoute checks that the headers agree on the destination.
func (p *Packet) checkRoute() Fault {
	if p.VL == VLSubnetManagement && p.DestQP != QP0 {
		return FaultLRHHdr
	}
	multicast := p.DLID.IsMulticast()
	if multicast != (p.DestQP == QPMulticast) || multicast && p.GRH == nil {
		return FaultMcastIncons
	}
	if p.GRH != nil && multicast != p.GRH.DGID.IsIBMulticast() {
		return FaultMcastIncons
	}
	return FaultNone
}
