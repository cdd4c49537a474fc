// SPDX-License-Identifier: Apache-2.0

package manage

import "causeway/lcore/frame"

// ICMP types (RFC 792; RFC 4443 §4).
const (
	echoRequest4 = 8
	echoReply4   = 0
	echoRequest6 = 128
	echoReply6   = 129
	echoTTL      = 64
	echoLen      = 8 // the least
)

// handleEcho answers pings to the bridge's own addresses, so that an operator sees it from the RoCE side.
// Nobody is pinged through it: that a node answers says more than that the bridge does.
func (l *Loop) handleEcho(w Worker, f frame.Frame) {
	m, from, to := f.Payload, f.Src(), f.Dst()
	request, checksum := byte(echoRequest4), frame.Checksum
	if f.IPv6 != nil {
		request, checksum = echoRequest6, checksum6(from, to)
	}
	switch {
	case len(m) < echoLen:
		l.malformed("icmp_bad")
		return
	case m[0] != request || !l.isOwn(to) || from.IsMulticast() || from.IsUnspecified() || !f.Eth.Src().IsStation():
		l.count.NotForUs++
		return
	case m[1] != 0 || checksum(m) != 0:
		l.malformed("icmp_bad")
		return
	}
	if l.send(w, l.echoReply(f)) {
		l.count.EchoAnswered++
	}
}

// echoReply answers a request, to where it came from.
func (l *Loop) echoReply(f frame.Frame) []byte {
	m, back := f.Payload, f.Eth.Src()
	if f.IPv4 != nil {
		b, p := l.open(back, frame.TypeIPv4, frame.IPv4Len+len(m))
		frame.PutIPv4(p, frame.IPv4Fields{
			TOS: f.IPv4.TOS(), TotalLen: frame.IPv4Len + len(m), TTL: echoTTL, Protocol: frame.ProtoICMP,
			Src: f.Dst(), Dst: f.Src(),
		})
		putICMP(p[frame.IPv4Len:], m, echoReply4, frame.Checksum)
		return b
	}
	b, p := l.open(back, frame.TypeIPv6, frame.IPv6Len+len(m))
	frame.PutIPv6(p, frame.IPv6Fields{
		TrafficClass: f.IPv6.TrafficClass(), PayloadLen: len(m), NextHeader: frame.ProtoICMPv6, HopLimit: echoTTL,
		Src: f.Dst(), Dst: f.Src(),
	})
	putICMP(p[frame.IPv6Len:], m, echoReply6, checksum6(f.Dst(), f.Src()))
	return b
}
