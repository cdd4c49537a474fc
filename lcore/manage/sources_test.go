// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/tables"
)

// The IB port of these tests: the bridge's own GID, one that is host4's address, and two reserved for hosts.
var (
	ownGID   = ib.GIDFromAddr(bridge4)
	host4GID = ib.GIDFromAddr(host4)
	spare1   = ib.GIDFromAddr(netip.MustParseAddr("10.9.0.101"))
	spare2   = ib.GIDFromAddr(netip.MustParseAddr("10.9.0.102"))
	setAside = netip.MustParsePrefix("10.9.0.96/28")
	host5    = netip.MustParseAddr("10.9.0.5")
)

func ownOf(gids ...ib.GID) ibside.Own {
	o := ibside.Own{LID: 4, GIDs: gids}
	for _, g := range gids {
		n := map[ib.GID]uint8{ownGID: 0, host4GID: 7, spare1: 8, spare2: 9}[g]
		o.Sources = append(o.Sources, ibside.Source{Number: n, GID: g})
	}
	return o
}

// source returns the number of the source of a host's proxy QPs; all have the same.
func (s *rig) source(host netip.Addr) uint8 {
	s.t.Helper()
	numbers := map[uint8]bool{}
	var n uint8
	for x := range s.tables.ProxyQPs.Of(host) {
		n = x.Source
		numbers[n] = true
	}
	if len(numbers) != 1 {
		s.t.Fatalf("the proxy QPs of %v send from %v", host, numbers)
	}
	return n
}

// A host is seen under its own address if the port has it, else under a reserved GID, else under the bridge's; and this
// follows the port at run time.
func TestHostGIDs(t *testing.T) {
	for _, c := range []struct {
		name          string
		gids          []ib.GID
		setAside      []netip.Prefix
		four, five, n uint8 // host4's, host5's, how many hosts have their own
	}{
		{"none to give", []ib.GID{ownGID}, nil, 0, 0, 0},
		{"the host's address", []ib.GID{ownGID, host4GID}, nil, 7, 0, 1},
		{"others are not given unless set aside", []ib.GID{ownGID, spare1}, nil, 0, 0, 0},
		{"one set aside", []ib.GID{ownGID, spare1}, []netip.Prefix{setAside}, 8, 0, 1},
		{"two set aside", []ib.GID{ownGID, spare1, spare2}, []netip.Prefix{setAside}, 8, 9, 2},
		{"the address first", []ib.GID{ownGID, spare1, host4GID}, []netip.Prefix{setAside}, 7, 8, 2},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, func(cfg *manageConfig, d *ibPort) { cfg.HostGIDs, d.own = c.setAside, ownOf(c.gids...) })
			check := func(four, five, n uint8) {
				t.Helper()
				s.count() // until the port is polled again
				got := s.loop.Status()
				if s.source(host4) != four || s.source(host5) != five || got.HostGIDs != int(n) {
					t.Errorf("sources %d and %d, %d hosts with a GID; want %d, %d, %d", s.source(host4), s.source(host5), got.HostGIDs, four, five, n)
				}
			}
			for _, host := range []netip.Addr{host4, host5} {
				s.punt(hostLink, host, 0x10)
				s.punt(hostLink, host, 0x11)
			}
			check(c.four, c.five, c.n)
			s.ibPort.setOwn(ownOf(ownGID))
			check(0, 0, 0)
			s.ibPort.setOwn(ownOf(c.gids...))
			s.count()
			if got := s.loop.Status().HostGIDs; got != int(c.n) {
				t.Errorf("the GIDs are back, and %d hosts have one, want %d", got, c.n)
			}
		})
	}
}

// A GID that another host was given goes to the host whose address it is, when that host comes.
func TestHostGIDOfAnother(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		all := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
		s := start(t, func(cfg *manageConfig, d *ibPort) { cfg.HostGIDs, d.own = all, ownOf(ownGID, host4GID) })
		s.punt(hostLink, host5, 0x10)
		if got := s.source(host5); got != 7 {
			t.Fatalf("host5 sends from %d", got)
		}
		s.punt(otherLink, host4, 0x10)
		if four, five := s.source(host4), s.source(host5); four != 7 || five != 0 {
			t.Errorf("host4 sends from %d, host5 from %d", four, five)
		}
	})
}

// A GID that becomes free goes to a host that has none: when its own comes to a host, and when a host's last proxy QP
// ends.
func TestHostGIDFreed(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, d *ibPort) {
			cfg.HostGIDs, cfg.ProxyQPLimits.Idle, d.own = []netip.Prefix{setAside}, 20*time.Second, ownOf(ownGID, spare1)
		})
		s.punt(hostLink, host4, 0x10)
		s.punt(otherLink, host5, 0x10)
		if four, five := s.source(host4), s.source(host5); four != 8 || five != 0 {
			t.Fatalf("at first host4 sends from %d, host5 from %d", four, five)
		}
		s.ibPort.setOwn(ownOf(ownGID, spare1, host4GID))
		s.count()
		if four, five := s.source(host4), s.source(host5); four != 7 || five != 8 {
			t.Errorf("host4's address has come, and host4 sends from %d, host5 from %d", four, five)
		}
		far := netip.MustParseAddr("10.9.0.6")
		s.punt(otherLink, far, 0x10)
		for range 6 {
			s.wait(5 * time.Second)
			s.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: far, HostQPN: 0x10})
		}
		s.wait(5 * time.Second)
		if got := s.source(far); s.ibPort.open() != 1 || got != 8 {
			t.Errorf("%d proxy QPs are left, and the third host sends from %d", s.ibPort.open(), got)
		}
	})
}

// The port's GIDs are the bridge's own on the tables; one that is a node's is rejected once, and the rest stays.
func TestOwnFollowsPort(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, d *ibPort) { d.own = ownOf(ownGID) })
		s.ibPort.setOwn(ownOf(ownGID, spare1))
		s.count()
		if !s.tables.Nodes.LookupOwn(ownGID) || !s.tables.Nodes.LookupOwn(spare1) || !s.tables.Nodes.LookupOwnLID(4) {
			t.Error("the port's own GID is not in the tables")
		}
		s.ibPort.setOwn(ownOf(ownGID, nodeGID))
		s.count()
		s.count()
		if n := s.log.count("own_gids"); n != 1 || !s.tables.Nodes.LookupOwn(spare1) {
			t.Errorf("a port's GID that is a node's: logged %d times", n)
		}
	})
}

// TestGIDsBeyond checks that there is a warning about GIDs that cannot be sent from.
func TestGIDsBeyond(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		own := ownOf(ownGID)
		own.Beyond = 44
		s := start(t, func(_ *manageConfig, d *ibPort) { d.own = own })
		s.count()
		if n := s.log.count("gids_beyond"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// A node with the bridge's own GID is a mistake in the configuration, and gives an error that says so.
func TestNodeWithOwnGID(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(_ *manageConfig, d *ibPort) { d.own = ownOf(nodeGID) })
		s.stopped = true
		if err := <-s.result; err == nil || !strings.Contains(err.Error(), "the bridge's own port has this gid") {
			t.Errorf("Run: %v", err)
		}
	})
}
