// SPDX-License-Identifier: Apache-2.0

package frame

import "net/netip"

// Frame is a parsed Ethernet frame, down to the payload of its IP packet or of another EtherType. All parts alias the
// frame.
type Frame struct {
	Eth     Ethernet
	Tag     VLAN   // nil when there is none
	Type    uint16 // of what the frame carries, that of the tag if there is one
	IPv4    IPv4   // one of the two when Type says so, else nil
	IPv6    IPv6
	Payload []byte // behind the fixed IP header or IPv4 options, cut to IP's length; without IP all of the rest
}

// Open parses and validates a frame down to IP. It cuts off padding and trailers behind the IP packet. It does not
// check addresses, IPv4 options or IPv6 extension headers, which group management needs and RoCEv2 forbids. With a
// fault, the parts of the Frame that could be parsed are set, for a log.
func Open(b []byte) (Frame, Fault) {
	var f Frame
	var ok bool
	if f.Eth, ok = AsEthernet(b); !ok {
		return f, L2Short
	}
	f.Type, f.Payload = f.Eth.Type(), b[EthernetLen:]
	if f.Type == TypeVLAN {
		if f.Tag, ok = AsVLAN(f.Payload); !ok {
			return f, L2Short
		}
		f.Type, f.Payload = f.Tag.Type(), f.Payload[VLANLen:]
	}
	switch f.Type {
	case TypeVLAN, TypeSTag:
		return f, VLANDouble
	case TypeIPv4:
		return f, f.openIPv4()
	case TypeIPv6:
		return f, f.openIPv6()
	}
	return f, ""
}

// openIPv4 parses the IPv4 header at f.Payload.
func (f *Frame) openIPv4() Fault {
	h, ok := AsIPv4(f.Payload)
	if !ok {
		return IPHdr
	}
	f.IPv4 = h
	switch {
	case !h.ChecksumOK():
		return IPCsum
	case h.TotalLen() < h.HeaderLen() || h.TotalLen() > len(f.Payload):
		return IPLen
	case h.IsFragment():
		return IPFrag
	case h.TTL() == 0:
		return IPTTL
	}
	f.Payload = f.Payload[h.HeaderLen():h.TotalLen()]
	return ""
}

// openIPv6 parses the fixed IPv6 header at f.Payload. Length 0, of a jumbogram or an empty packet, is a fault.
func (f *Frame) openIPv6() Fault {
	h, ok := AsIPv6(f.Payload)
	if !ok {
		return IPHdr
	}
	f.IPv6 = h
	switch {
	case h.PayloadLen() == 0 || h.PayloadLen() > len(f.Payload)-IPv6Len:
		return IPLen
	case h.HopLimit() == 0:
		return IPTTL
	}
	f.Payload = f.Payload[IPv6Len : IPv6Len+h.PayloadLen()]
	return ""
}

// IsIP reports whether the frame carries an IP packet.
func (f Frame) IsIP() bool { return f.IPv4 != nil || f.IPv6 != nil }

// Protocol returns what follows the IP header: with IPv6 possibly an extension header.
// It is meaningful only when IsIP.
func (f Frame) Protocol() uint8 {
	switch {
	case f.IPv4 != nil:
		return f.IPv4.Protocol()
	case f.IPv6 != nil:
		return f.IPv6.NextHeader()
	}
	return 0
}

// Src returns the IP source address, the zero Addr without IP.
func (f Frame) Src() netip.Addr {
	switch {
	case f.IPv4 != nil:
		return f.IPv4.Src()
	case f.IPv6 != nil:
		return f.IPv6.Src()
	}
	return netip.Addr{}
}

// Dst returns the IP destination address, the zero Addr without IP.
func (f Frame) Dst() netip.Addr {
	switch {
	case f.IPv4 != nil:
		return f.IPv4.Dst()
	case f.IPv6 != nil:
		return f.IPv6.Dst()
	}
	return netip.Addr{}
}

// UDP parses and validates the datagram of a frame whose Protocol is ProtoUDP. One shorter than IP's payload is IPLen:
// the bytes between them could be an attack.
func (f Frame) UDP() (UDP, []byte, Fault) {
	h, ok := AsUDP(f.Payload)
	switch {
	case !ok, h.Len() < UDPLen, h.Len() > len(f.Payload):
		return nil, nil, UDPLength
	case h.Len() < len(f.Payload):
		return nil, nil, IPLen
	case !UDPChecksumOK(f.Payload, f.Src(), f.Dst()):
		return nil, nil, UDPCsum
	}
	return h, f.Payload[UDPLen:], ""
}
