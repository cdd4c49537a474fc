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

// claimTime is how long a claim takes to be judged, and a little more.
const claimTime = 800 * time.Millisecond

// questions returns the MAC addresses to which the loop has sent requests about a host since the last call.
func (s *rig) questions(ip netip.Addr) []frame.MAC {
	s.t.Helper()
	var to []frame.MAC
	for _, f := range frames(s.t, s.w.take()) {
		target := netip.Addr{}
		if f.Type == frame.TypeARP {
			if a, fault := frame.ParseARP(bridgeMAC, f.Payload); fault == "" && a.Op == frame.ARPRequest {
				target = a.TPA
			}
		} else if nd, fault := frame.ParseND(bridgeMAC, f.IPv6, f.Payload); fault == "" && nd.Type == frame.NDSolicitation {
			target = nd.Target
		}
		if target == ip {
			to = append(to, f.Eth.Dst())
		}
	}
	return to
}

// TestHolderKeepsItsAddress checks that a host that still answers keeps its address when it is claimed by ARP, ND or
// data; and that further claims are rejected for a while without a probe.
func TestHolderKeepsItsAddress(t *testing.T) {
	for _, c := range []struct {
		name                 string
		ip                   netip.Addr
		first, claim, answer []byte
	}{
		{"ARP", host4, arp(hostLink, frame.ARPRequest, host4, node4), arp(otherLink, frame.ARPRequest, host4, host4),
			arp(hostLink, frame.ARPReply, host4, bridge4)},
		{"ND", host6, ns(hostLink, host6, node6), na(otherLink, host6, true), na(hostLink, host6, true)},
		{"ND without the option", host6, ns(hostLink, host6, node6), na(otherLink, host6, true), naBare(hostLink, host6)},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, nil)
			s.give(c.first)
			s.give(c.claim)
			s.wait(150 * time.Millisecond)
			if to := s.questions(c.ip); len(to) != 1 || to[0] != hostMAC {
				t.Errorf("asked %v, want the holder alone", to)
			}
			s.give(c.answer)
			s.wait(claimTime)
			for range 5 { // within ten seconds: no more questions
				s.give(c.claim)
				s.wait(claimTime)
			}
			if to := s.questions(c.ip); len(to) != 0 {
				t.Errorf("asked again: %v", to)
			}
			h, _ := s.host(c.ip)
			if n := s.count(); h.MAC != hostMAC || n.HostsMoved != 0 || n.HostConflicts != 6 {
				t.Errorf("is at %v, %+v", frame.MAC(h.MAC), n)
			}
			if lines := s.log.count("host_conflict"); lines < 1 || lines > 6 || s.log.count("stays="+hostMAC.String()) != lines ||
				s.log.count("claimed_by="+otherMAC.String()) != lines {
				t.Errorf("%d lines in the log", lines)
			}
			s.wait(10 * time.Second) // then it is probed again: the holder may have gone
			s.give(c.claim)
			s.wait(claimTime)
			if h, _ := s.host(c.ip); h.MAC != otherMAC || s.count().HostsMoved != 1 {
				t.Errorf("is at %v in the end", frame.MAC(h.MAC))
			}
		})
	}
}

// naBare is an advertisement without the MAC address.
func naBare(l frame.Link, src netip.Addr) []byte {
	f := frame.NDFields{Type: frame.NDAdvertisement, Solicited: true, Target: src}
	return frame.AppendND(nil, l, bridgeMAC, src, bridge6, f)
}

// TestClaimByData checks that data from another MAC address waits for the probes, too.
func TestClaimByData(t *testing.T) {
	bubble(t, "data", func(t *testing.T) {
		s := start(t, nil)
		s.punt(hostLink, host4, 0x10)
		if h := s.punt(otherLink, host4, 0x11); h.ended() != "source" {
			t.Errorf("a claim's data ended by %q", h.ended())
		}
		s.wait(claimTime)
		if h := s.punt(otherLink, host4, 0x11); h.ended() != "requeued" {
			t.Errorf("the new holder's data ended by %q", h.ended())
		}
		if h, _ := s.host(host4); h.MAC != otherMAC {
			t.Errorf("is at %v", frame.MAC(h.MAC))
		}
	})
	bubble(t, "routers take turns", func(t *testing.T) {
		s := start(t, nil)
		s.punt(hostLink, far4, 0x10)
		if h := s.punt(otherLink, far4, 0x11); h.ended() != "requeued" || s.count().HostsMoved != 1 {
			t.Errorf("data by the other router ended by %q", h.ended())
		}
	})
}

// send passes data of one queue pair of host4 to the loop, and compares how it ended.
func (s *rig) send(l frame.Link, want string) {
	s.t.Helper()
	if h := s.punt(l, host4, 0x10); h.ended() != want {
		s.t.Errorf("data from %v ended by %q, want %q", l.MAC, h.ended(), want)
	}
}

// TestMovedSource checks that a host with a proxy QP that sends from another MAC address moves there when it does not
// answer at the old one, half a second later; and that one that answers keeps its address.
func TestMovedSource(t *testing.T) {
	bubble(t, "moved", func(t *testing.T) {
		s := start(t, nil)
		s.send(hostLink, "requeued")
		s.send(otherLink, "source")
		s.wait(150 * time.Millisecond)
		if to := s.questions(host4); len(to) != 1 || to[0] != hostMAC {
			t.Errorf("asked %v, want the holder alone", to)
		}
		s.wait(claimTime)
		s.send(otherLink, "requeued")
		s.send(hostLink, "source")
		if h, _ := s.host(host4); h.MAC != otherMAC || s.count().HostsMoved != 1 || s.ibPort.open() != 1 {
			t.Errorf("is at %v, %d QPs", frame.MAC(h.MAC), s.ibPort.open())
		}
	})
	bubble(t, "announced", func(t *testing.T) {
		s := start(t, nil)
		s.send(hostLink, "requeued")
		s.give(arp(otherLink, frame.ARPRequest, host4, host4))
		s.wait(claimTime)
		s.send(otherLink, "requeued")
	})
	bubble(t, "the holder answers", func(t *testing.T) {
		s := start(t, nil)
		s.send(hostLink, "requeued")
		s.send(otherLink, "source")
		s.give(arp(hostLink, frame.ARPReply, host4, bridge4))
		s.wait(claimTime)
		s.send(otherLink, "source")
		s.send(hostLink, "requeued")
		if n := s.count(); n.HostsMoved != 0 || n.HostConflicts != 2 || n.ProxyQPsDenied != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestMovedSourceConfigured checks that a host with a configured MAC address does not move, and that the MAC address of
// one behind a router is compared only while it is configured.
func TestMovedSourceConfigured(t *testing.T) {
	bubble(t, "static", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, _ *ibPort) { cfg.Hosts = []tables.Host{staticHost(host4)} })
		s.send(hostLink, "requeued")
		s.send(otherLink, "source")
		s.wait(claimTime)
		s.send(otherLink, "source")
		if n := s.count(); n.Spoofs != 2 {
			t.Errorf("%+v", n)
		}
	})
	bubble(t, "static, behind a router, and released", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, _ *ibPort) { cfg.Hosts = []tables.Host{staticHost(far4)} })
		if h, _ := s.host(far4); h.Routed {
			t.Error("a configured MAC address need not be compared")
		}
		if err := s.loop.Change(t.Context(), manage.Change{}); err != nil {
			t.Fatal(err)
		}
		if h, _ := s.host(far4); !h.Routed {
			t.Error("its MAC address is a router's, and is compared")
		}
	})
}

// TestFlapping checks that two stations that take turns are counted, and do not fill the log.
func TestFlapping(t *testing.T) {
	bubble(t, "flapping", func(t *testing.T) {
		s := start(t, nil)
		const turns = 20
		for i := range turns {
			link := hostLink
			if i%2 == 1 {
				link = otherLink
			}
			s.give(arp(link, frame.ARPRequest, host4, node4))
			s.wait(claimTime + 300*time.Millisecond) // a line in the log each second
		}
		n := s.count()
		if n.HostsMoved != turns-1 || n.HostFlaps != turns-2 || s.log.count("host_flapping") != turns-2 {
			t.Errorf("%d lines, %+v", s.log.count("host_flapping"), n)
		}
		s.wait(2 * time.Minute)
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.wait(claimTime)
		if n := s.count(); n.HostsMoved != turns || n.HostFlaps != turns-2 {
			t.Errorf("after two minutes it is no flap: %+v", n)
		}
	})
	bubble(t, "onwards", func(t *testing.T) {
		s := start(t, nil)
		for i := range byte(4) {
			s.give(arp(frame.Link{MAC: frame.MAC{2, 0, 0, 0, 1, i}}, frame.ARPRequest, host4, node4))
			s.wait(claimTime)
		}
		if n := s.count(); n.HostsMoved != 3 || n.HostFlaps != 0 {
			t.Errorf("moving on is no flap: %+v", n)
		}
	})
	bubble(t, "within one burst", func(t *testing.T) {
		s := start(t, nil)
		for range 50 {
			s.w.give(manage.Punted{Data: arp(hostLink, frame.ARPRequest, host4, node4)}, manage.Punted{Data: arp(otherLink, frame.ARPRequest, host4, node4)})
		}
		s.wait(claimTime)
		n := s.count()
		if h, _ := s.host(host4); h.MAC != hostMAC || n.HostConflicts != 50 || n.HostsMoved != 0 || s.log.count("host_conflict") != 1 {
			t.Errorf("is at %v, %d lines, %+v", frame.MAC(h.MAC), s.log.count("host_conflict"), n)
		}
	})
}

// TestDefence checks that a claimed address is announced once, again only after ten seconds, and never for a node that
// is absent.
func TestDefence(t *testing.T) {
	missing := netip.MustParseAddr("10.9.0.8")
	for _, c := range []struct {
		name   string
		claim  []byte
		defend string
	}{
		{"a node by ARP", arp(hostLink, frame.ARPRequest, node4, host4), "10.9.0.7"},
		{"the bridge by ARP", arp(hostLink, frame.ARPReply, bridge4, host4), "10.9.0.254"},
		{"a node by ND", na(hostLink, node6, true), "fd09::7"},
		{"a node that is not there", arp(hostLink, frame.ARPRequest, missing, host4), ""},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, func(cfg *manageConfig, d *ibPort) {
				cfg.Nodes = append(cfg.Nodes, manageNode{IP4: missing, GID: gid(8)})
				d.path = never
			})
			s.told(time.Minute) // those at the start
			for range 30 {
				s.give(c.claim)
			}
			if got := s.told(time.Second); got != c.defend {
				t.Errorf("announced %q, want %q", got, c.defend)
			}
			s.wait(10 * time.Second)
			s.give(c.claim)
			if got := s.told(time.Second); got != c.defend {
				t.Errorf("announced %q after ten seconds, want %q", got, c.defend)
			}
			want := uint64(2)
			if c.defend == "" {
				want = 0
			}
			if n := s.count(); n.Spoofs != 31 || n.AddressesDefended != want || s.log.count("address_claimed") > 3 {
				t.Errorf("%d lines, %+v", s.log.count("address_claimed"), n)
			}
		})
	}
	bubble(t, "data is no broadcast", func(t *testing.T) {
		s := start(t, nil)
		s.told(time.Minute)
		h := s.punt(hostLink, node4, 0x11)
		if got := s.told(time.Second); got != "" || h.ended() != "source" || s.count().Spoofs != 1 {
			t.Errorf("announced %q, ended by %q", got, h.ended())
		}
	})
}

// TestAbsentNodes checks that requests for nodes that the subnet does not have are counted, and answered once it has
// them.
func TestAbsentNodes(t *testing.T) {
	bubble(t, "absent", func(t *testing.T) {
		begin := time.Now()
		s := start(t, func(cfg *manageConfig, d *ibPort) {
			cfg.Nodes[0].LID = 0
			d.path = absentUntil(begin.Add(time.Minute))
		})
		for range 3 {
			s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		}
		s.give(ns(hostLink, host6, node6))
		if n := s.count(); n.NodesAbsent != 4 || n.ARPAnswered+n.NDAnswered != 0 {
			t.Errorf("%+v", n)
		}
		s.wait(2 * time.Minute)
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		if n := s.count(); n.NodesAbsent != 4 || n.ARPAnswered != 1 {
			t.Errorf("once it is there: %+v", n)
		}
	})
}

// TestAddressFlood checks that 100 000 addresses take no more memory than the limit of hosts, and that each of them is
// counted.
func TestAddressFlood(t *testing.T) {
	const addresses, most = 100_000, 64
	bubble(t, "ARP", func(t *testing.T) {
		s := startWith(t, tables.Config{MaxHosts: 2 * most, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 4, MaxReaders: 1},
			func(c *manageConfig, _ *ibPort) {
				c.MaxHosts = most
				c.Addresses = append(c.Addresses, netip.MustParsePrefix("10.8.255.254/12"))
			})
		flood := func(net byte) {
			sent := 0
			s.w.flood(func() *manage.Punted {
				if sent++; sent > addresses {
					return nil
				}
				ip := netip.AddrFrom4([4]byte{10, net + byte(sent>>16), byte(sent >> 8), byte(sent)})
				return &manage.Punted{Data: arp(hostLink, frame.ARPRequest, ip, node4)}
			})
			s.wait(time.Second)
			s.w.take()
		}
		flood(10)
		before := heapNow()
		flood(12)
		if grown := int64(heapNow()) - int64(before); grown > 256<<10 {
			t.Errorf("the second flood, of others, took %d bytes more", grown)
		}
		n := s.count()
		if n.HostsLearned != most || n.HostsRejected != 2*addresses-most || n.ARPAnswered != 2*addresses || s.loop.Status().Hosts != most {
			t.Errorf("%+v", n)
		}
		s.wait(20 * time.Minute) // none of them answers
		if n := s.count(); n.HostsAged != most || s.tables.Hosts.Len() != 0 {
			t.Errorf("%d hosts are left, %+v", s.tables.Hosts.Len(), n)
		}
	})
}
