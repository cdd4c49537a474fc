// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

func opcode(op uint8) func(*roce.Packet) {
	return func(p *roce.Packet) { p.OpCode = op }
}

// bigEndianICRC stores the ICRC in the wrong byte order.
func bigEndianICRC(f []byte) []byte {
	crc := f[len(f)-ib.ICRCLen:]
	return patch(f, len(f)-ib.ICRCLen, crc[3], crc[2], crc[1], crc[0])
}

// icrcOverTrailer makes an ICRC that covers a trailer and lies behind it.
func icrcOverTrailer(f []byte) []byte {
	f = append(f[:len(f)-ib.ICRCLen], 1, 2, 3, 4)
	return binary.LittleEndian.AppendUint32(f, ib.ICRCRoCEv2(f[atNet:]))
}

// toQP1 sends a management datagram.
func toQP1(qkey ib.QKey, size int) func(*roce.Packet) {
	return func(p *roce.Packet) { p.DestQP, p.QKey, p.Payload = ib.QP1, qkey, pattern(size) }
}

// sidr sends the connection manager's datagram with this attribute; edit damages it.
func sidr(attribute uint16, edit ...func(mad []byte)) func(*roce.Packet) {
	return func(p *roce.Packet) {
		p.SrcQP, p.DestQP, p.QKey, p.Payload = ib.QP1, ib.QP1, ib.QKeyGSI, pattern(ib.MADLen)
		ib.PutMAD(p.Payload, ib.MADFields{Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, AttrID: attribute})
		for _, f := range edit {
			f(p.Payload)
		}
	}
}

// xor damages one byte.
func xor(at int, by byte) func([]byte) { return func(b []byte) { b[at] ^= by } }

// cnp is the worked example of a CNP, to the host of these tests: BECN set and 16 reserved bytes.
func cnp(op uint8) []byte {
	return v4(opcode(op), func(p *roce.Packet) {
		p.BECN, p.QKey, p.SrcQP, p.Payload = true, 0, 0, make([]byte, 8)
	})
}

// transportCases are about ICRC, BTH, DETH and immediate data.
var transportCases = []roceCase{
	{"ICRC wrong", "icrc", patch(v4(), 73, v4()[73]^1), nil},
	{"ICRC wrong, IPv6", "icrc", patch(v6(), 70, v6()[70]^1), nil},
	{"ICRC wrong, RoCEv1", "icrc", patch(v1(), 70, v1()[70]^1), nil},
	{"ICRC stored big-endian", "icrc", bigEndianICRC(v4()), nil},
	{"ICRC over a trailer", "icrc", icrcOverTrailer(v4()), nil},
	{"a RoCEv1 ICRC in RoCEv2", "icrc", patch(v4(), 70, 0x51, 0xf9, 0x9f, 0x4d), nil},
	{"transport version 1", "bth_tver", sign(patch(v4(), at4BTH+inBTHFlags, 0x71)), nil},
	{"CNP of RoCEv2", "cnp_rx", cnp(ib.OpCNP), nil},
	{"CN of InfiniBand", "cnp_rx", cnp(ib.OpCN), nil},
	{"RC send", "bth_opcode", v4(opcode(0x04)), nil},
	{"UC send", "bth_opcode", v4(opcode(0x24)), nil},
	{"RD send", "bth_opcode", v4(opcode(0x44)), nil},
	{"UD opcode below sends", "bth_opcode", v4(opcode(0x63)), nil},
	{"UD opcode above sends", "bth_opcode", v4(opcode(0x66)), nil},
	{"XRC send", "bth_opcode", v4(opcode(0xa4)), nil},
	{"a vendor's opcode", "bth_opcode", v4(opcode(0xff)), nil},
	{"RC acknowledge", "bth_opcode", short(v4(), 0x11, 4), nil},
	{"RC acknowledge, padded to an Ethernet frame", "bth_opcode", append(short(v4(), 0x11, 4), make([]byte, 10)...), nil},
	{"RC acknowledge, IPv6", "bth_opcode", short(v6(), 0x11, 4), nil},
	{"RC acknowledge, RoCEv1", "bth_opcode", short(v1(), 0x11, 4), nil},
	{"RC acknowledge, ICRC wrong", "icrc", patch(short(v4(), 0x11, 4), at4BTH+15, 0xff), nil},
	{"a BTH alone", "bth_opcode", short(v4(), 0x11, 0), nil},
	{"a BTH alone, IPv6", "bth_opcode", short(v6(), 0x11, 0), nil},
	{"a BTH alone, RoCEv1", "bth_opcode", short(v1(), 0x11, 0), nil},
	{"a BTH alone, of a CNP", "cnp_rx", short(v4(), ib.OpCNP, 0), nil},
	{"a BTH alone, transport version 1", "bth_tver", sign(patch(short(v4(), 0x11, 0), at4BTH+inBTHFlags, 0x71)), nil},
	{"a UD send without DETH", "bth_len", short(v4(), ib.OpUDSendOnly, 0), nil},
	{"a UD send with half a DETH", "bth_len", short(v4(), ib.OpUDSendOnly, 4), nil},
	{"a UD send with half a DETH, IPv6", "bth_len", short(v6(), ib.OpUDSendOnly, 4), nil},
	{"a UD send with half a DETH, RoCEv1", "bth_len", short(v1(), ib.OpUDSendOnly, 4), nil},
	{"a UD send with immediate and half a DETH", "bth_len", short(v4(), ib.OpUDSendOnlyImm, 4), nil},
	{"a UD send to a group with half a DETH", "bth_len", short(v4(to(group4)), ib.OpUDSendOnly, 4), nil},
	{"immediate promised, not there", "bth_len", v4(opcode(ib.OpUDSendOnlyImm), payload(0)), nil},
	{"pad without payload", "bth_pad", sign(patch(v4(payload(0)), at4BTH+inBTHFlags, 0x70)), nil},
	{"pad without payload behind an immediate", "bth_pad", sign(patch(v4(imm(1), payload(0)), at4BTH+inBTHFlags, 0x50)), nil},
	{"pad bytes not zero", "", sign(patch(v4(), 67, 1, 2, 3)), nil},
	{"reserved bits", "", sign(patch(patch(patch(v4(), at4BTH+inBTHResv, 0x3f), at4BTH+inBTHAck, 0x7f), at4BTH+inDETHResv, 0xff)), nil},
	{"acknowledge request", "", sign(patch(v4(), at4BTH+inBTHAck, 0x80)), nil},
	{"no payload", "", v4(payload(0)), nil},
	{"no payload but an immediate", "", v4(imm(1), payload(0)), nil},
	{"one byte of payload", "", v4(payload(1)), nil},
	{"PSN at its end", "", v4(func(p *roce.Packet) { p.PSN = 0xffffff }), nil},
	{"marked CE", "", v4(func(p *roce.Packet) { p.TClass |= 3 }), nil},
	{"with FECN and BECN", "", v4(func(p *roce.Packet) { p.FECN, p.BECN = true, true }), nil},
	{"another partition", "pkey", v4(func(p *roce.Packet) { p.PKey = 0x8001 }), nil},
	{"P_Key 0", "pkey", v4(func(p *roce.Packet) { p.PKey = 0 }), nil},
	{"P_Key 0x8000", "pkey", v4(func(p *roce.Packet) { p.PKey = 0x8000 }), nil},
	{"a limited member to a full one", "", v4(func(p *roce.Packet) { p.PKey = 0x7fff }), nil},
	{"a full member to a limited one", "", v4(), func(w *fixture) { w.config.RoCEPKey = 0x7fff }},
	{"a limited member to a limited one", "pkey", v4(func(p *roce.Packet) { p.PKey = 0x7fff }), func(w *fixture) { w.config.RoCEPKey = 0x7fff }},
	{"P_Key 0 to a bridge without partition", "pkey", v4(func(p *roce.Packet) { p.PKey = 0 }), func(w *fixture) { w.config.RoCEPKey = 0x8000 }},
	{"to QP 0", "qp0", v4(func(p *roce.Packet) { p.DestQP = 0 }), nil},
	{"to QP 0 in RoCEv1", "qp0", v1(func(p *roce.Packet) { p.DestQP = 0 }), nil},
	{"multicast address, unicast QPN", "mcast_incons", v4(to(group4), func(p *roce.Packet) { p.DestQP = nodeQPN }), nil},
	{"multicast address, QP 1", "mcast_incons", v4(to(group4), func(p *roce.Packet) { p.DestQP = 1 }), nil},
	{"unicast address, multicast QPN", "mcast_incons", v4(func(p *roce.Packet) { p.DestQP = ib.QPMulticast }), nil},
	{"to QP 1 with another Q_Key", "qkey", v4(toQP1(ib.QKeyRDMAUDP, 256)), nil},
	{"to QP 1, 255 bytes", "mad_len", v4(toQP1(ib.QKeyGSI, 255)), nil},
	{"to QP 1, 260 bytes", "mad_len", v4(toQP1(ib.QKeyGSI, 260)), nil},
	{"to QP 1, a datagram", "mad_unserved", v4(toQP1(ib.QKeyGSI, 256)), nil},
	{"a SIDR request", "mad_served", v4(sidr(ib.AttrSIDRReq)), nil},
	{"a SIDR request, IPv6", "mad_served", v6(sidr(ib.AttrSIDRReq)), nil},
	{"a SIDR request, RoCEv1", "mad_served", v1(sidr(ib.AttrSIDRReq)), nil},
	{"a SIDR answer", "mad_served", v4(sidr(ib.AttrSIDRRep)), nil},
	{"a request for a connection", "mad_unserved", v4(sidr(0x10)), nil},
	{"another attribute above SIDR's", "mad_unserved", v4(sidr(0x19)), nil},
	{"an attribute like SIDR's", "mad_unserved", v4(sidr(0x0117)), nil},
	{"SIDR of another base version", "mad_unserved", v4(sidr(ib.AttrSIDRReq, xor(0, 3))), nil},
	{"SIDR's attribute in another class", "mad_unserved", v4(sidr(ib.AttrSIDRReq, xor(1, 4))), nil},
	{"SIDR of another class version", "mad_unserved", v4(sidr(ib.AttrSIDRReq, xor(2, 3))), nil},
	{"SIDR by another method", "mad_unserved", v4(sidr(ib.AttrSIDRReq, xor(3, 0x80))), nil},
	{"a SIDR request with another Q_Key", "qkey", v4(sidr(ib.AttrSIDRReq), func(p *roce.Packet) { p.QKey++ }), nil},
	{"a SIDR request to a group", "mcast_incons", v4(to(group4), sidr(ib.AttrSIDRReq)), nil},
	{"a controlled Q_Key", "qkey_controlled", v4(func(p *roce.Packet) { p.QKey = 0x80000001 }), nil},
	{"QP 1's Q_Key to another QP", "qkey_controlled", v4(func(p *roce.Packet) { p.QKey = ib.QKeyGSI }), nil},
	{"from QP 0", "srcqp", v4(func(p *roce.Packet) { p.SrcQP = 0 }), nil},
	{"from QP 1", "srcqp", v4(func(p *roce.Packet) { p.SrcQP = 1 }), nil},
	{"from the multicast QPN", "srcqp", v4(func(p *roce.Packet) { p.SrcQP = ib.QPMulticast }), nil},
}

func fromNewcomer(ip netip.Addr) func(*roce.Packet) {
	return func(p *roce.Packet) { p.SrcIP = ip }
}

// policyCases are about checks against the tables.
var policyCases = []roceCase{
	{"to another RoCE host", "same_side", v4(fromNewcomer(newcomerIP), dest(hostIP.String())), nil},
	{"to a node of another partition", "wrong_partition", v4(), otherPartition},
	{"to a node of the segment's partition", "", v4(dest("10.10.0.4")), otherPartition},
	{"to nobody", "node_unknown", v4(dest("10.10.0.77")), nil},
	{"to nobody, IPv6", "node_unknown", v6(dest("2001:db8::77")), nil},
	{"to the bridge itself", "node_unknown", v4(dest("10.10.0.254")), nil},
	{"to a group", "", v4(to(group4)), nil},
	{"to an IPv6 group", "", v6(to(group6)), nil},
	{"to an IPv4 group in RoCEv1's form", "", v1(to(group1)), nil},
	{"to a group that is not bridged", "mc_unknown", v4(to(noGroup)), nil},
	{"to an IPv6 group that is not bridged", "mc_unknown", v6(to(noGroup6)), nil},
	{"to a link-local group", "mc_control", v4(to(control4)), nil},
	{"to a link-local IPv6 group", "mc_control", v6(to(control6)), nil},
	{"to a link-local group in RoCEv1's form", "mc_control", v1(to(control4)), nil},
	{"to IPoIB's broadcast group", "mc_control", v1(to(group6), dest("ff12:401b:ffff::ffff:ffff")), nil},
	{"to a link-local group that is configured", "", v4(to(groupMDNS)), nil},
	{"to a group that is closed this way", "mc_direction", v4(to(groupIn)), nil},
	{"to a group with InfiniBand's Q_Key", "qkey", v4(to(group4), func(p *roce.Packet) { p.QKey = groupIB }), nil},
	{"the largest payload of a group", "", v4(to(group4), payload(2048)), nil},
	{"more than the largest payload of a group", "mtu_exceeded", v4(to(group4), payload(2049)), nil},
	{"the largest payload", "", v4(payload(1024)), func(w *fixture) { w.nodes[0].MTU = 1024 }},
	{"more than the largest payload", "mtu_exceeded", v4(payload(1025)), func(w *fixture) { w.nodes[0].MTU = 1024 }},
	{"the largest payload of a path, where another's is less", "", v4(payload(4096)), func(w *fixture) { w.nodes[1].MTU = 256 }},
	{"jumbo", "mtu_exceeded", v4(payload(4100)), nil},
	{"an unknown QPN from outside the allowed subnets", "acl", v4(fromNewcomer(strangerIP)), nil},
	{"a known QPN needs no allowance", "", v4(), func(w *fixture) { w.config.Allow = nil }},
	{"nothing is allowed", "acl", v4(fromNewcomer(newcomerIP)), func(w *fixture) { w.config.Allow = nil }},
	{"just outside a prefix that ends inside a byte", "acl", v4(from("10.10.0.128")), func(w *fixture) {
		w.config.Allow = []netip.Prefix{netip.MustParsePrefix("10.10.0.0/25")}
	}},
	{"all of IPv6 is nothing of IPv4", "acl", v4(fromNewcomer(newcomerIP)), func(w *fixture) {
		w.config.Allow = []netip.Prefix{netip.MustParsePrefix("::/0")}
	}},
	{"an IPv4 prefix is not one of IPv6", "acl", v6(from("a0a::1")), func(w *fixture) {
		w.config.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	}},
	{"from an IB node's address", "loop_bridge", v4(from("10.10.0.4")), nil},
	{"from an IB node's IPv6 address", "loop_bridge", v6(from("2001:db8::b")), nil},
}
