// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"errors"
	"net/netip"
	"testing"

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

// hold hands the loop a held frame, and returns how it ended.
func (s *stand) hold(l frame.Link, src netip.Addr, qpn ib.QPN) *held {
	h := &held{}
	s.w.give(manage.Odd{Data: data(l, 2, src, qpn), Held: h})
	s.settle()
	return h
}

func TestStandIn(t *testing.T) {
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
			h := &held{}
			s.w.give(manage.Odd{Data: data(hostLink, c.version, c.src, 0x123), Held: h})
			s.settle()
			if h.ended() != "again" {
				t.Fatalf("ended by %q", h.ended())
			}
			got, _, ok := s.tables.FindStandIn(c.src, 0x123)
			want := tables.StandIn{Host: c.src, HostQPN: 0x123, QP: 1, QPN: 0x1001, QKey: ib.QKeyRDMAUDP, Version: uint8(c.version)}
			if !ok || got != want {
				t.Errorf("stand-in %+v, want %+v", got, want)
			}
			if host, _ := s.host(c.src); host != (tables.Host{IP: c.src, MAC: hostMAC, Version: uint8(c.version)}) {
				t.Errorf("host %+v", host)
			}
			if n := s.count(); n.StandInsMade != 1 || n.StandInsDenied != 0 || s.loop.Status().StandIns != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestBurst wants one stand-in for all frames that had none when they came.
func TestBurst(t *testing.T) {
	bubble(t, "burst", func(t *testing.T) {
		s := start(t, nil)
		var burst []*held
		for range 200 {
			h := &held{}
			burst = append(burst, h)
			s.w.give(manage.Odd{Data: data(hostLink, 2, host4, 5), Held: h})
		}
		s.settle()
		for i, h := range burst {
			if h.ended() != "again" {
				t.Fatalf("frame %d ended by %q", i, h.ended())
			}
		}
		if s.door.open() != 1 || s.tables.LenStandIns() != 1 {
			t.Errorf("%d QPs, %d stand-ins", s.door.open(), s.tables.LenStandIns())
		}
	})
}

func TestStandInLimits(t *testing.T) {
	bubble(t, "limits", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *door) { c.StandIns, c.StandInsPerHost = 5, 3 })
		want := map[netip.Addr][]string{
			host4: {"again", "again", "again", "full"},
			host6: {"again", "again", "full", "full"},
		}
		for _, src := range []netip.Addr{host4, host6} {
			for i, end := range want[src] {
				if h := s.hold(hostLink, src, ib.QPN(0x10+i)); h.ended() != end {
					t.Errorf("%v, QP %d: ended by %q, want %q", src, i, h.ended(), end)
				}
			}
		}
		if h := s.hold(hostLink, host4, 0x10); h.ended() != "again" {
			t.Errorf("one that has its stand-in ended by %q", h.ended())
		}
		if n := s.count(); n.StandInsMade != 5 || n.StandInsDenied != 3 || s.door.open() != 5 || s.tables.LenStandIns() != 5 {
			t.Errorf("%d QPs, %d stand-ins, %+v", s.door.open(), s.tables.LenStandIns(), n)
		}
	})
}

func TestStandInFailures(t *testing.T) {
	bubble(t, "the door gives none", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, d *door) { d.createErr = errors.New("no QP is left") })
		if h := s.hold(hostLink, host4, 1<<8); h.ended() != "full" {
			t.Errorf("ended by %q", h.ended())
		}
		s.door.mu.Lock()
		s.door.createErr = nil
		s.door.mu.Unlock()
		if h := s.hold(hostLink, host4, 1<<8); h.ended() != "again" {
			t.Errorf("later, ended by %q", h.ended())
		}
	})
	bubble(t, "the tables refuse it", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, d *door) { d.qpn = func(uint32) ib.QPN { return 0x2000 } }) // the same twice
		first, second := s.hold(hostLink, host4, 0x10), s.hold(hostLink, host4, 0x11)
		if first.ended() != "again" || second.ended() != "full" {
			t.Errorf("ended by %q and %q", first.ended(), second.ended())
		}
		if s.door.open() != 1 || s.tables.LenStandIns() != 1 {
			t.Errorf("%d QPs for %d stand-ins", s.door.open(), s.tables.LenStandIns())
		}
		if n := s.count(); n.StandInsMade != 1 || n.StandInsDenied != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestRefusedSources wants no stand-in for who lies about his address.
func TestRefusedSources(t *testing.T) {
	static := func(c *manageConfig, _ *door) {
		c.Hosts = []tables.Host{{IP: host4, MAC: otherMAC, Version: 2, Static: true}}
	}
	short := data(hostLink, 2, host4, 5)[:40]
	for name, b := range map[string][]byte{
		"a node's address":            data(hostLink, 2, node4, 5),
		"the bridge's address":        data(hostLink, 2, bridge4, 5),
		"a static host's address":     data(hostLink, 2, host4, 5),
		"the bridge's MAC address":    data(frame.Link{MAC: bridgeMAC}, 2, host6, 5),
		"what cannot be taken apart":  short,
		"what is no RoCE after all":   arp(hostLink, frame.ARPRequest, host4, node4),
		"a cut GRH, which cannot be":  data(hostLink, 1, hostMAC.LinkLocal(), 5)[:14+20],
		"a cut DETH, which cannot be": data(hostLink, 1, hostMAC.LinkLocal(), 5)[:14+40+12+2],
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, static)
			h := &held{}
			s.w.give(manage.Odd{Data: b, Held: h})
			s.settle()
			if h.ended() != "source" || s.door.open() != 0 || s.tables.LenStandIns() != 0 {
				t.Errorf("ended by %q, %d QPs", h.ended(), s.door.open())
			}
		})
	}
}

// TestDrain wants what still waits at the end to be refused, not forgotten.
func TestDrain(t *testing.T) {
	bubble(t, "drain", func(t *testing.T) {
		s := start(t, nil)
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
		var all []*held
		for range 100 {
			h := &held{}
			all = append(all, h)
			s.w.give(manage.Odd{Data: data(hostLink, 2, host4, 5), Held: h}, manage.Odd{Data: arp(hostLink, frame.ARPRequest, host4, node4)})
		}
		s.loop.Drain()
		for _, h := range all {
			if h.ended() != "stopped" {
				t.Fatalf("ended by %q", h.ended())
			}
		}
	})
}
