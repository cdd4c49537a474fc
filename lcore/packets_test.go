// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// Offsets in untagged frames. They are written down here, and not taken from a codec, because the tests cut and
// patch frames at them.
const (
	atEthSrc  = 6
	atEthType = 12
	atNet     = 14 // IPv4, IPv6 or GRH

	at4Len, at4Frag, at4TTL, at4Proto, at4Sum, at4Src, at4Dst = atNet + 2, atNet + 6, atNet + 8, atNet + 9, atNet + 10, atNet + 12, atNet + 16
	at4UDP                                                    = atNet + 20
	at4BTH                                                    = at4UDP + 8

	at6Len, at6Next, at6Hops, at6Src, at6Dst = atNet + 4, atNet + 6, atNet + 7, atNet + 8, atNet + 24
	at6UDP                                   = atNet + 40
	at1BTH                                   = atNet + 40

	inUDPDst, inUDPLen, inUDPSum                                        = 2, 4, 6
	inBTHFlags, inBTHPKey, inBTHResv, inBTHDest, inBTHAck, inDETH       = 1, 2, 4, 5, 8, 12
	inDETHResv, inDETHSrc, inPayload                                    = 16, 17, 20
	minUDP                                                        uint8 = 32 // UDP, BTH, DETH, ICRC
)

// v4 returns a RoCEv2 packet on IPv4, host to node, with 5 bytes of payload, as changed.
func v4(change ...func(*roce.Packet)) []byte {
	return build(roce.Packet{
		Version: 2, Dst: bridgeMAC, Src: hostMAC, SrcIP: hostIP, DstIP: nodeIP, TClass: 0x62, HopLimit: 64, SrcPort: 0xe341,
		PKey: ib.PKeyDefault, DestQP: nodeQPN, PSN: 1, QKey: ib.QKeyRDMAUDP, SrcQP: hostQPN, Payload: []byte("Hello"),
	}, change)
}

// v6 is v4 on IPv6.
func v6(change ...func(*roce.Packet)) []byte {
	return v4(append([]func(*roce.Packet){func(p *roce.Packet) {
		p.SrcIP, p.DstIP, p.FlowLabel = hostIP6, nodeIP6, 0x12345
	}}, change...)...)
}

// v1 is v4 in RoCEv1, between link-local GIDs.
func v1(change ...func(*roce.Packet)) []byte {
	return v4(append([]func(*roce.Packet){func(p *roce.Packet) {
		p.Version, p.SrcIP, p.DstIP, p.HopLimit = 1, hostLocal, nodeLocal, 1
	}}, change...)...)
}

func build(p roce.Packet, change []func(*roce.Packet)) []byte {
	for _, f := range change {
		f(&p)
	}
	return p.AppendTo(nil)
}

// to sends the packet to a group.
func to(group netip.Addr) func(*roce.Packet) {
	return func(p *roce.Packet) {
		p.DstIP, p.DestQP, p.QKey = group, ib.QPMulticast, groupRoCE
		p.Dst = frame.GroupMAC(group)
		if p.Version == 1 {
			p.DstIP = ib.MGIDRoCEv1(group).Addr()
			p.Dst = ib.MulticastMAC(ib.MGIDRoCEv1(group))
		}
	}
}

func from(src string) func(*roce.Packet) {
	return func(p *roce.Packet) { p.SrcIP = netip.MustParseAddr(src) }
}

func dest(dst string) func(*roce.Packet) {
	return func(p *roce.Packet) { p.DstIP = netip.MustParseAddr(dst) }
}

func payload(n int) func(*roce.Packet) {
	return func(p *roce.Packet) { p.Payload = pattern(n) }
}

func imm(v uint32) func(*roce.Packet) {
	return func(p *roce.Packet) { p.HasImm, p.Imm = true, v }
}

// pattern returns n bytes, each different from those nearby.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + 1)
	}
	return b
}

// patch returns a copy of f with bytes at an offset replaced.
func patch(f []byte, at int, with ...byte) []byte {
	f = bytes.Clone(f)
	copy(f[at:], with)
	return f
}

// tagged puts tags between the addresses and the type.
func tagged(f []byte, tags ...byte) []byte { return slices.Insert(bytes.Clone(f), atEthType, tags...) }

// network returns the offset of the network header and its ethertype; false when the frame is too short.
func network(f []byte) (at int, ethertype uint16, ok bool) {
	for at = atEthType; at+2 <= len(f); at += 4 {
		ethertype = binary.BigEndian.Uint16(f[at:])
		if ethertype != frame.TypeVLAN && ethertype != frame.TypeSTag {
			return at + 2, ethertype, true
		}
	}
	return 0, 0, false
}

// sum writes the right checksum into the IPv4 header of an untagged frame.
func sum(f []byte) []byte {
	f = patch(f, at4Sum, 0, 0)
	end := min(atNet+4*int(f[atNet]&15), len(f))
	binary.BigEndian.PutUint16(f[at4Sum:], frame.Checksum(f[atNet:end]))
	return f
}

// sign writes the right ICRC where the packet ends according to the IP header or GRH; at the end of the frame, when
// that is impossible.
func sign(f []byte) []byte {
	f = bytes.Clone(f)
	at, ethertype, ok := network(f)
	least := map[uint16]int{frame.TypeIPv4: 28, frame.TypeIPv6: 48, frame.TypeRoCEv1: 40}[ethertype] + ib.BTHLen
	if !ok || least == ib.BTHLen || len(f) < at+least+ib.ICRCLen {
		return f
	}
	n := 0
	if ethertype == frame.TypeIPv4 {
		n = int(binary.BigEndian.Uint16(f[at+2:]))
	} else {
		n = 40 + int(binary.BigEndian.Uint16(f[at+4:]))
	}
	if n < least+ib.ICRCLen || at+n > len(f) {
		n = len(f) - at
	}
	crc := ib.ICRCRoCEv2
	if ethertype == frame.TypeRoCEv1 {
		crc = ib.ICRCRoCEv1
	}
	end := at + n - ib.ICRCLen
	ib.PutICRC(f[end:], crc(f[at:end]))
	return f
}

// received is a message from the node to the host's proxy QP, with a GRH, as changed.
func received(change ...func(*message)) message {
	m := message{
		QPN: proxyQPN, SrcQP: nodeQPN, SLID: nodeLID, SL: 3, HasGRH: true, Payload: []byte("Hello"),
	}
	m.grh(ib.GRHFields{TClass: 0x60, FlowLabel: 0x12345, HopLimit: 64, SGID: nodeGID, DGID: bridgeGID})
	for _, f := range change {
		f(&m)
	}
	return m
}

// toGroup sends the message to a group.
func toGroup(mgid ib.GID) func(*message) {
	return func(m *message) { m.QPN = proxyQPN + 99; copy(m.GRH[24:], mgid[:]) }
}

// fromNode sends the message from another node.
func fromNode(gid ib.GID, lid ib.LID) func(*message) {
	return func(m *message) { m.SLID = lid; copy(m.GRH[8:], gid[:]) }
}

func noGRH(m *message) { m.HasGRH, m.GRH = false, [40]byte{} }

func anEthernetPort(w *fixture) { w.config.IBIsEthernet = true }

// inIPv4 gives the message an IPv4 header, at the place where RoCE devices store one.
func inIPv4(src, dst netip.Addr) func(*message) {
	return func(m *message) {
		ip := slices.Clone(v4(func(p *roce.Packet) { p.SrcIP, p.DstIP = src, dst })[atNet : atNet+20])
		m.GRH = [40]byte(append(make([]byte, 20), ip...))
	}
}
