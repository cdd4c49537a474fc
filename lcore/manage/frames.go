// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"encoding/binary"
	"net/netip"

	"causeway/lcore/frame"
)

// Frames that only management sends: answers to pings, and MLD of version 1.

// open makes a frame with room for n bytes behind its Ethernet header, padded to Ethernet's minimum.
func (l *Loop) open(dst frame.MAC, kind uint16, n int) (whole, payload []byte) {
	head := frame.EthernetLen
	if l.link.VID != 0 {
		head += frame.VLANLen
	}
	b := make([]byte, max(head+n, frame.MinLen))
	if l.link.VID == 0 {
		frame.PutEthernet(b, frame.EthernetFields{Dst: dst, Src: l.link.MAC, Type: kind})
	} else {
		frame.PutEthernet(b, frame.EthernetFields{Dst: dst, Src: l.link.MAC, Type: frame.TypeVLAN})
		frame.PutVLAN(b[frame.EthernetLen:], frame.VLANFields{PCP: l.link.PCP, VID: l.link.VID, Type: kind})
	}
	return b, b[head : head+n]
}

// putICMP writes the message m with another type, and its checksum.
func putICMP(b, m []byte, kind byte, checksum func([]byte) uint16) {
	copy(b, m)
	b[0], b[2], b[3] = kind, 0, 0
	binary.BigEndian.PutUint16(b[2:], checksum(b))
}

// checksum6 returns how ICMPv6 sums a message from src to dst up (RFC 4443 §2.3).
func checksum6(src, dst netip.Addr) func([]byte) uint16 {
	return func(b []byte) uint16 { return frame.PseudoChecksum(src, dst, frame.ProtoICMPv6, b) }
}

// allRouters6 is where who leaves a group says so (RFC 2710 §3).
var allRouters6 = netip.MustParseAddr("ff02::2")

// mldv1 makes a report, or a done, of version 1 of MLD (RFC 2710 §3): type, code, checksum, maximum response
// delay and a reserved field of 16 bits each, and the group, behind a router alert. src is link-local.
func (l *Loop) mldv1(kind uint8, src, dst, group netip.Addr) []byte {
	const groupAt = 8
	n := frame.HopByHopLen + frame.MLDLen
	b, p := l.open(frame.GroupMAC(dst), frame.TypeIPv6, frame.IPv6Len+n)
	frame.PutIPv6(p, frame.IPv6Fields{PayloadLen: n, NextHeader: frame.ProtoHopByHop, HopLimit: 1, Src: src, Dst: dst})
	frame.PutRouterAlert(p[frame.IPv6Len:], frame.ProtoICMPv6)
	m := make([]byte, frame.MLDLen)
	copy(m[groupAt:], group.AsSlice())
	putICMP(p[frame.IPv6Len+frame.HopByHopLen:], m, kind, checksum6(src, dst))
	return b
}
