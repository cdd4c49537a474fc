// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"causeway/lcore/frame"
)

// echoTTL is the time to live, or hop limit, of what the bridge sends in its own name.
const echoTTL = 64

// handleEcho answers pings to the bridge's own addresses, so that an operator sees it from the RoCE side.
// Nobody is pinged through it: that a node answers says more than that the bridge does.
func (l *Loop) handleEcho(w Worker, f frame.Frame) {
	m, from, to := f.Payload, f.Src(), f.Dst()
	request, sum := frame.EchoRequest4, frame.Checksum
	if f.IPv6 != nil {
		request = frame.EchoRequest6
		sum = func(m []byte) uint16 { return frame.PseudoChecksum(from, to, frame.ProtoICMPv6, m) }
	}
	switch {
	case len(m) < frame.EchoLen:
		l.malformed("icmp_bad")
		return
	case m[0] != request || !l.isOwn(to) || from.IsMulticast() || from.IsUnspecified() || !f.Eth.Src().IsStation():
		l.count.NotForUs++
		return
	case m[1] != 0 || sum(m) != 0:
		l.malformed("icmp_bad")
		return
	}
	if l.send(w, frame.AppendEchoReply(nil, l.link, f, echoTTL)) {
		l.count.EchoAnswered++
	}
}
