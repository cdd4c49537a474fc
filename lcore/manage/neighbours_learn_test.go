// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

func TestLearning(t *testing.T) {
	for _, c := range []struct {
		name  string
		ip    netip.Addr
		frame []byte
		known bool
	}{
		{"a request", host4, arp(hostLink, frame.ARPRequest, host4, node4), true},
		{"a request for somebody else", host4, arp(hostLink, frame.ARPRequest, host4, netip.MustParseAddr("10.9.0.2")), true},
		{"gratuitous", host4, arp(hostLink, frame.ARPRequest, host4, host4), true},
		{"a reply", host4, arp(hostLink, frame.ARPReply, host4, bridge4), true},
		{"a probe", host4, arp(hostLink, frame.ARPRequest, netip.IPv4Unspecified(), host4), false},
		{"from another subnet", far4, arp(hostLink, frame.ARPRequest, far4, node4), false},
		{"a solicitation", host6, ns(hostLink, host6, node6), true},
		{"a solicitation from a link-local address", hostMAC.LinkLocal(), ns(hostLink, hostMAC.LinkLocal(), node6), true},
		{"an advertisement", host6, na(hostLink, host6, true), true},
		{"an advertisement without Override", host6, na(hostLink, host6, false), true},
		{"an echo of the bridge's own", host4, arp(frame.Link{MAC: bridgeMAC}, frame.ARPRequest, host4, node4), false},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, nil)
			s.give(c.frame)
			h, known := s.host(c.ip)
			if known != c.known {
				t.Fatalf("known: %v, want %v", known, c.known)
			}
			want := tables.Host{IP: c.ip, MAC: hostMAC, Version: 2}
			if known && h != want {
				t.Errorf("learned %+v, want %+v", h, want)
			}
			if n := s.count(); n.HostsLearned != uint64(s.tables.Hosts.Len()) || n.Spoofs != 0 {
				t.Errorf("%d hosts, counted %+v", s.tables.Hosts.Len(), n)
			}
		})
	}
}

// TestMoving checks that a host that does not answer at its MAC address moves to the one that claims it, half a second
// later; but not by an advertisement without Override.
func TestMoving(t *testing.T) {
	for _, c := range []struct {
		name  string
		ip    netip.Addr
		first []byte
		then  []byte
		moved bool
	}{
		{"by ARP", host4, arp(hostLink, frame.ARPRequest, host4, node4), arp(otherLink, frame.ARPRequest, host4, host4), true},
		{"by Override", host6, ns(hostLink, host6, node6), na(otherLink, host6, true), true},
		{"without Override", host6, ns(hostLink, host6, node6), na(otherLink, host6, false), false},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, nil)
			s.give(c.first)
			s.give(c.then)
			if h, _ := s.host(c.ip); h.MAC != hostMAC {
				t.Error("moved before it was asked")
			}
			s.wait(claimTime)
			h, _ := s.host(c.ip)
			if moved := h.MAC == otherMAC; moved != c.moved {
				t.Errorf("is at %v", frame.MAC(h.MAC))
			}
			if n := s.count(); (n.HostsMoved == 1) != c.moved || n.HostsLearned != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestStaticWins(t *testing.T) {
	bubble(t, "static", func(t *testing.T) {
		static := tables.Host{IP: host4, MAC: hostMAC, VLAN: 0, Version: 2, Static: true}
		s := start(t, func(cfg *manageConfig, _ *ibPort) { cfg.Hosts = []tables.Host{static} })
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		if n := s.count().Spoofs; n != 0 {
			t.Errorf("its own claim counts as %d spoofs", n)
		}
		s.give(arp(otherLink, frame.ARPRequest, host4, node4))
		if h, _ := s.host(host4); h != static {
			t.Errorf("became %+v", h)
		}
		if n := s.count(); n.Spoofs != 1 || n.HostsMoved != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestSpoofs checks that no station on Ethernet can take the address of the bridge or of a node.
func TestSpoofs(t *testing.T) {
	for name, b := range map[string][]byte{
		"a node by ARP":     arp(hostLink, frame.ARPRequest, node4, host4),
		"the bridge by ARP": arp(hostLink, frame.ARPRequest, bridge4, bridge4),
		"a node by ND":      ns(hostLink, node6, bridge6),
		"the bridge by ND":  na(hostLink, bridge6, true),
		"link-local":        na(hostLink, bridgeMAC.LinkLocal(), true),
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, nil)
			s.give(b)
			if n := s.count(); n.Spoofs != 1 || s.tables.Hosts.Len() != 0 {
				t.Errorf("%d hosts, %+v", s.tables.Hosts.Len(), n)
			}
		})
	}
}

// TestHostsLimit checks that a flood stops at the limit, in the log too, and does not keep out a host that sends data.
func TestHostsLimit(t *testing.T) {
	bubble(t, "flood", func(t *testing.T) {
		s := startWith(t, tables.Config{MaxHosts: 8, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 4, MaxReaders: 1},
			func(c *manageConfig, _ *ibPort) { c.MaxHosts = 4 })
		worker, err := s.tables.Reader(0) // a reader that never makes progress, so that deleted entries are not freed
		if err != nil {
			t.Fatal(err)
		}
		defer worker.Close()
		for i := range 100 {
			s.w.give(manage.Punted{Data: arp(hostLink, frame.ARPRequest, netip.AddrFrom4([4]byte{10, 9, 0, byte(100 + i)}), node4)})
		}
		s.settle()
		n := s.count()
		if s.tables.Hosts.Len() != 4 || n.HostsLearned != 4 || n.HostsRejected != 96 || n.ARPAnswered != 100 {
			t.Errorf("%d hosts, %+v", s.tables.Hosts.Len(), n)
		}
		if lines := s.log.count("host_rejected"); lines != 1 {
			t.Errorf("%d lines in the log", lines)
		}
		for i := range 4 {
			if h := s.punt(hostLink, netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)}), 0x11); h.ended() != "requeued" {
				t.Errorf("host %d's data ended by %q", i, h.ended())
			}
		}
		if h := s.punt(hostLink, netip.MustParseAddr("10.9.0.5"), 0x11); h.ended() != "full" { // every host has proxy QPs now
			t.Errorf("one more host's data ended by %q", h.ended())
		}
		if n := s.count(); n.HostsEvicted != 4 || s.tables.Hosts.Len() != 4 {
			t.Errorf("%d hosts, %+v", s.tables.Hosts.Len(), n)
		}
	})
}

// TestLearningLog checks that a station with many addresses does not fill the log.
func TestLearningLog(t *testing.T) {
	bubble(t, "many", func(t *testing.T) {
		s := startWith(t, tables.Config{MaxHosts: 256, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 4, MaxReaders: 1},
			func(c *manageConfig, _ *ibPort) { c.MaxHosts = 256 })
		const hosts, most = 200, 32
		for i := range hosts {
			s.w.give(manage.Punted{Data: arp(hostLink, frame.ARPRequest, netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i)}), node4)})
		}
		s.settle()
		if n, lines := s.count().HostsLearned, s.log.count("host_learned"); n != hosts || lines != most {
			t.Errorf("learned %d hosts, %d lines", n, lines)
		}
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.give(arp(hostLink, frame.ARPRequest, netip.MustParseAddr("10.9.0.2"), node4))
		if lines := s.log.count("host_learned"); lines != most {
			t.Errorf("%d lines within the second", lines)
		}
		time.Sleep(time.Second)
		s.give(arp(hostLink, frame.ARPRequest, netip.MustParseAddr("10.9.0.3"), node4))
		if lines := s.log.count("host_learned"); lines != most+1 {
			t.Errorf("%d lines after it", lines)
		}
	})
}

// TestNoRoomForNothing checks that a host that gets no proxy QP does not evict another from a full table.
func TestNoRoomForNothing(t *testing.T) {
	bubble(t, "full", func(t *testing.T) {
		s := startWith(t, tables.Config{MaxHosts: 1, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 4, MaxReaders: 1},
			func(c *manageConfig, _ *ibPort) { c.MaxHosts, c.ProxyQPs = 1, 0 })
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		if h := s.punt(otherLink, netip.MustParseAddr("10.9.0.2"), 0x11); h.ended() != "full" {
			t.Errorf("the newcomer's data ended by %q", h.ended())
		}
		if _, known := s.host(host4); !known || s.count().HostsEvicted != 0 {
			t.Errorf("the host that was there is known: %v, %+v", known, s.count())
		}
	})
}
