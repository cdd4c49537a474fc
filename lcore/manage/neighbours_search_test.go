// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"causeway/lcore/frame"
)

// asked returns the hosts that the loop sent requests for, and from which address.
func (s *rig) asked() map[netip.Addr]netip.Addr {
	s.t.Helper()
	out := map[netip.Addr]netip.Addr{}
	for _, f := range frames(s.t, s.w.take()) {
		if f.Type == frame.TypeARP {
			a, fault := frame.ParseARP(bridgeMAC, f.Payload)
			if fault != "" || a.Op != frame.ARPRequest || f.Eth.Dst() != frame.Broadcast {
				s.t.Fatalf("a bad request: %q %+v", fault, a)
			}
			out[a.TPA] = a.SPA
			continue
		}
		nd, fault := frame.ParseND(bridgeMAC, f.IPv6, f.Payload)
		if fault != "" || nd.Type != frame.NDSolicitation || nd.LinkLayer != bridgeMAC || f.Dst() != frame.SolicitedNode(nd.Target) {
			s.t.Fatalf("a bad solicitation: %q %+v", fault, nd)
		}
		out[nd.Target] = f.Src()
	}
	return out
}

// TestResolve checks that configured hosts without a MAC address are searched for until they answer, with back-off,
// from an address of their subnet; and that the bridge is ready without them.
func TestResolve(t *testing.T) {
	bubble(t, "resolve", func(t *testing.T) {
		silent := otherMAC.LinkLocal()
		s := start(t, func(c *manageConfig, _ *ibPort) { c.Resolve = []netip.Addr{host4, host6, silent, far4} })
		if !s.loop.Status().Ready {
			t.Error("not ready")
		}
		want := map[netip.Addr]netip.Addr{host4: bridge4, host6: bridge6, silent: bridgeMAC.LinkLocal()}
		if got := s.asked(); !equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
		if s.log.count("host_off_link") != 1 {
			t.Error("nothing is logged about the host behind a router")
		}
		s.give(arp(hostLink, frame.ARPReply, host4, bridge4))
		s.give(na(hostLink, host6, true))
		for ip, mac := range map[netip.Addr]frame.MAC{host4: hostMAC, host6: hostMAC} {
			if h, ok := s.host(ip); !ok || h.MAC != mac {
				t.Errorf("%v: %+v", ip, h)
			}
		}
		began, questions := s.count().HostsAsked, 0
		for range 9 * 60 { // then those that are known are refreshed
			time.Sleep(time.Second)
			synctest.Wait()
			for ip := range s.asked() {
				if ip != silent {
					t.Fatalf("%v is asked for again", ip)
				}
				questions++
			}
		}
		if questions < 9 || questions > 16 {
			t.Errorf("%d questions in nine minutes", questions)
		}
		if n := s.count().HostsAsked; n != began+uint64(questions) {
			t.Errorf("counted %d, then %d", began, n)
		}
	})
}

// TestResolveMany checks that the requests are spread over time, and that none is lost when a ring is full.
func TestResolveMany(t *testing.T) {
	bubble(t, "many", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) {
			for i := range 200 {
				c.Resolve = append(c.Resolve, netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i)}))
			}
		})
		if n := len(s.asked()); n != 64 {
			t.Errorf("%d questions at once", n)
		}
		s.w.setFull(true)
		time.Sleep(500 * time.Millisecond)
		s.w.setFull(false)
		seen := map[netip.Addr]bool{}
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			for ip := range s.asked() {
				seen[ip] = true
			}
		}
		if len(seen) != 200 {
			t.Errorf("%d hosts were asked for", len(seen))
		}
	})
}

func equal(a, b map[netip.Addr]netip.Addr) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
