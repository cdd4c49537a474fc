// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"slices"

	"causeway/lcore/frame"
)

// ICMP types (RFC 792; RFC 4443 §4).
const (
	echoRequest4 = 8
	echoReply4   = 0
	echoRequest6 = 128
	echoReply6   = 129
	echoTTL      = 64
)

// handleEcho answers pings to the bridge's own addresses, so that an operator sees it from the RoCE side.
// Nobody is pinged through it: that a node answers says more than that the bridge does.
func (l *Loop) handleEcho(w Worker, f frame.Frame) {
	m := f.Payload
	if len(m) < 8 || !l.isOwn(f.Dst()) || f.Src().IsMulticast() || f.Src().IsUnspecified() || !f.Eth.Src().IsStation() {
		l.count.NotForUs++
		return
	}
	reply := slices.Clone(f.Eth)
	head := len(f.Eth)
	frame.PutEthernet(reply, frame.EthernetFields{Dst: f.Eth.Src(), Src: l.cfg.MAC, Type: f.Eth.Type()})
	if f.Tag != nil {
		reply = append(reply, f.Tag...)
		head += len(f.Tag)
	}
	switch {
	case f.IPv4 != nil && m[0] == echoRequest4:
		reply = append(reply, make([]byte, frame.IPv4Len+len(m))...)
		frame.PutIPv4(reply[head:], frame.IPv4Fields{
			TOS: f.IPv4.TOS(), TotalLen: frame.IPv4Len + len(m), TTL: echoTTL, Protocol: frame.ProtoICMP,
			Src: f.Dst(), Dst: f.Src(),
		})
		putEcho(reply[head+frame.IPv4Len:], m, echoReply4, func(b []byte) uint16 { return frame.Checksum(b) })
	case f.IPv6 != nil && m[0] == echoRequest6:
		reply = append(reply, make([]byte, frame.IPv6Len+len(m))...)
		frame.PutIPv6(reply[head:], frame.IPv6Fields{
			TrafficClass: f.IPv6.TrafficClass(), PayloadLen: len(m), NextHeader: frame.ProtoICMPv6, HopLimit: echoTTL,
			Src: f.Dst(), Dst: f.Src(),
		})
		putEcho(reply[head+frame.IPv6Len:], m, echoReply6, func(b []byte) uint16 {
			return frame.PseudoChecksum(f.Dst(), f.Src(), frame.ProtoICMPv6, b)
		})
	default:
		l.count.NotForUs++
		return
	}
	l.count.EchoAnswered++
	l.send(w, reply)
}

// putEcho writes the request m with another type, and its checksum.
func putEcho(b, m []byte, kind byte, checksum func([]byte) uint16) {
	copy(b, m)
	b[0], b[2], b[3] = kind, 0, 0
	sum := checksum(b)
	b[2], b[3] = byte(sum>>8), byte(sum)
}
