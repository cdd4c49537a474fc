// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/tables"
)

// data is a RoCE frame to the node.
func data(l frame.Link, version int, src netip.Addr, qpn ib.QPN) []byte {
	dst := node4
	if src.Is6() {
		dst = node6
	}
	p := roce.Packet{
		Version: version, Src: l.MAC, Dst: bridgeMAC, SrcIP: src, DstIP: dst, HopLimit: 64, SrcPort: 0xc000,
		PKey: ib.PKeyDefault, DestQP: 0x77, QKey: ib.QKeyRDMAUDP, SrcQP: qpn, Payload: []byte("data"),
	}
	return p.AppendTo(nil)
}

// punt passes a pending packet to the loop, and returns how it ended.
func (s *rig) punt(l frame.Link, src netip.Addr, qpn ib.QPN) *packet {
	p := &packet{}
	s.w.give(manage.Punted{Data: data(l, 2, src, qpn), Pending: p})
	s.settle()
	return p
}

func TestProxyQP(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int
		src     netip.Addr
	}{
		{"RoCEv2, IPv4", 2, host4},
		{"RoCEv2, IPv6", 2, host6},
		{"RoCEv1", 1, hostMAC.LinkLocal()},
		{"behind a router", 2, far4},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, nil)
			p := &packet{}
			s.w.give(manage.Punted{Data: data(hostLink, c.version, c.src, 0x123), Pending: p})
			s.settle()
			if p.ended() != "requeued" {
				t.Fatalf("ended by %q", p.ended())
			}
			got, _, ok := s.tables.ProxyQPs.Find(tables.HostQP{Host: c.src, HostQPN: 0x123})
			want := tables.ProxyQP{HostQP: tables.HostQP{Host: c.src, HostQPN: 0x123}, QP: 1, QPN: 0x1001, QKey: ib.QKeyRDMAUDP, Version: uint8(c.version)}
			if !ok || got != want {
				t.Errorf("proxy QP %+v, want %+v", got, want)
			}
			if host, _ := s.host(c.src); host != (tables.Host{IP: c.src, MAC: hostMAC, Version: uint8(c.version), Routed: c.src == far4}) {
				t.Errorf("host %+v", host)
			}
			if n := s.count(); n.ProxyQPsMade != 1 || n.ProxyQPsDenied != 0 || s.loop.Status().ProxyQPs != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestBurst checks that all frames of a queue pair that had no proxy QP when they came get the same one.
func TestBurst(t *testing.T) {
	bubble(t, "burst", func(t *testing.T) {
		s := start(t, nil)
		var burst []*packet
		for range 200 {
			p := &packet{}
			burst = append(burst, p)
			s.w.give(manage.Punted{Data: data(hostLink, 2, host4, 5), Pending: p})
		}
		s.settle()
		for i, p := range burst {
			if p.ended() != "requeued" {
				t.Fatalf("frame %d ended by %q", i, p.ended())
			}
		}
		if s.ibPort.open() != 1 || s.tables.ProxyQPs.Len() != 1 {
			t.Errorf("%d QPs, %d proxy QPs", s.ibPort.open(), s.tables.ProxyQPs.Len())
		}
	})
}

// TestSlowPort checks that the loop goes on while the port makes queue pairs, as an HCA under load does, several at a
// time.
func TestSlowPort(t *testing.T) {
	bubble(t, "slow", func(t *testing.T) {
		const each = 50 * time.Millisecond
		s := start(t, func(c *manageConfig, p *ibPort) { c.ProxyQPs, c.ProxyQPLimits.PerHost, p.creating = 256, 200, each })
		began := time.Now()
		var burst []*packet
		for i := range 16 {
			p := &packet{}
			burst = append(burst, p)
			s.w.give(manage.Punted{Data: data(hostLink, 2, host4, ib.QPN(0x10+i)), Pending: p})
		}
		if n := len(s.give(arp(hostLink, frame.ARPRequest, host4, node4))); n != 1 || time.Since(began) >= each {
			t.Errorf("%d answers to ARP after %v", n, time.Since(began))
		}
		if ends := burst[0].ended(); ends != "" || s.loop.Status().ProxyQPs != 0 {
			t.Errorf("ended by %q before there is a proxy QP", ends)
		}
		s.change(func(c *manage.Change) { c.Drained = true })
		if time.Since(began) >= each {
			t.Errorf("a change took %v", time.Since(began))
		}
		sleep(2 * each)
		for i, p := range burst {
			if p.ended() != "requeued" {
				t.Errorf("packet %d ended by %q after %v", i, p.ended(), time.Since(began))
			}
		}
		if s.ibPort.open() != 16 {
			t.Errorf("%d queue pairs", s.ibPort.open())
		}
	})
}

// TestEndWhileMade checks that the loop waits for the port at its end, and loses no packet.
func TestEndWhileMade(t *testing.T) {
	bubble(t, "end", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, p *ibPort) { p.creating = time.Second })
		p := s.punt(hostLink, host4, 0x10)
		if p.ended() != "" {
			t.Fatalf("ended by %q", p.ended())
		}
		if err := s.end(); err != nil || p.ended() != "requeued" || s.ibPort.open() != s.tables.ProxyQPs.Len() {
			t.Errorf("%v, ended by %q, %d queue pairs, %d proxy QPs", err, p.ended(), s.ibPort.open(), s.tables.ProxyQPs.Len())
		}
	})
}

func TestProxyQPLimits(t *testing.T) {
	bubble(t, "limits", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.ProxyQPs, c.ProxyQPLimits.PerHost = 5, 3 })
		want := map[netip.Addr][]string{
			host4: {"requeued", "requeued", "requeued", "full"},
			host6: {"requeued", "requeued", "full", "full"},
		}
		for _, src := range []netip.Addr{host4, host6} {
			for i, end := range want[src] {
				if p := s.punt(hostLink, src, ib.QPN(0x10+i)); p.ended() != end {
					t.Errorf("%v, QP %d: ended by %q, want %q", src, i, p.ended(), end)
				}
			}
		}
		if p := s.punt(hostLink, host4, 0x10); p.ended() != "requeued" {
			t.Errorf("one that has its proxy QP ended by %q", p.ended())
		}
		if n := s.count(); n.ProxyQPsMade != 5 || n.ProxyQPsDenied != 3 || s.ibPort.open() != 5 || s.tables.ProxyQPs.Len() != 5 {
			t.Errorf("%d QPs, %d proxy QPs, %+v", s.ibPort.open(), s.tables.ProxyQPs.Len(), n)
		}
	})
}

func TestProxyQPFailures(t *testing.T) {
	bubble(t, "the port gives none", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, d *ibPort) { d.createErr = errors.New("no QP is left") })
		if p := s.punt(hostLink, host4, 1<<8); p.ended() != "full" {
			t.Errorf("ended by %q", p.ended())
		}
		s.ibPort.mu.Lock()
		s.ibPort.createErr = nil
		s.ibPort.mu.Unlock()
		if p := s.punt(hostLink, host4, 1<<8); p.ended() != "requeued" {
			t.Errorf("later, ended by %q", p.ended())
		}
	})
	bubble(t, "the tables reject it", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, d *ibPort) { d.qpn = func(uint32) ib.QPN { return 0x2000 } }) // the same twice
		first, second := s.punt(hostLink, host4, 0x10), s.punt(hostLink, host4, 0x11)
		if first.ended() != "requeued" || second.ended() != "full" {
			t.Errorf("ended by %q and %q", first.ended(), second.ended())
		}
		if s.ibPort.open() != 1 || s.tables.ProxyQPs.Len() != 1 {
			t.Errorf("%d QPs for %d proxy QPs", s.ibPort.open(), s.tables.ProxyQPs.Len())
		}
		if n := s.count(); n.ProxyQPsMade != 1 || n.ProxyQPsDenied != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestRejectedSources checks that a host that spoofs its address gets no proxy QP.
func TestRejectedSources(t *testing.T) {
	static := func(c *manageConfig, _ *ibPort) {
		c.Hosts = []tables.Host{{IP: host4, MAC: otherMAC, Version: 2, Static: true}}
	}
	short := data(hostLink, 2, host4, 5)[:40]
	for name, b := range map[string][]byte{
		"a node's address":                data(hostLink, 2, node4, 5),
		"the bridge's address":            data(hostLink, 2, bridge4, 5),
		"a static host's address":         data(hostLink, 2, host4, 5),
		"the bridge's MAC address":        data(frame.Link{MAC: bridgeMAC}, 2, host6, 5),
		"a frame that cannot be parsed":   short,
		"a frame that is not RoCE":        arp(hostLink, frame.ARPRequest, host4, node4),
		"a cut GRH, which cannot happen":  data(hostLink, 1, hostMAC.LinkLocal(), 5)[:14+20],
		"a cut DETH, which cannot happen": data(hostLink, 1, hostMAC.LinkLocal(), 5)[:14+40+12+2],
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, static)
			p := &packet{}
			s.w.give(manage.Punted{Data: b, Pending: p})
			s.settle()
			if p.ended() != "source" || s.ibPort.open() != 0 || s.tables.ProxyQPs.Len() != 0 {
				t.Errorf("ended by %q, %d QPs", p.ended(), s.ibPort.open())
			}
		})
	}
}

// TestDrain checks that the packets that are pending at the end are rejected, not lost.
func TestDrain(t *testing.T) {
	bubble(t, "drain", func(t *testing.T) {
		s := start(t, nil)
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
		var all []*packet
		for range 100 {
			p := &packet{}
			all = append(all, p)
			s.w.give(manage.Punted{Data: data(hostLink, 2, host4, 5), Pending: p}, manage.Punted{Data: arp(hostLink, frame.ARPRequest, host4, node4)})
		}
		s.loop.Drain()
		for _, p := range all {
			if p.ended() != "stopped" {
				t.Fatalf("ended by %q", p.ended())
			}
		}
	})
}
