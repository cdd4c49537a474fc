// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// fakeSubnet is what a port reports about its subnet, and the aliases that were requested from it.
type fakeSubnet struct {
	renewals ibside.Renewals
	lid      ib.LID // of all nodes
	aliases  []ib.GUID
	tries    int // of aliases
	room     int
	taken    error
}

// Renewed implements manage.Renewer.
func (d *ibPort) Renewed() ibside.Renewals {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.subnet.renewals
	d.subnet.renewals = ibside.Renewals{}
	return r
}

// Changed implements ibside.Renewer: what changes is found in the next turn of the loop.
func (d *ibPort) Changed() <-chan struct{} { return nil }

// SetAlias implements manage.Aliaser.
func (d *ibPort) SetAlias(_ context.Context, guid ib.GUID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subnet.tries++
	if d.subnet.taken != nil {
		return d.subnet.taken
	}
	if len(d.subnet.aliases) >= d.subnet.room {
		return ibside.ErrNoAlias
	}
	d.subnet.aliases = append(d.subnet.aliases, guid)
	return nil
}

// DropAlias implements manage.Aliaser.
func (d *ibPort) DropAlias(_ context.Context, guid ib.GUID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subnet.aliases = slices.DeleteFunc(d.subnet.aliases, func(g ib.GUID) bool { return g == guid })
	return nil
}

// fake changes what the port reports about the subnet, and runs the loop.
func (s *rig) fake(f func(*fakeSubnet)) {
	s.ibPort.mu.Lock()
	f(&s.ibPort.subnet)
	s.ibPort.mu.Unlock()
	s.count()
}

func (s *rig) wantAliases(when string, want ...ib.GUID) {
	s.t.Helper()
	s.ibPort.mu.Lock()
	got := slices.Sorted(slices.Values(s.ibPort.subnet.aliases))
	s.ibPort.mu.Unlock()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: aliases %v, want %v", when, got, want)
	}
	if s.count(); s.loop.Status().Aliases != len(want) {
		s.t.Errorf("%s: %d aliases in the status", when, s.loop.Status().Aliases)
	}
}

// mlid returns the MLID that a group's messages go to.
func (s *rig) mlid(group netip.Addr) ib.LID {
	g, _, _ := s.tables.Groups.Find(group)
	return g.MLID
}

func renewed(g manage.Group, mlid ib.LID) ibside.Renewals {
	return ibside.Renewals{Groups: map[ib.GID]ibside.Membership{g.MGID: {MLID: mlid, SL: 2, QKey: g.QKey, MTU: 4}}}
}

// TestRenewedGroup checks that the tables follow the subnet, without another join and without an interruption of the
// group.
func TestRenewedGroup(t *testing.T) {
	bubble(t, "another MLID", func(t *testing.T) {
		g := toIB(group4)
		s := start(t, with(g))
		s.fake(func(f *fakeSubnet) { f.renewals = renewed(g, 0xc123) })
		if got := s.mlid(group4); got != 0xc123 {
			t.Errorf("goes to %v", got)
		}
		s.fake(func(f *fakeSubnet) { f.renewals = renewed(toIB(group6), 0xc124) }) // not a group of the bridge
		s.fake(func(f *fakeSubnet) { f.renewals = renewed(g, 0xc123) })
		if n, lines := s.ibPort.joins[g.MGID], s.log.count("group_renewed"); n != 1 || lines != 1 || s.log.count("group_closed") != 0 {
			t.Errorf("%d joins, %d renewals", n, lines)
		}
	})
	bubble(t, "reported before the join's answer, which is older", func(t *testing.T) {
		g, answer := toIB(group4), make(chan struct{})
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = []manage.Group{g}
			d.join = func(context.Context, ibside.Join, int) error { <-answer; return nil }
		})
		s.fake(func(f *fakeSubnet) { f.renewals = renewed(g, 0xc123) })
		close(answer)
		s.count()
		if got := s.mlid(group4); got != 0xc123 {
			t.Errorf("goes to %v", got)
		}
	})
}

// TestRenewedPaths checks that a node gets the path that the subnet has for it, and keeps its old one while there is no
// answer.
func TestRenewedPaths(t *testing.T) {
	bubble(t, "nodes", func(t *testing.T) {
		fails := false
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Nodes = []manage.Node{{IP4: node4, GID: nodeGID}}
			d.path = func(context.Context, ib.GID, int) error {
				if fails {
					return errors.New("no such record")
				}
				return nil
			}
		})
		lid := func() ib.LID {
			n, _, _ := s.tables.Nodes.Find(node4)
			return n.LID
		}
		s.fake(func(f *fakeSubnet) { f.renewals.Paths, f.lid = true, 9 })
		if lid() != 9 || s.log.count("node_moved") != 1 {
			t.Errorf("the node is at %v", lid())
		}
		fails = true
		before := s.ibPort.paths[nodeGID]
		s.fake(func(f *fakeSubnet) { f.renewals.Paths, f.lid = true, 10 })
		s.fake(func(f *fakeSubnet) { f.renewals.Paths = true }) // the next try is a query from after this
		s.wait(time.Minute)
		const tries, doubted = 6, 5 // the last ones after 1 s, 2 s, 4 s, 8 s and 16 s
		n, lines := s.ibPort.paths[nodeGID]-before, s.log.count("path_missing")
		if lid() != 9 || n < tries+doubted-1 || n > tries+doubted+1 || lines != 1 || !s.loop.Status().Ready {
			t.Errorf("the node is at %v, after %d queries; %+v", lid(), n, s.loop.Status())
		}
		fails = false
		s.fake(func(f *fakeSubnet) { f.renewals.Paths = true })
		if lid() != 10 {
			t.Errorf("the node is at %v", lid())
		}
	})
}

// TestMissingPath checks that a node that was absent is found as soon as the subnet reports a new port, and that its
// absence is logged once.
func TestMissingPath(t *testing.T) {
	bubble(t, "nodes", func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Nodes = []manage.Node{{IP4: node4, GID: nodeGID}}
			d.path = func(context.Context, ib.GID, int) error {
				if away.Load() {
					return errors.New("no such record")
				}
				return nil
			}
		})
		s.wait(5 * time.Minute)
		if n := s.log.count("path_missing"); n != 1 || s.loop.Status().Ready {
			t.Errorf("%d lines; %+v", n, s.loop.Status())
		}
		before := s.ibPort.paths[nodeGID]
		for range 10 {
			s.fake(func(f *fakeSubnet) { f.renewals.Paths = true })
		}
		if n := s.ibPort.paths[nodeGID] - before; n < 2 || n > 10 {
			t.Errorf("%d questions after ten notices", n)
		}
		s.wait(5 * time.Minute)
		away.Store(false)
		s.fake(func(f *fakeSubnet) { f.renewals.Paths = true })
		if _, _, known := s.tables.Nodes.Find(node4); !known || !s.loop.Status().Ready || s.log.count("path_missing") != 1 {
			t.Errorf("not found at once: %+v", s.loop.Status())
		}
	})
}

// The IB port of TestAliases, and the GIDs of its hosts.
var (
	portGID    = ib.GIDFromGUID(0xfe80<<48, 0x4)
	local6     = netip.MustParseAddr("fe80::1234")
	macAlias   = ib.GIDFromAddr(hostMAC.LinkLocal()).GUID()
	otherAlias = ib.GIDFromAddr(otherMAC.LinkLocal()).GUID()
)

func aliasing(room int, setAside ...netip.Prefix) func(*manageConfig, *ibPort) {
	return func(c *manageConfig, d *ibPort) {
		c.AliasGIDs, c.HostGIDs, d.subnet.room = true, setAside, room
		d.own = ibside.Own{LID: 4, GIDs: []ib.GID{portGID}, Sources: []ibside.Source{{GID: portGID}}}
	}
}

// TestAliases checks that each known host has its alias, by its address or its MAC address, and that there are no
// others.
func TestAliases(t *testing.T) {
	for _, c := range []struct {
		name     string
		setAside []netip.Prefix
		room     int
		want     []ib.GUID
	}{
		{"by address and MAC address", nil, 9, []ib.GUID{macAlias, 0x1234}},
		{"only those set aside", []netip.Prefix{netip.MustParsePrefix("fe80::1200/120")}, 9, []ib.GUID{0x1234}},
		{"no room", nil, 0, nil},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, aliasing(c.room, c.setAside...))
			s.give(arp(hostLink, frame.ARPRequest, host4, node4))
			s.give(ns(hostLink, host6, node6)) // shares its MAC address, and so its alias
			s.give(ns(hostLink, local6, node6))
			s.wait(10 * time.Second)
			s.wantAliases("at first", c.want...)
			s.ibPort.mu.Lock()
			tries := s.ibPort.subnet.tries
			s.ibPort.mu.Unlock()
			if most := max(len(c.want), 2); tries > most {
				t.Errorf("asked %d times", tries)
			}
		})
	}
	bubble(t, "rejected", func(t *testing.T) {
		s := start(t, aliasing(9))
		s.fake(func(f *fakeSubnet) { f.taken = errors.New("another port has it") })
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.wait(10 * time.Second)
		s.wantAliases("while it is rejected")
		s.fake(func(f *fakeSubnet) { f.taken = nil })
		s.wait(10 * time.Second)
		s.wantAliases("later", macAlias)
	})
	bubble(t, "moved", func(t *testing.T) {
		s := start(t, aliasing(1))
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.wait(2 * time.Second)
		s.wantAliases("at first", macAlias)
		s.give(arp(otherLink, frame.ARPRequest, host4, host4))
		s.wait(claimTime + 3*time.Second)
		s.wantAliases("with another MAC address", otherAlias)
	})
	bubble(t, "not wanted", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) { aliasing(9)(c, d); c.AliasGIDs = false })
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.wait(5 * time.Second)
		s.wantAliases("by default")
	})
}

// TestAliasIsItsHosts checks that a GID that is a host's alias is given to no other host, though it is set aside.
func TestAliasIsItsHosts(t *testing.T) {
	bubble(t, "two hosts", func(t *testing.T) {
		s := start(t, aliasing(9, netip.MustParsePrefix("fe80::/64")))
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.wait(2 * time.Second)
		gid := ib.GIDFromGUID(portGID.Prefix(), macAlias)
		s.ibPort.setOwn(ibside.Own{LID: 4, GIDs: []ib.GID{portGID, gid}, Sources: []ibside.Source{{GID: portGID}, {Number: 3, GID: gid}}})
		s.count()
		s.punt(otherLink, host5, 0x10)
		s.punt(hostLink, host4, 0x10)
		if other, its := s.source(host5), s.source(host4); other != 0 || its != 3 {
			t.Errorf("sources %d and %d, want 0 and 3", other, its)
		}
	})
}
