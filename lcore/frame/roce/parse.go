// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// Parse parses a frame. The Packet's Payload aliases b. An error names the first thing that is wrong. It checks the
// ICRC, but no policy.
func Parse(b []byte) (Packet, error) {
	f, fault := frame.Open(b)
	if fault != "" {
		return Packet{}, fmt.Errorf("roce: %v", fault)
	}
	p := Packet{Dst: f.Eth.Dst(), Src: f.Eth.Src(), Version: 2}
	if f.Tag != nil {
		tag := f.Tag.Fields()
		p.Tag = &tag
	}
	transport, err := p.parseNetwork(f)
	if err != nil {
		return p, err
	}
	return p, p.parseTransport(transport)
}

// parseNetwork returns what follows IP and UDP, or the GRH, up to the ICRC, which is right.
func (p *Packet) parseNetwork(f frame.Frame) ([]byte, error) {
	if f.Type == frame.TypeRoCEv1 {
		return p.parseGRH(f.Payload)
	}
	if !f.IsIP() || f.Protocol() != frame.ProtoUDP {
		return nil, errors.New("roce: neither UDP nor a GRH")
	}
	udp, payload, fault := f.UDP()
	if fault != "" {
		return nil, fmt.Errorf("roce: %v", fault)
	}
	if udp.DstPort() != frame.PortRoCEv2 {
		return nil, fmt.Errorf("roce: UDP port %d is not RoCE's", udp.DstPort())
	}
	p.SrcIP, p.DstIP, p.SrcPort, p.UDPChecksum = f.Src(), f.Dst(), udp.SrcPort(), udp.Checksum() != 0
	var head []byte
	if f.IPv4 != nil {
		head = f.IPv4
		p.TClass, p.HopLimit = f.IPv4.TOS(), f.IPv4.TTL()
	} else {
		head = f.IPv6
		p.TClass, p.HopLimit, p.FlowLabel = f.IPv6.TrafficClass(), f.IPv6.HopLimit(), f.IPv6.FlowLabel()
	}
	if len(payload) < ib.ICRCLen {
		return nil, errors.New("roce: no room for an ICRC")
	}
	whole := append(append([]byte(nil), head...), f.Payload...)
	return payload[:len(payload)-ib.ICRCLen], checkICRC(whole, ib.ICRCRoCEv2)
}

func (p *Packet) parseGRH(b []byte) ([]byte, error) {
	grh, ok := ib.AsGRH(b)
	if !ok || grh.IPVer() != 6 || !grh.IsBTHNext() {
		return nil, errors.New("roce: no GRH")
	}
	n := ib.GRHLen + grh.PayLen()
	if n > len(b) || grh.PayLen() < ib.BTHLen+ib.ICRCLen {
		return nil, errors.New("roce: the GRH's length is wrong")
	}
	p.Version = 1
	p.SrcIP, p.DstIP = grh.SGID().Addr(), grh.DGID().Addr()
	p.TClass, p.HopLimit, p.FlowLabel = grh.TClass(), grh.HopLimit(), grh.FlowLabel()
	return b[ib.GRHLen : n-ib.ICRCLen], checkICRC(b[:n], ib.ICRCRoCEv1)
}

// checkICRC checks a packet from its network header to its ICRC.
func checkICRC(b []byte, of func([]byte) uint32) error {
	covered, stored := b[:len(b)-ib.ICRCLen], binary.LittleEndian.Uint32(b[len(b)-ib.ICRCLen:])
	if want := of(covered); want != stored {
		return fmt.Errorf("roce: ICRC %#08x is wrong; it should be %#08x", stored, want)
	}
	return nil
}

func (p *Packet) parseTransport(b []byte) error {
	bth, ok := ib.AsBTH(b)
	if !ok || bth.TVer() != 0 {
		return errors.New("roce: no BTH")
	}
	p.OpCode, p.Solicited, p.FECN, p.BECN = bth.OpCode(), bth.Solicited(), bth.FECN(), bth.BECN()
	p.PKey, p.DestQP, p.PSN = bth.PKey(), bth.DestQP(), bth.PSN()
	deth, ok := ib.AsDETH(b[ib.BTHLen:])
	if !ok || p.OpCode != ib.OpUDSendOnly && p.OpCode != ib.OpUDSendOnlyImm {
		return fmt.Errorf("roce: opcode %#x is not a UD send", p.OpCode)
	}
	p.QKey, p.SrcQP = deth.QKey(), deth.SrcQP()
	rest := b[ib.BTHLen+ib.DETHLen:]
	if p.OpCode == ib.OpUDSendOnlyImm {
		imm, ok := ib.AsImmDt(rest)
		if !ok {
			return errors.New("roce: no immediate data")
		}
		p.HasImm, p.Imm, rest = true, imm.Value(), rest[ib.ImmDtLen:]
	}
	if bth.PadCnt() > len(rest) {
		return fmt.Errorf("roce: %d bytes of pad in %d", bth.PadCnt(), len(rest))
	}
	p.Payload = rest[:len(rest)-bth.PadCnt()]
	return nil
}

// ParseDatagram parses a datagram that a UDP socket received from src at dst: BTH to ICRC. The ICRC covers the IP
// header, which a socket does not deliver; it is assumed to be as RoCE senders write it, unfragmented and with
// identification 0.
func ParseDatagram(src, dst netip.AddrPort, payload []byte) (Packet, error) {
	b := frame.AppendUDP(nil, frame.Link{}, frame.MAC{}, frame.Datagram{Src: src, Dst: dst, TTL: 1}, payload)
	return Parse(b)
}
