// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"maps"
	"slices"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// bridgeMessage sends a message of another bridge; edit damages it.
func bridgeMessage(edit ...func(mad []byte)) func(*roce.Packet) {
	return func(p *roce.Packet) {
		p.SrcQP, p.DestQP, p.QKey, p.Payload = ib.QP1, ib.QP1, ib.QKeyGSI, make([]byte, ib.MADLen)
		ib.PutBridgeMAD(p.Payload, ib.BridgeMADFields{TID: 1, Data: pattern(100)})
		for _, f := range edit {
			f(p.Payload)
		}
	}
}

// To the bridge's own addresses, from another bridge's, which nothing allows.
var (
	peer4, peer6 = from("10.10.0.253"), from("2001:db8::fd")
	own4, own6   = dest("10.10.0.254"), dest("2001:db8::fe")
)

// toOwn is such a message, damaged or not.
func toOwn(edit ...func(mad []byte)) []byte { return v4(bridgeMessage(edit...), peer4, own4) }

// messageCases are about messages of bridges to each other.
var messageCases = []roceCase{
	{"a bridge's message", "mad_served", toOwn(), nil},
	{"a bridge's message, IPv6", "mad_served", v6(bridgeMessage(), peer6, own6), nil},
	{"a bridge's message, VLAN", "mad_served", tagged(toOwn(), 0x81, 0, 0, 0), nil},
	{"a bridge's message from an address that nothing allows", "mad_served", v4(bridgeMessage(), from("192.0.2.9"), own4), nil},
	{"a bridge's message whose length is wrong, which management finds", "mad_served", toOwn(xor(23, 0xff)), nil},
	{"a bridge's message to a node", "mad_unserved", v4(bridgeMessage(), peer4), nil},
	{"a bridge's message to another bridge", "mad_unserved", v4(bridgeMessage(), peer4, dest("10.10.0.252")), nil},
	{"a bridge's message, IPv6, to a node", "mad_unserved", v6(bridgeMessage(), peer6), nil},
	{"a bridge's message to a group", "mcast_incons", v4(to(group4), bridgeMessage()), nil},
	{"a bridge's message, another base version", "mad_unserved", toOwn(xor(0, 2)), nil},
	{"a bridge's message, another class", "mad_unserved", toOwn(xor(1, 1)), nil},
	{"a bridge's message, another class version", "mad_unserved", toOwn(xor(2, 1)), nil},
	{"a bridge's message, another method", "mad_unserved", toOwn(xor(3, 0x80)), nil},
	{"a bridge's message, another OUI", "mad_unserved", toOwn(xor(37, 1)), nil},
	{"a bridge's message, an OUI that differs last", "mad_unserved", toOwn(xor(39, 0x80)), nil},
	{"a bridge's message, a byte longer", "mad_len", v4(bridgeMessage(), peer4, own4, func(p *roce.Packet) { p.Payload = append(p.Payload, 0) }), nil},
	{"a bridge's message, another Q_Key", "qkey", v4(bridgeMessage(), peer4, own4, func(p *roce.Packet) { p.QKey = 0x80010001 }), nil},
	{"a bridge's message, another partition", "pkey", v4(bridgeMessage(), peer4, own4, func(p *roce.Packet) { p.PKey = 0x8001 }), nil},
	{"a bridge's message, ICRC wrong", "icrc", patch(toOwn(), 200, toOwn()[200]^1), nil},
	{"a bridge's message from its own address", "loop_self", v4(bridgeMessage(), from("10.10.0.254")), nil},
}

// TestMessagesOfBridges: what another bridge's MAC address sends is dropped, and so is what a host sends whose shard another
// member of the fleet has; messages are not.
func TestMessagesOfBridges(t *testing.T) {
	s := newRig(t, smallFixture().with(member))
	if err := s.datapath.SetBridges([][6]byte{listedMAC}); err != nil {
		t.Fatal(err)
	}
	message := v4(bridgeMessage(), peer4, own4, fromMAC(listedMAC))
	for _, c := range []struct {
		frame []byte
		drop  string
	}{
		{message, "mad_served"}, {toOwn(), "mad_served"}, {v4(), "not_mine"}, {v4(fromNewcomer(newcomerIP), fromMAC(listedMAC)), "loop_bridge"},
		{message, "mad_served"},
	} {
		before := s.counters(lcore.RoCEToIB)
		s.fromRoCE(c.frame)
		checkVerdict(t, s, lcore.RoCEToIB, before, c.drop)
	}
}

// TestMessagesShare checks what a flood of messages takes of the punt ring: as much as one of any MAD. ARP and hosts that
// are known find room, as do bridges that are on the list. Each packet is accounted for.
func TestMessagesShare(t *testing.T) {
	for _, c := range []struct {
		name  string
		flood func(i int) []byte
		most  uint64
	}{
		{"of one stranger", func(int) []byte { return toOwn() }, puntedMost},
		{"of many strangers", func(i int) []byte { return v4(bridgeMessage(), own4, from(unknownIP(i).String())) }, puntClass},
		{"of a listed bridge's MAC address", func(i int) []byte {
			return v4(bridgeMessage(), own4, from(unknownIP(i).String()), fromMAC(listedMAC))
		}, puntedMost},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := smallFixture()
			for i := range w.hosts {
				w.hosts[i].Confirmed = true
			}
			s := newRig(t, w)
			if err := s.datapath.SetBridges(append(slices.Clone(otherListedMACs), listedMAC)); err != nil {
				t.Fatal(err)
			}
			s.ignorePunts = true
			sent := uint64(0)
			for ; sent < puntClass+512; sent++ {
				s.fromRoCE(c.flood(int(sent)))
			}
			served, full := named(t, "mad_served"), named(t, "punt_full")
			for d := range served {
				served[d] = c.most
			}
			for d := range full {
				served[d] = sent - c.most
			}
			if got := s.counters(lcore.RoCEToIB); !maps.Equal(got.Drops, served) || got.Received != sent {
				t.Errorf("received %d, dropped %v, want %v", got.Received, got.Drops, served)
			}
			checkRoom(t, s)
		})
	}
}

// checkRoom checks that ARP, hosts that are known, and bridges that are on the list find room on the punt ring: of several
// of each at least one, because any one may share the flood's part.
func checkRoom(t *testing.T, s *rig) {
	t.Helper()
	served := dropNamed(t, "mad_served")
	handed, in := s.datapath.Counters().Punt.Handed, s.counters(lcore.RoCEToIB)
	s.fromRoCE(arpOf(1_000_000), arpOf(2_000_000), arpOf(3_000_000), arpOf(4_000_000))
	for _, mac := range otherListedMACs {
		s.fromRoCE(v4(bridgeMessage(), peer4, own4, fromMAC(mac)))
	}
	another := func(p *roce.Packet) { p.SrcQP = 0x99999 }
	s.fromRoCE(v4(another), v6(another), v1(another))
	after := s.counters(lcore.RoCEToIB)
	if s.datapath.Counters().Punt.Handed == handed {
		t.Error("ARP finds no room")
	}
	if after.Drops[served] == in.Drops[served] {
		t.Error("no other bridge's message finds room")
	}
	if after.ProxyQPWaits == in.ProxyQPWaits {
		t.Error("no host that is known finds room")
	}
}

var (
	listedMAC       = [6]byte{2, 0xb, 5: 1}
	otherListedMACs = [][6]byte{{2, 0xb, 5: 2}, {2, 0xb, 5: 3}, {2, 0xc, 0xde, 5: 2}, {2, 0xd, 0x17, 0x22, 5: 9}}
)
