// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A generator makes packets, mostly with one error or none, because those pass most of the checks.
type generator struct {
	*rand.Rand
	w                        *fixture
	sources, nodes, groups   []netip.Addr
	sources6, nodes6, group6 []netip.Addr
	sgids, mgids             []ib.GID
	data                     []byte
}

// newGenerator makes a generator. Each seed has many streams of packets.
func newGenerator(w *fixture, seed, stream uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, stream)), w: w, data: pattern(5000)}
	for _, h := range w.hosts {
		g.add(&g.sources, &g.sources6, h.IP)
	}
	for _, n := range w.nodes {
		g.sgids = append(g.sgids, n.GID)
		for _, ip := range []netip.Addr{n.IP4, n.IP6} {
			if ip.IsValid() {
				g.add(&g.nodes, &g.nodes6, ip)
			}
		}
	}
	g.sgids = append(g.sgids, bridgeGID, aliasGID, mustGID("fe80::99"))
	for _, x := range w.groups {
		g.mgids = append(g.mgids, x.MGID)
		g.add(&g.groups, &g.group6, x.IP)
	}
	for _, ip := range []netip.Addr{control4, noGroup, control6, noGroup6} {
		g.add(&g.groups, &g.group6, ip)
	}
	g.add(&g.sources, &g.sources6, newcomerIP)
	return g
}

func (g *generator) add(four, six *[]netip.Addr, ip netip.Addr) {
	if ip.Is4() {
		*four = append(*four, ip)
	} else {
		*six = append(*six, ip)
	}
}

func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// rarely is true once in n times.
func (g *generator) rarely(n int) bool { return g.IntN(n) == 0 }

// addr returns an address that no frame should come from, or go to.
func (g *generator) addr(six bool) netip.Addr {
	switch {
	case g.rarely(3) && six:
		return one(g, g.nodes6...)
	case six:
		return one(g, badAddrs6...)
	case g.rarely(3):
		return one(g, g.nodes...)
	}
	return one(g, badAddrs4...)
}

func addrs(list string) (out []netip.Addr) {
	for _, s := range strings.Fields(list) {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

var (
	badAddrs4 = addrs("10.11.0.9 10.10.0.254 10.10.0.255 10.10.0.77 127.0.0.1 0.0.0.0 255.255.255.255 240.0.0.1 224.0.0.1 223.255.255.255")
	badAddrs6 = addrs("2001:db8::77 2001:db8::fe :: ::1 fe80::1 ff15::9 ff02::1 ff0e::ffff:239.1.2.3 ::ffff:10.10.0.1 ::ffff:239.1.2.3")
)

func (g *generator) size() int {
	switch g.IntN(40) {
	case 0:
		return one(g, 0, 1, 2, 3, 4, 255, 256, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097)
	case 1:
		return g.IntN(4200)
	case 2:
		return g.IntN(600)
	}
	return g.IntN(64)
}

func (g *generator) payload() []byte {
	n := g.size()
	at := g.IntN(len(g.data) - n)
	return g.data[at : at+n]
}

// packet is a good packet, or one with a field that is not.
func (g *generator) packet() roce.Packet {
	p := roce.Packet{
		Version: 2, Dst: bridgeMAC, Src: hostMAC, TClass: uint8(g.Uint32()), HopLimit: uint8(g.Uint32()), FlowLabel: g.Uint32() & 0xfffff,
		SrcPort: uint16(g.Uint32()), UDPChecksum: g.rarely(8), Solicited: g.rarely(4), FECN: g.rarely(8), BECN: g.rarely(8),
		PKey: ib.PKeyDefault, DestQP: nodeQPN, PSN: g.Uint32() & 0xffffff, QKey: ib.QKeyRDMAUDP, SrcQP: hostQPN, HasImm: g.rarely(3),
		Imm: one(g, g.Uint32(), uint32(hostQPN)), Payload: g.payload(),
	}
	if !g.rarely(100) && p.HopLimit == 0 {
		p.HopLimit = 1
	}
	six := g.rarely(3)
	p.SrcIP, p.DstIP = one(g, g.sources...), one(g, g.nodes...)
	if six {
		p.SrcIP, p.DstIP = one(g, g.sources6...), one(g, g.nodes6...)
	}
	if g.rarely(3) {
		p.Version = 1
	}
	if g.rarely(3) {
		group := one(g, g.groups...)
		if six {
			group = one(g, g.group6...)
		}
		to(group)(&p)
	}
	if g.w.config.VLAN != 0 && !g.rarely(50) || g.rarely(100) {
		p.Tag = &frame.VLANFields{PCP: uint8(g.IntN(8)), DEI: g.rarely(2), VID: g.w.config.VLAN}
		if g.rarely(20) {
			p.Tag.VID = one[uint16](g, 0, 101)
		}
	}
	if g.rarely(4) {
		g.spoil(&p, six)
	}
	return p
}

// spoil gives a field a value that is likely to find errors.
func (g *generator) spoil(p *roce.Packet, six bool) {
	switch g.IntN(11) {
	case 0:
		p.SrcIP = g.addr(six)
	case 1:
		p.DstIP = g.addr(six)
	case 2:
		p.OpCode = uint8(g.Uint32())
	case 3:
		p.PKey = one[ib.PKey](g, 0, 0x8000, 0x7fff, 0x8001, ib.PKey(g.Uint32()))
	case 4:
		p.DestQP = one[ib.QPN](g, 0, 1, 2, 0xfffffe, ib.QPMulticast, ib.QPN(g.Uint32()&0xffffff))
	case 5:
		p.QKey = one(g, ib.QKeyGSI, 0, groupIB, 0x80000000, ib.QKey(g.Uint32()))
	case 6:
		p.SrcQP = one[ib.QPN](g, 0, 1, 2, 0xfffffe, ib.QPMulticast, ib.QPN(g.Uint32()&0xffffff))
	case 7:
		p.DestQP, p.QKey, p.Payload, p.HasImm = ib.QP1, ib.QKeyGSI, g.data[:one(g, 256, 256, 252, 260)], false
		if g.rarely(2) {
			if g.rarely(2) {
				bridgeMessage(xor(one(g, 0, 1, 2, 3, 37, 38, 39, 100), one[byte](g, 0, 0, 1)))(p)
				p.DstIP = one(g, p.DstIP, bridgeIP.Addr(), bridgeIP6.Addr())
				break
			}
			sidr(one[uint16](g, ib.AttrSIDRReq, ib.AttrSIDRRep, 0x10))(p)
		}
	case 8:
		p.Dst = one(g, frame.MAC{2, 9}, frame.GroupMAC(group4), frame.MAC{255, 255, 255, 255, 255, 255}, bridgeMAC)
	case 9:
		p.Src = one(g, frame.MAC{}, frame.MAC{1, 2}, bridgeMAC, frame.MAC{2, 7})
	case 10:
		p.SrcIP = p.DstIP
	}
}

// frame is a packet on the wire, as it should be or damaged.
func (g *generator) frame() []byte {
	var f []byte
	if g.rarely(6) {
		f = g.plain()
	} else {
		p := g.packet()
		f = p.AppendTo(nil)
	}
	for n := one(g, 0, 0, 1, 1, 1, 2); n > 0; n-- {
		f = g.damage(f)
	}
	return f[:min(len(f), lcore.DataRoom-lcore.Headroom)] // what fits one mbuf
}

// plain is a datagram of plain UDP, mostly to a group that is bridged.
func (g *generator) plain() []byte {
	src, dst := one(g, g.sources...), one(g, group4, group4, plainOnly, noGroup)
	if g.rarely(3) {
		src, dst = one(g, g.sources6...), one(g, group6, group6, noGroup6)
	}
	if g.rarely(20) {
		src, dst = g.addr(src.Is6()), one(g, group4, group6, plainOnly)
	}
	if src.Is4() != dst.Is4() {
		src = one(g, hostIP6, hostIP6)
		if dst.Is4() {
			src = hostIP
		}
	}
	l := frame.Link{MAC: hostMAC, VID: g.w.config.VLAN, PCP: uint8(g.IntN(8))}
	return frame.AppendUDP(nil, l, frame.GroupMAC(dst), frame.Datagram{
		Src: netip.AddrPortFrom(src, uint16(g.Uint32())), Dst: netip.AddrPortFrom(dst, one(g, plainPort, plainPort, plainPort, plainOut, noPort, 0)),
		TOS: uint8(g.Uint32()), TTL: uint8(1 + g.IntN(255)), FlowLabel: g.Uint32() & 0xfffff, Checksum: !g.rarely(4),
	}, g.payload())
}

// damage changes a frame in one way, and sometimes corrects the checksums that would hide the change from later checks.
func (g *generator) damage(f []byte) []byte {
	if len(f) < 20 {
		return f
	}
	switch g.IntN(8) {
	case 0:
		return f[:g.IntN(len(f)+1)]
	case 1:
		return append(f, g.data[:g.IntN(70)]...)
	case 2:
		return tagged(f, one(g, []byte{0x81, 0, 0, 0}, []byte{0x81, 0, 0, 100}, []byte{0x88, 0xa8, 0, 100})...)
	case 3:
		f = g.length(f)
	case 4, 5:
		at, bit := g.IntN(min(len(f), 100)), byte(1)<<g.IntN(8)
		f[at] ^= bit
	case 6:
		f[g.IntN(min(len(f), 100))] = one(g, 0, 255, byte(g.Uint32()))
	case 7:
		if _, kind, ok := network(f); ok && kind == binary.BigEndian.Uint16(f[atEthType:]) && len(f) >= at6UDP+8+20+4 {
			return short(f, one[uint8](g, 0x11, 0x12, ib.OpUDSendOnly, ib.OpUDSendOnlyImm, ib.OpCNP), one(g, -4, 0, 4, 8))
		}
	}
	return g.repair(f)
}

// repair makes checksums right again, mostly.
func (g *generator) repair(f []byte) []byte {
	at, kind, ok := network(f)
	if ok && kind == frame.TypeIPv4 && len(f) >= at+frame.IPv4Len && !g.rarely(4) {
		binary.BigEndian.PutUint16(f[at+10:], 0)
		binary.BigEndian.PutUint16(f[at+10:], frame.Checksum(f[at:at+frame.IPv4Len]))
	}
	if g.rarely(3) {
		return f
	}
	return sign(f)
}

// length changes a length field.
func (g *generator) length(f []byte) []byte {
	at, kind, ok := network(f)
	fields := map[uint16][]int{frame.TypeIPv4: {2, 24}, frame.TypeIPv6: {4, 44}, frame.TypeRoCEv1: {4}}[kind]
	if !ok || len(fields) == 0 || len(f) < at+48 {
		return f
	}
	by := one(g, 1, -1, 4, -4, 8, -8, 0x10000)
	if kind != frame.TypeRoCEv1 && g.rarely(2) { // both, so that they agree
		for _, i := range fields {
			change(f[at+i:], by)
		}
		return f
	}
	if g.rarely(4) {
		copy(f[at+one(g, fields...):], one(g, []byte{0, 0}, []byte{255, 255}))
		return f
	}
	change(f[at+one(g, fields...):], by)
	return f
}

func change(field []byte, by int) {
	binary.BigEndian.PutUint16(field, uint16(int(binary.BigEndian.Uint16(field))+by))
}

// message is one from the IB port, as it should be or with something wrong.
func (g *generator) message() message {
	s := one(g, g.w.proxyQPs...)
	m := message{
		QPN: s.QPN, SrcQP: one(g, nodeQPN, nodeQPN+1, ib.QPN(2+g.IntN(0xfffffc))), SLID: one(g, nodeLID, node4LID, node4LID+3, localLID, peerLID),
		SL: ib.SL(g.IntN(16)), Imm: g.Uint32(), HasImm: g.rarely(3), HasGRH: !g.rarely(4), Solicited: g.rarely(4), FECN: g.rarely(4),
		Payload: g.payload(),
	}
	m.Payload = m.Payload[:min(len(m.Payload), lcore.MaxPayload)]
	if !m.HasGRH {
		return g.wrong(m)
	}
	f := ib.GRHFields{TClass: uint8(g.Uint32()), FlowLabel: one(g, 0, g.Uint32()&0xfffff), HopLimit: one(g, 0, 1, 2, 255, uint8(g.Uint32())),
		SGID: one(g, g.sgids...), DGID: bridgeGID}
	if g.rarely(2) {
		f.DGID = one(g, g.mgids...)
	}
	m.grh(f)
	if g.w.config.IBIsEthernet && g.rarely(2) {
		ip := v4(func(p *roce.Packet) {
			p.TClass, p.HopLimit, p.SrcIP, p.DstIP = f.TClass, f.HopLimit, one(g, g.nodes...), one(g, bridgeIP.Addr(), one(g, g.groups...))
		})
		m.GRH = [40]byte(slices.Concat(make([]byte, 20), ip[atNet:atNet+20]))
		m.GRH[0] = one[byte](g, 0, 0, 0x60, 0x45, 0x6f)
	}
	return g.wrong(m)
}

func (g *generator) wrong(m message) message {
	switch g.IntN(24) {
	case 0:
		m.QPN = ib.QPN(g.Uint32() & 0xffffff)
	case 1:
		m.SrcQP = one(g, ib.QP0, ib.QP1, ib.QPMulticast)
	case 2:
		m.SLID = one(g, bridgeLID, bridgeLID+1, 0, 99, 0xffff)
	case 3, 4, 5, 6:
		if m.HasGRH {
			m.GRH[g.IntN(40)] ^= 1 << g.IntN(8)
		}
	case 7:
		if m.HasGRH {
			copy(m.GRH[8:24], bridgeGID[:])
		}
	}
	return m
}
