// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/lcore/manage/sidr"
)

// TestStrangersServices checks that hosts that have not answered ARP get few promises,
// and that they are asked, and served when they have answered.
func TestStrangersServices(t *testing.T) {
	bubble(t, "strangers", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, _ *services) {
			c.ProxyQPs, c.ProxyQPLimits = 64, manage.ProxyQPLimits{PerHost: 16, Unconfirmed: 2}
		})
		asked := 0
		request := func(n int) int {
			q := ask(host4, node4, func(q *question) { q.fields.RequestID, q.cma.SrcPort = uint32(n), uint16(100+n) })
			var others int
			got := s.datagrams(s.give(q.frame()), &others)
			asked += others
			if len(got) != 1 || got[0].rep == nil {
				return -len(got) - 1
			}
			return int(got[0].rep.Status())
		}
		for n := range 2 {
			if got := request(n); got != ib.SIDRStatusOK {
				t.Errorf("request %d of a stranger: status %d", n, got)
			}
		}
		if got := request(9); got != -1 {
			t.Errorf("a third one is answered (%d), and the host would not ask again", got)
		}
		s.want(roceToIB, manage.ServiceCounts{sidr.Answered: 2, sidr.BusySource: 1})
		if asked == 0 {
			t.Error("it was not asked")
		}
		s.give(frame.AppendARP(nil, hostLink, bridgeMAC, frame.ARPFields{Op: frame.ARPReply, SHA: hostMAC, SPA: host4, THA: bridgeMAC, TPA: bridge4}))
		if got := request(9); got != ib.SIDRStatusOK {
			t.Errorf("it has answered ARP: status %d", got)
		}
	})
}

// TestStrangersUnderWay checks that requests of hosts that have not shown that they exist, to a node that does not
// answer, leave half of what an IB port can have under way (512) to others.
func TestStrangersUnderWay(t *testing.T) {
	bubble(t, "strangers", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) {
			c.ProxyQPs, c.ProxyQPLimits = 4096, manage.ProxyQPLimits{PerHost: 16, Unconfirmed: 4}
			cm.connect = silent
		})
		for n := range 800 {
			src := netip.AddrFrom4([4]byte{10, 9, 0, byte(20 + n%200)})
			s.give(ask(src, node4, func(q *question) { q.fields.RequestID, q.cma.SrcPort = uint32(n), uint16(100+n) }).frame())
		}
		s.after(time.Second)
		if got := s.loop.Status().Asked[roceToIB]; got != 256 {
			t.Errorf("%d requests are under way, want 256", got)
		}
		s.after(31 * time.Second)
		for n := range 10 { // the places are free again
			s.give(ask(netip.AddrFrom4([4]byte{10, 9, 0, byte(20 + n)}), node4, func(q *question) { q.fields.RequestID = uint32(5000 + n) }).frame())
		}
		s.after(time.Second)
		if got := s.loop.Status().Asked[roceToIB]; got != 10 {
			t.Errorf("%d requests are under way later, want 10", got)
		}
	})
}

// TestForgedServices checks that requests in another host's name use up nothing of it: it is asked whether it is still there.
func TestForgedServices(t *testing.T) {
	bubble(t, "strangers", func(t *testing.T) {
		s := startServices(t, func(c *manageConfig, cm *services) { cm.connect = silent })
		s.give(arp(hostLink, frame.ARPRequest, host4, bridge4))
		s.give(frame.AppendARP(nil, hostLink, bridgeMAC, frame.ARPFields{Op: frame.ARPReply, SHA: hostMAC, SPA: host4, THA: bridgeMAC, TPA: bridge4}))
		for n := range 40 { // for less than a claim of a silent host takes
			s.give(ask(host4, node4, func(q *question) { q.Src, q.fields.RequestID, q.cma.SrcPort = otherMAC, uint32(n), uint16(100+n) }).frame())
		}
		if got := s.loop.Status().Asked[roceToIB]; got != 0 {
			t.Errorf("%d forged requests are under way", got)
		}
		s.give(ask(host4, node4, func(q *question) { q.fields.RequestID, q.cma.SrcPort = 7000, 7000 }).frame())
		s.after(150 * time.Millisecond)
		if got := s.loop.Status().Asked[roceToIB]; got != 1 {
			t.Errorf("%d requests of the host itself are under way", got)
		}
		if h, _ := s.host(host4); h.MAC != hostMAC {
			t.Errorf("the host is at %v", frame.MAC(h.MAC))
		}
	})
}
