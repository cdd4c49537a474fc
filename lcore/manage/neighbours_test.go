// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"testing"

	"causeway/lcore/frame"
)

func arp(l frame.Link, op uint16, spa, tpa netip.Addr) []byte {
	return frame.AppendARP(nil, l, frame.Broadcast, frame.ARPFields{Op: op, SHA: l.MAC, SPA: spa, TPA: tpa})
}

func TestProxyARP(t *testing.T) {
	nobody := netip.IPv4Unspecified()
	unknown := netip.MustParseAddr("10.9.0.8") // configured, and not on the subnet
	for _, c := range []struct {
		name   string
		frame  []byte
		answer netip.Addr // the address in the answer; the zero Addr: no answer
	}{
		{"for a node", arp(hostLink, frame.ARPRequest, host4, node4), node4},
		{"for the bridge", arp(hostLink, frame.ARPRequest, host4, bridge4), bridge4},
		{"for a node that may not be", arp(hostLink, frame.ARPRequest, host4, unknown), netip.Addr{}},
		{"a probe for a node", arp(hostLink, frame.ARPRequest, nobody, node4), node4},
		{"a probe for the bridge", arp(hostLink, frame.ARPRequest, nobody, bridge4), bridge4},
		{"a probe for a node that may not be", arp(hostLink, frame.ARPRequest, nobody, unknown), netip.Addr{}},
		{"a probe for a free address", arp(hostLink, frame.ARPRequest, nobody, host4), netip.Addr{}},
		{"for a RoCE host", arp(hostLink, frame.ARPRequest, host4, netip.MustParseAddr("10.9.0.2")), netip.Addr{}},
		{"for an address that nobody has", arp(hostLink, frame.ARPRequest, host4, netip.MustParseAddr("10.9.0.200")), netip.Addr{}},
		{"gratuitous, a host's", arp(hostLink, frame.ARPRequest, host4, host4), netip.Addr{}},
		{"gratuitous, a node's", arp(hostLink, frame.ARPRequest, node4, node4), netip.Addr{}},
		{"a reply about a node", arp(hostLink, frame.ARPReply, host4, node4), netip.Addr{}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, func(cfg *manageConfig, d *ibPort) {
				cfg.Nodes = append(cfg.Nodes, manageNode{IP4: unknown, GID: gid(8)})
				d.path = never
			})
			sent := frames(t, s.give(c.frame))
			if !c.answer.IsValid() {
				if len(sent) != 0 || s.count().ARPAnswered != 0 {
					t.Fatalf("answered: %x", sent)
				}
				return
			}
			if len(sent) != 1 || s.count().ARPAnswered != 1 {
				t.Fatalf("%d frames, want one answer", len(sent))
			}
			a, fault := frame.ParseARP(bridgeMAC, sent[0].Payload)
			if fault != "" || a.Op != frame.ARPReply || a.SHA != bridgeMAC || a.SPA != c.answer || a.THA != hostMAC || sent[0].Eth.Dst() != hostMAC {
				t.Errorf("answer %+v to %v, %q", a, sent[0].Eth.Dst(), fault)
			}
		})
	}
}

func ns(l frame.Link, src, target netip.Addr) []byte {
	dst := frame.SolicitedNode(target)
	f := frame.NDFields{Type: frame.NDSolicitation, Target: target, LinkLayer: l.MAC}
	if src.IsUnspecified() {
		f.LinkLayer = frame.MAC{}
	}
	return frame.AppendND(nil, l, frame.GroupMAC(dst), src, dst, f)
}

func na(l frame.Link, src netip.Addr, override bool) []byte {
	f := frame.NDFields{Type: frame.NDAdvertisement, Solicited: true, Override: override, Target: src, LinkLayer: l.MAC}
	return frame.AppendND(nil, l, bridgeMAC, src, bridge6, f)
}

func TestProxyND(t *testing.T) {
	nobody := netip.IPv6Unspecified()
	unknown := netip.MustParseAddr("fd09::8")
	for _, c := range []struct {
		name   string
		frame  []byte
		answer netip.Addr
		to     netip.Addr
	}{
		{"for a node", ns(hostLink, host6, node6), node6, host6},
		{"for the bridge", ns(hostLink, host6, bridge6), bridge6, host6},
		{"for the bridge's link-local address", ns(hostLink, host6, bridgeMAC.LinkLocal()), bridgeMAC.LinkLocal(), host6},
		{"a probe for a node", ns(hostLink, nobody, node6), node6, frame.AllNodes6},
		{"a probe for a node that may not be", ns(hostLink, nobody, unknown), netip.Addr{}, nobody},
		{"for a node that may not be", ns(hostLink, host6, unknown), netip.Addr{}, nobody},
		{"a probe for a free address", ns(hostLink, nobody, host6), netip.Addr{}, nobody},
		{"for a RoCE host", ns(hostLink, host6, netip.MustParseAddr("fd09::2")), netip.Addr{}, nobody},
		{"an advertisement", na(hostLink, host6, true), netip.Addr{}, nobody},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, func(cfg *manageConfig, d *ibPort) {
				cfg.Nodes = append(cfg.Nodes, manageNode{IP6: unknown, GID: gid(8)})
				d.path = never
			})
			sent := frames(t, s.give(c.frame))
			if !c.answer.IsValid() {
				if len(sent) != 0 || s.count().NDAnswered != 0 {
					t.Fatalf("answered: %x", sent)
				}
				return
			}
			if len(sent) != 1 || s.count().NDAnswered != 1 {
				t.Fatalf("%d frames, want one answer", len(sent))
			}
			nd, fault := frame.ParseND(bridgeMAC, sent[0].IPv6, sent[0].Payload)
			if fault != "" || nd.Type != frame.NDAdvertisement || nd.Target != c.answer || nd.LinkLayer != bridgeMAC || nd.Override ||
				nd.Solicited == c.to.IsMulticast() || sent[0].Dst() != c.to {
				t.Errorf("answer %+v to %v, %q", nd, sent[0].Dst(), fault)
			}
		})
	}
}

// TestAnswerThatCannotBeSent checks that an answer that could not be sent is not counted.
func TestAnswerThatCannotBeSent(t *testing.T) {
	bubble(t, "full", func(t *testing.T) {
		s := start(t, nil)
		s.w.setFull(true)
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.give(ns(hostLink, host6, node6))
		if c := s.count(); c.ARPAnswered != 0 || c.NDAnswered != 0 || c.SendFailed != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// TestTagged checks that answers are sent on the bridge's VLAN.
func TestTagged(t *testing.T) {
	bubble(t, "vlan 100", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, _ *ibPort) { cfg.VLAN = 100 })
		tagged := frame.Link{MAC: hostMAC, VID: 100}
		for _, b := range [][]byte{arp(tagged, frame.ARPRequest, host4, node4), ns(tagged, host6, node6), ping4(tagged, 0)} {
			if sent := frames(t, s.give(b)); len(sent) != 1 || sent[0].Tag == nil || sent[0].Tag.VID() != 100 {
				t.Errorf("answer %x to %x", sent, b)
			}
		}
		if h, ok := s.host(host4); !ok || h.VLAN != 100 {
			t.Errorf("learned %+v", h)
		}
	})
}
