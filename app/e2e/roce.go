// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"net/netip"

	"causeway/ibside/ib"
)

// Numbers needed to find RoCE v2 in a frame.
const (
	etherVLAN  = 0x8100
	etherIPv4  = 0x0800
	etherIPv6  = 0x86dd
	roceUDP    = 4791
	protoUDP   = 17
	macsLen    = 12
	icrcLen    = 4
	opcodeImm  = 0x65
	ipv6Header = 40
	transport  = 8 + 12 + 8 // UDP, BTH and DETH
)

// Message is a RoCE v2 UD message, found in a captured frame.
type Message struct {
	VLAN     int // 802.1Q id; -1 if untagged
	Priority int // 802.1p; 0 if untagged
	Src, Dst netip.Addr
	SrcPort  uint16 // UDP
	OpCode   uint8
	DestQP   uint32
	SrcQP    uint32
	QKey     uint32
	WithImm  bool
	Imm      uint32
	Payload  []byte // without pad
	ICRCGood bool
}

// Messages returns the RoCE v2 UD messages among frames, in order.
func Messages(frames []Frame) []Message {
	var found []Message
	for _, f := range frames {
		if m, ok := parseMessage(f.Data); ok {
			found = append(found, m)
		}
	}
	return found
}

// parseMessage parses a frame leniently. It checks what Causeway sends, so it shares no code with it but the ICRC.
func parseMessage(b []byte) (Message, bool) {
	m := Message{VLAN: -1}
	if len(b) < macsLen+2 {
		return m, false
	}
	etherType, rest := binary.BigEndian.Uint16(b[macsLen:]), b[macsLen+2:]
	if etherType == etherVLAN && len(rest) >= 4 {
		m.VLAN, m.Priority = int(binary.BigEndian.Uint16(rest)&0xfff), int(rest[0]>>5)
		etherType, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	ip, header := m.parseIP(etherType, rest)
	if header == 0 || len(ip) < header+transport+icrcLen || binary.BigEndian.Uint16(ip[header+2:]) != roceUDP {
		return m, false
	}
	m.SrcPort = binary.BigEndian.Uint16(ip[header:])
	covered := ip[:len(ip)-icrcLen]
	m.ICRCGood = ib.ICRCRoCEv2(covered) == binary.LittleEndian.Uint32(ip[len(covered):])
	return m, m.parseTransport(covered[header+8:])
}

// parseIP returns the IP packet, without Ethernet's padding, and its header's length; 0 if it is not UDP.
func (m *Message) parseIP(etherType uint16, b []byte) (ip []byte, header int) {
	switch {
	case etherType == etherIPv4 && len(b) >= 20 && b[9] == protoUDP:
		header, ip = int(b[0]&15)*4, b[:min(len(b), int(binary.BigEndian.Uint16(b[2:])))]
		m.Src, _ = netip.AddrFromSlice(b[12:16])
		m.Dst, _ = netip.AddrFromSlice(b[16:20])
	case etherType == etherIPv6 && len(b) >= ipv6Header && b[6] == protoUDP:
		header, ip = ipv6Header, b[:min(len(b), ipv6Header+int(binary.BigEndian.Uint16(b[4:])))]
		m.Src, _ = netip.AddrFromSlice(b[8:24])
		m.Dst, _ = netip.AddrFromSlice(b[24:40])
	}
	return ip, header
}

// parseTransport reads BTH, DETH, ImmDt and payload.
func (m *Message) parseTransport(b []byte) bool {
	m.OpCode = b[0]
	pad := int(b[1] >> 4 & 3)
	m.DestQP = binary.BigEndian.Uint32(b[4:]) & 0xffffff
	m.QKey = binary.BigEndian.Uint32(b[12:])
	m.SrcQP = binary.BigEndian.Uint32(b[16:]) & 0xffffff
	payload := b[20:]
	if m.WithImm = m.OpCode == opcodeImm; m.WithImm {
		if len(payload) < 4 {
			return false
		}
		m.Imm, payload = binary.BigEndian.Uint32(payload), payload[4:]
	}
	if len(payload) < pad {
		return false
	}
	m.Payload = payload[:len(payload)-pad]
	return true
}
