// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// Types of echo messages (RFC 792; RFC 4443 §4).
const (
	EchoRequest4 uint8 = 8
	EchoReply4   uint8 = 0
	EchoRequest6 uint8 = 128
	EchoReply6   uint8 = 129
)

// EchoLen is the length of an echo message without data.
const EchoLen = 8

// AppendEchoReply appends the reply to an echo request, to its sender, with its identifier, number and data. request
// must hold a whole echo request; ttl is the reply's TTL or hop limit.
func AppendEchoReply(b []byte, l Link, request Frame, ttl uint8) []byte {
	n, from, to := len(request.Payload), request.Src(), request.Dst()
	var p []byte
	if ip := request.IPv4; ip != nil {
		b, p = l.open(b, request.Eth.Src(), TypeIPv4, IPv4Len+n)
		PutIPv4(p, IPv4Fields{TOS: ip.TOS(), TotalLen: IPv4Len + n, TTL: ttl, Protocol: ProtoICMP, Src: to, Dst: from})
		putEchoReply(p[IPv4Len:], request.Payload, EchoReply4, Checksum)
		return b
	}
	b, p = l.open(b, request.Eth.Src(), TypeIPv6, IPv6Len+n)
	PutIPv6(p, IPv6Fields{
		TrafficClass: request.IPv6.TrafficClass(), PayloadLen: n, NextHeader: ProtoICMPv6, HopLimit: ttl, Src: to, Dst: from,
	})
	putEchoReply(p[IPv6Len:], request.Payload, EchoReply6, func(m []byte) uint16 { return PseudoChecksum(to, from, ProtoICMPv6, m) })
	return b
}

// putEchoReply writes request with another type, and its checksum.
func putEchoReply(b, request []byte, kind uint8, checksum func([]byte) uint16) {
	copy(b, request)
	b[icmpType], b[icmpCode] = kind, 0
	binary.BigEndian.PutUint16(b[icmpCsum:], 0)
	binary.BigEndian.PutUint16(b[icmpCsum:], checksum(b))
}
