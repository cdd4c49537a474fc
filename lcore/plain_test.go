// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// plainUDP returns a datagram of the host, as changed.
func plainUDP(src, dst netip.Addr, port uint16, n int, change ...func(*frame.Datagram)) []byte {
	d := frame.Datagram{Src: netip.AddrPortFrom(src, 40000), Dst: netip.AddrPortFrom(dst, port), TOS: 0x62, TTL: 8, Checksum: true}
	for _, f := range change {
		f(&d)
	}
	return frame.AppendUDP(nil, frame.Link{MAC: hostMAC}, frame.GroupMAC(dst), d, pattern(n))
}

func plain4(group netip.Addr, port uint16, n int, change ...func(*frame.Datagram)) []byte {
	return plainUDP(hostIP, group, port, n, change...)
}

func plain6(port uint16, n int, change ...func(*frame.Datagram)) []byte {
	return plainUDP(hostIP6, group6, port, n, change...)
}

func noChecksum(d *frame.Datagram) { d.Checksum = false }

func plainFrom(ip netip.Addr) func(*frame.Datagram) {
	return func(d *frame.Datagram) { d.Src = netip.AddrPortFrom(ip, 40000) }
}

// withLens changes the lengths of an untagged IPv4 datagram.
func withLens(f []byte, ip, udp int) []byte {
	return sum(patch(patch(f, at4Len, byte(ip>>8), byte(ip)), at4UDP+inUDPLen, byte(udp>>8), byte(udp)))
}

// plainCases are about plain UDP.
var plainCases = []roceCase{
	{"plain UDP", "", plain4(group4, plainPort, 100), nil},
	{"plain UDP, IPv6", "", plain6(plainPort, 100), nil},
	{"plain UDP to an address without a RoCE group", "", plain4(plainOnly, plainPort, 1), nil},
	{"an empty datagram", "", plain4(group4, plainPort, 0), nil},
	{"plain UDP without RoCEv2", "", plain4(group4, plainPort, 9), onlyVersion(lcore.V1)},
	{"plain UDP without a checksum", "", plain4(group4, plainPort, 100, noChecksum), nil},
	{"plain UDP in the VLAN", "", tagged(plain4(group4, plainPort, 100), 0x81, 0, 0x20, 100), inVLAN100},

	{"plain UDP, checksum unfinished", "", unfinished(plain4(group4, plainPort, 100)), nil},
	{"plain UDP, checksum unfinished, IPv6", "", unfinished(plain6(plainPort, 100)), nil},
	{"plain UDP without a checksum, IPv6", "udp_csum", plain6(plainPort, 100, noChecksum), nil},
	{"plain UDP, checksum wrong", "udp_csum", wrongUDPSum(plain4(group4, plainPort, 100), at4UDP), nil},
	{"plain UDP, checksum wrong, IPv6", "udp_csum", wrongUDPSum(plain6(plainPort, 100), at6UDP), nil},
	{"plain UDP, IPv4 checksum wrong", "ip_csum", patch(plain4(group4, plainPort, 100), at4Sum, 1, 2), nil},
	{"plain UDP to another port of the group", "not_roce", plain4(group4, noPort, 100), nil},
	{"plain UDP to another group", "not_roce", plain4(noGroup, plainPort, 100), nil},
	{"plain UDP to a node", "not_roce", patch(plainUDP(hostIP, nodeIP, plainPort, 100), 0, bridgeMAC[:]...), nil},
	{"UDP to port 0 of a RoCE group", "not_roce", plain4(group4, 0, 100), nil},
	{"RoCE of the QPN that stands for plain UDP", "srcqp", v4(func(p *roce.Packet) { p.SrcQP = tables.PlainQPN & 0xffffff }), nil},
	{"RoCE to a group that is plain UDP", "mc_unknown", v4(to(plainOnly)), nil},
	{"plain UDP, first fragment", "ip_frag", sum(patch(plain4(group4, plainPort, 100), at4Frag, 0x20, 0)), nil},
	{"plain UDP, last fragment", "ip_frag", sum(patch(plain4(group4, plainPort, 100), at4Frag, 0, 9)), nil},
	{"plain UDP, IPv6 fragment", "ip6_ext", patch(plain6(plainPort, 100), at6Next, 44), nil},
	{"plain UDP with TTL 0", "ip_ttl", plain4(group4, plainPort, 100, func(d *frame.Datagram) { d.TTL = 0 }), nil},
	{"plain UDP, length 7", "udp_len", withLens(plain4(group4, plainPort, 100), 128, 7), nil},
	{"plain UDP longer than IPv4", "udp_len", withLens(plain4(group4, plainPort, 100), 128, 109), nil},
	{"plain UDP shorter than IPv4", "ip_len", withLens(plain4(group4, plainPort, 100), 128, 107), nil},
	{"plain UDP cut off", "udp_len", withLens(plain4(group4, plainPort, 100), 27, 8), nil},
	{"plain UDP of the bridge's own", "loop_self", plain4(group4, plainPort, 100, plainFrom(bridgeIP.Addr())), nil},
	{"plain UDP that a bridge has sent for a node", "loop_bridge", plain4(group4, plainPort, 100, plainFrom(nodeIP)), nil},
	{"plain UDP of a stranger", "acl", plain4(group4, plainPort, 100, plainFrom(strangerIP)), nil},
	{"plain UDP of the group's MTU", "", plain4(group4, plainPort, plainToIB), nil},
	{"plain UDP above the group's MTU", "mtu_exceeded", plain4(group4, plainPort, plainToIB+1), nil},
	{"plain UDP to a group that is closed this way", "mc_direction", plain4(group4, plainOut, 100),
		func(w *fixture) { w.groupAt(tables.GroupAddr{IP: group4, UDPPort: plainOut}).ToIB = false }},
}

// A datagram crosses from the bytes that a kernel sends to what the IB port must get, and the other way.
func TestPlainWorkedExamples(t *testing.T) {
	s := newRig(t, smallFixture())
	got := s.crossing(unhex(t, `01005e010203 020000000001 0800 4562 0021 1234 0000 08 11 a527 0a0a0001 ef010203 9c40 1267 000d 324b 48656c6c6f`))
	wanted := posted{Sent: fabricport.Sent{QP: proxyQP + 3, DGID: plainMGID(group4, plainPort), DLID: 0xc101, SL: 4, HopLimit: 9, TClass: 0x62,
		DestQP: ib.QPMulticast, QKey: groupIB, HasGRH: true, Len: 5}, payload: "Hello"}
	if !got.equal(&wanted) {
		t.Errorf("got  %+v\nwant %+v", got, wanted)
	}
	for _, x := range []struct{ name, mgid, frame string }{
		{"IPv4", plainMGID(group4, plainPort).String(), `01005e010203 020000000002 0800 4560 0021 0000 4000 11 11 6e5c 0a0a0002 ef010203
			1267 1267 000d bc23 48656c6c6f 00000000000000000000000000`},
		{"IPv6", plainMGID(group6, plainPort).String(), `333300020003 020000000002 86dd 66012345 000d 11 11 20010db8000000000000000000000002
			ff150000000000000000000100020003 1267 1267 000d 8a5d 48656c6c6f`},
	} {
		s.fromIB(received(toGroup(mustGID(x.mgid)), func(m *message) { m.HasImm, m.Imm = true, 7 }))
		if f := s.toRoCE(0); len(f) != 1 || hex.EncodeToString(f[0]) != hex.EncodeToString(unhex(t, x.frame)) {
			t.Errorf("%s:\ngot  %x\nwant %x", x.name, f, unhex(t, x.frame))
		}
	}
}

// Payloads of every length cross both ways unchanged, between RoCE packets of the same burst and of the same address.
func TestPlainLengths(t *testing.T) {
	s := newRig(t, smallFixture())
	s.dirtyMbufs()
	for n := range plainToEth + 1 {
		s.fromRoCE(v4(to(group4)), plain4(group4, plainPort, n), v4(), plain6(plainPort, n), v6(to(group6)))
		got := s.toIB(0)
		if len(got) != 5 {
			t.Fatalf("%d bytes: %d messages: %v", n, len(got), s.counters(lcore.RoCEToIB))
		}
		for _, i := range []int{1, 3} {
			if string(got[i].Payload) != string(pattern(n)) || got[i].DGID[8] == 0 {
				t.Fatalf("%d bytes: message %d: %+v", n, i, got[i])
			}
		}
		m := func(m *message) { m.Payload = pattern(n) }
		s.fromIB(received(m), received(toGroup(plainMGID(group4, plainPort)), m), received(toGroup(plainMGID(group6, plainPort)), m), received(toGroup(mgidOf(group4)), m))
		frames := s.toRoCE(0)
		if len(frames) != 4 {
			t.Fatalf("%d bytes: %d frames: %v", n, len(frames), s.counters(lcore.IBToRoCE))
		}
		for _, f := range frames[1:3] {
			checkPlain(t, f, n)
		}
	}
}

// checkPlain checks what hosts check of a datagram.
func checkPlain(t *testing.T, b []byte, n int) {
	t.Helper()
	f, fault := frame.Open(b)
	if fault != "" {
		t.Fatalf("%d bytes: %v: %x", n, fault, b)
	}
	u, payload, fault := f.UDP()
	if fault != "" || u.Checksum() == 0 || u.SrcPort() != plainPort || u.DstPort() != plainPort || string(payload) != string(pattern(n)) {
		t.Fatalf("%d bytes: %v: %x", n, fault, b)
	}
}

// A checksum that adds up to 0 is sent as 0xffff (RFC 768).
func TestPlainChecksumZero(t *testing.T) {
	s := newRig(t, smallFixture())
	mgid := plainMGID(group4, plainPort)
	s.fromIB(received(toGroup(mgid), func(m *message) { m.Payload = []byte{0, 0} }))
	f := s.toRoCE(0)[0]
	s.fromIB(received(toGroup(mgid), func(m *message) { m.Payload = f[at4UDP+inUDPSum : at4UDP+8] }))
	if f = s.toRoCE(0)[0]; f[at4UDP+inUDPSum] != 0xff || f[at4UDP+inUDPSum+1] != 0xff {
		t.Errorf("the checksum is % x", f[at4UDP+inUDPSum:at4UDP+8])
	}
}

// Nothing is answered to the proxy QP that sends a host's plain UDP.
func TestPlainHostIsNotReached(t *testing.T) {
	s := newRig(t, smallFixture())
	before := s.counters(lcore.IBToRoCE)
	s.fromIB(received(func(m *message) { m.QPN = proxyQPN + 3 }))
	checkVerdict(t, s, lcore.IBToRoCE, before, "proxy_qp_unknown")
}

// A host that sends its first datagram waits for a proxy QP, and the datagram crosses when it is there; a datagram of
// another worker's host is handed off.
func TestPlainWaitsAndHandoff(t *testing.T) {
	s := newRig(t, smallFixture().with(func(w *fixture) { w.workers = 2; w.proxyQPs[3].Worker = 1 }))
	s.fromRoCE(plain4(group4, plainPort, 5, plainFrom(newcomerIP)))
	punted := s.takePunted()
	if len(punted) != 1 || punted[0].Pending == nil {
		t.Fatalf("punted %+v", punted)
	}
	if _, err := s.tables.Hosts.Put(tables.Host{IP: newcomerIP, MAC: hostMAC, Version: lcore.V2}); err != nil {
		t.Fatal(err)
	}
	x := tables.ProxyQP{HostQP: tables.HostQP{Host: newcomerIP, HostQPN: tables.PlainQPN}, QP: 90, QPN: 0x900, QKey: hostQKey, Version: tables.PlainUDP}
	if _, err := s.tables.ProxyQPs.Put(x); err != nil {
		t.Fatal(err)
	}
	punted[0].Pending.Requeue()
	s.work()
	if got := s.toIB(0); len(got) != 1 || got[0].QP != 90 || string(got[0].Payload) != string(pattern(5)) {
		t.Errorf("the port got %+v", got)
	}
	s.fromRoCE(plain4(group4, plainPort, 6))
	if got := s.toIB(1); len(got) != 1 || string(got[0].Payload) != string(pattern(6)) {
		t.Errorf("the other worker sent %+v", got)
	}
}

// Rates, counters and mirrors are of the group with its port.
func TestPlainGroupActions(t *testing.T) {
	addr := tables.GroupAddr{IP: group4, UDPPort: plainPort}
	s := newRig(t, smallFixture().with(func(w *fixture) { w.groupAt(addr).Policed = true }))
	_, id, _ := s.tables.Groups.Lookup(addr)
	s.datapath.Police(int(id), 1)
	sees := s.filtered("group", group4.String(), "drop", "policed")
	s.fromRoCE(repeat(plain4(group4, plainPort, 5), burstOf+3)...)
	s.fromRoCE(plain4(group4, plainOut, 5), v4(to(group4)))
	if got := s.counters(lcore.RoCEToIB); got.Drops[mustDrop(t, "policed")] != 3 || got.Sent != burstOf+2 {
		t.Errorf("%+v", got)
	}
	if saw := sees.end(); len(saw) != 3 || string(saw[0].Data) != string(plain4(group4, plainPort, 5)) {
		t.Errorf("mirrored %s", points(saw))
	}
	if c := s.datapath.Group(int(id)); c.Packets[lcore.RoCEToIB] != burstOf || c.Bytes[lcore.RoCEToIB] != 5*burstOf {
		t.Errorf("counted %+v", c)
	}
}

// What the port does not take is mirrored as dropped, and is the whole datagram again.
func TestPlainUntrimmed(t *testing.T) {
	s := newRig(t, smallFixture())
	f := plain4(group4, plainPort, 50)
	s.fromRoCE(repeat(f, rigRing)...)
	sees := s.filtered("drop", "ib_full")
	s.fromRoCE(f)
	if saw := sees.end(); len(saw) != 1 || string(saw[0].Data) != string(f) {
		t.Errorf("mirrored %+v", saw)
	}
}
