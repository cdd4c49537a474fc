// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

func grh(change func(*ib.GRHFields)) func(*message) {
	return func(m *message) {
		h, _ := ib.AsGRH(m.GRH[:])
		f := h.Fields()
		change(&f)
		m.grh(f)
	}
}

func tclass(v uint8) func(*message) { return grh(func(f *ib.GRHFields) { f.TClass = v }) }
func hops(v uint8) func(*message)   { return grh(func(f *ib.GRHFields) { f.HopLimit = v }) }
func flow(v uint32) func(*message)  { return grh(func(f *ib.GRHFields) { f.FlowLabel = v }) }
func fecn(m *message)               { m.FECN = true }
func toSix(m *message)              { m.QPN = proxyQPN + 1 }

// sendsRoCEv1 makes the host with an IPv6 address use RoCEv1.
func sendsRoCEv1(w *fixture) { w.hosts[1].Version, w.proxyQPs[1].Version = lcore.V1, lcore.V1 }

// How fields are converted on the way to RoCE. Each case changes one field of a message and checks one field of the
// frame.
var toRoCECases = []struct {
	name    string
	msg     message
	got     func(*roce.Packet) any
	want    any
	fixture func(*fixture)
}{
	{"TOS", received(tclass(0xb8)), func(p *roce.Packet) any { return p.TClass }, uint8(0xb8), nil},
	{"traffic class", received(tclass(0xb8), toSix), func(p *roce.Packet) any { return p.TClass }, uint8(0xb8), nil},
	{"TOS by the table of SLs, without a GRH", received(noGRH), func(p *roce.Packet) any { return p.TClass }, uint8(3 << 5), nil},
	{"FECN becomes CE on ECT(0)", received(tclass(0x62), fecn), func(p *roce.Packet) any { return p.TClass }, uint8(0x63), nil},
	{"FECN becomes CE on ECT(1)", received(tclass(0x61), fecn), func(p *roce.Packet) any { return p.TClass }, uint8(0x63), nil},
	{"FECN is lost on not-ECT", received(tclass(0x60), fecn), func(p *roce.Packet) any { return p.TClass }, uint8(0x60), nil},
	{"FECN does not go on in the BTH", received(tclass(0x62), fecn), func(p *roce.Packet) any { return p.FECN || p.BECN }, false, nil},
	{"ECT stays", received(tclass(0x62)), func(p *roce.Packet) any { return p.TClass }, uint8(0x62), nil},
	{"TTL one less", received(hops(200)), func(p *roce.Packet) any { return p.HopLimit }, uint8(199), nil},
	{"TTL of hop limit 2", received(hops(2)), func(p *roce.Packet) any { return p.HopLimit }, uint8(1), nil},
	{"TTL of hop limit 1", received(hops(1)), func(p *roce.Packet) any { return p.HopLimit }, uint8(64), nil},
	{"TTL of hop limit 0", received(hops(0)), func(p *roce.Packet) any { return p.HopLimit }, uint8(64), nil},
	{"TTL without a GRH", received(noGRH), func(p *roce.Packet) any { return p.HopLimit }, uint8(64), nil},
	{"the default TTL is configured", received(hops(0), toSix), func(p *roce.Packet) any { return p.HopLimit }, uint8(9), func(w *fixture) { w.config.TTL = 9 }},
	{"UDP source port of the flow label", received(), func(p *roce.Packet) any { return p.SrcPort }, uint16(0xe341), nil},
	{"UDP source port of flow label 0", received(flow(0)), func(p *roce.Packet) any { return p.SrcPort }, ib.SrcPort(0, nodeQPN, hostQPN), nil},
	{"UDP source port without a GRH", received(noGRH), func(p *roce.Packet) any { return p.SrcPort }, uint16(0xedd1), nil},
	{"UDP source port of the largest flow label", received(flow(0xfffff)), func(p *roce.Packet) any { return p.SrcPort }, uint16(0xffc0), nil},
	{"flow label in IPv6", received(flow(0xabcde), toSix), func(p *roce.Packet) any { return p.FlowLabel }, uint32(0xabcde), nil},
	{"UDP checksum", received(toSix), func(p *roce.Packet) any { return p.UDPChecksum }, false, nil},
	{"solicited event", received(func(m *message) { m.Solicited = true }), func(p *roce.Packet) any { return p.Solicited }, true, nil},
	{"no solicited event", received(), func(p *roce.Packet) any { return p.Solicited }, false, nil},
	{"the node's true QPN", received(), func(p *roce.Packet) any { return p.SrcQP }, nodeQPN, nil},
	{"the host's QPN", received(), func(p *roce.Packet) any { return p.DestQP }, hostQPN, nil},
	{"Q_Key of the host's QP", received(), func(p *roce.Packet) any { return p.QKey }, hostQKey, nil},
	{"the node's address", received(), func(p *roce.Packet) any { return p.SrcIP }, nodeIP, nil},
	{"the node's IPv6 address", received(toSix), func(p *roce.Packet) any { return p.SrcIP }, nodeIP6, nil},
	{"the node's address by its LID", received(noGRH), func(p *roce.Packet) any { return p.SrcIP }, nodeIP, nil},
	{"the host's address", received(), func(p *roce.Packet) any { return p.DstIP }, hostIP, nil},
	{"P_Key of the RoCE side", received(), func(p *roce.Packet) any { return p.PKey }, ib.PKey(0x9234), func(w *fixture) { w.config.RoCEPKey = 0x9234 }},
	{"an immediate", received(func(m *message) { m.HasImm, m.Imm = true, 0xdeadbeef }), func(p *roce.Packet) any { return p.Imm }, uint32(0xdeadbeef), nil},
	{"no immediate", received(), func(p *roce.Packet) any { return p.HasImm }, false, nil},
	{"MAC addresses", received(), func(p *roce.Packet) any { return [2]frame.MAC{p.Dst, p.Src} }, [2]frame.MAC{hostMAC, bridgeMAC}, nil},
	{"untagged", received(), func(p *roce.Packet) any { return p.Tag == nil }, true, nil},
	{"tagged, with the SL as priority", received(func(m *message) { m.SL = 13 }), tagOf, frame.VLANFields{PCP: 5, VID: 100, Type: frame.TypeIPv4}, inVLAN100},
	{"a host's own MAC address on a VLAN", received(toSix), func(p *roce.Packet) any { return p.Dst }, frame.MAC{2, 0, 0, 0, 0, 9}, hostOnVLAN},
	{"a group on a VLAN", received(toGroup(mgidOf(group4))), tagOf, frame.VLANFields{PCP: 3, VID: 100, Type: frame.TypeIPv4}, inVLAN100},
	{"RoCEv1 to a host that uses it", received(toSix), func(p *roce.Packet) any { return p.Version }, 1, sendsRoCEv1},
	{"GIDs in RoCEv1", received(toSix), func(p *roce.Packet) any { return [2]netip.Addr{p.SrcIP, p.DstIP} }, [2]netip.Addr{nodeIP6, hostIP6}, sendsRoCEv1},
	{"flow label in RoCEv1", received(flow(0xabcde), toSix), func(p *roce.Packet) any { return p.FlowLabel }, uint32(0xabcde), sendsRoCEv1},
	{"MAC address of an IPv4 group: 23 bits", received(toGroup(mgidOf(netip.MustParseAddr("239.129.2.4")))), func(p *roce.Packet) any { return p.Dst },
		frame.MAC{1, 0, 0x5e, 1, 2, 4}, func(w *fixture) { w.group(group1).Version = lcore.V2 }},
	{"MAC address of an IPv4 group in RoCEv1", received(toGroup(mgidOf(group1))), func(p *roce.Packet) any { return p.Dst }, frame.MAC{0x33, 0x33, 239, 129, 2, 4}, nil},
	{"MAC address of an IPv6 group", received(toGroup(mgidOf(group6))), func(p *roce.Packet) any { return p.Dst }, frame.MAC{0x33, 0x33, 0, 2, 0, 3}, nil},
	{"address of a group", received(toGroup(mgidOf(group4))), func(p *roce.Packet) any { return p.DstIP }, group4, nil},
	{"address of a group in RoCEv1", received(toGroup(mgidOf(group1))), func(p *roce.Packet) any { return p.DstIP }, netip.MustParseAddr("ff0e::ffff:239.129.2.4"), nil},
	{"QPN of a group", received(toGroup(mgidOf(group6))), func(p *roce.Packet) any { return p.DestQP }, ib.QPMulticast, nil},
	{"Q_Key of a group on Ethernet", received(toGroup(mgidOf(group4))), func(p *roce.Packet) any { return p.QKey }, groupRoCE, nil},
	{"TOS from a RoCE port", received(rdmaNode), func(p *roce.Packet) any { return p.TClass }, uint8(0x62), nodeByIPv4},
	{"TTL from a RoCE port", received(rdmaNode), func(p *roce.Packet) any { return p.HopLimit }, uint8(63), nodeByIPv4},
}

func tagOf(p *roce.Packet) any {
	if p.Tag == nil {
		return nil
	}
	return *p.Tag
}

func TestFieldsToRoCE(t *testing.T) {
	common := newRig(t, smallFixture())
	for _, c := range toRoCECases {
		t.Run(c.name, func(t *testing.T) {
			got := rigFor(t, common, c.fixture).answer(c.msg)
			want(t, c.name, c.got(&got), c.want)
		})
	}
}

// A frame is what the codec would write: bits that nothing sets are zero.
func TestFramesAreWholeFrames(t *testing.T) {
	for _, change := range []func(*fixture){nil, inVLAN100, sendsRoCEv1} {
		s := newRig(t, smallFixture().with(change))
		for _, m := range []message{
			received(), received(noGRH), received(toSix), received(toGroup(mgidOf(group1))), received(toGroup(mgidOf(group6)), fecn),
			received(func(m *message) { m.HasImm, m.Imm, m.Solicited = true, 1, true }),
		} {
			s.fromIB(m)
			for _, f := range s.toRoCE(0) {
				p, err := roce.Parse(f)
				if requeued := p.AppendTo(nil); err != nil || string(requeued) != string(f) {
					t.Errorf("%v:\n%x, and its fields say\n%x", err, f, requeued)
				}
			}
		}
	}
}

// PSNs increase by one for each sender, and drops leave no gap.
func TestPSNs(t *testing.T) {
	s := newRig(t, smallFixture())
	other := received(func(m *message) { m.SrcQP = nodeQPN + 1 })
	for i := range uint32(600) {
		want(t, "PSN", s.answer(received()).PSN, i)
		if i%2 == 0 {
			want(t, "PSN of another sender", s.answer(other).PSN, i/2)
		}
		s.fromIB(received(func(m *message) { m.QPN = 0x999 }))
	}
}

// A node answers a host through its proxy QP, with the addresses of the message that it received: the answer reaches
// the host.
func TestReplyThroughProxyQP(t *testing.T) {
	w := smallFixture()
	s := newRig(t, w)
	for i, f := range [][]byte{v4(), v6(), v1()} {
		asked, err := roce.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		got := s.crossing(f)
		reply := received(func(m *message) { m.QPN, m.SrcQP = w.proxyQPs[i].QPN, got.DestQP })
		want(t, "the sending QP", got.QP, w.proxyQPs[i].QP)
		if i == 2 {
			fromNode(localGID, localLID)(&reply)
		}
		p := s.answer(reply)
		want(t, "source", p.SrcIP, asked.DstIP)
		want(t, "destination", p.DstIP, asked.SrcIP)
		want(t, "source QPN", p.SrcQP, asked.DestQP)
		want(t, "destination QPN", p.DestQP, asked.SrcQP)
		want(t, "version", p.Version, asked.Version)
		want(t, "MAC address", p.Dst, asked.Src)
	}
}

// A host that moves gets its answers at its new MAC address, after one store in its entry.
func TestHostMoves(t *testing.T) {
	s := newRig(t, smallFixture())
	moved := frame.MAC{2, 0, 0, 0, 0, 0x77}
	if _, err := s.tables.Hosts.Put(tables.Host{IP: hostIP, MAC: moved, Version: lcore.V2}); err != nil {
		t.Fatal(err)
	}
	want(t, "MAC address", s.answer(received()).Dst, moved)
}
