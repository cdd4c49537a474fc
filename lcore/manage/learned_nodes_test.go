// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/tables"
)

// Holder makes the port one by which nodes are learned. No LID is known.
func (p *ibPort) Holder(context.Context, ib.LID) (ib.GID, error) { return ib.GID{}, ibside.ErrNoPath }

// ipoib is an ibside.Resolver that has heard of some addresses, and whose answers do not change.
type ipoib map[netip.Addr]ib.GID

func (r ipoib) GID(ip netip.Addr) (ib.GID, bool) {
	g, ok := r[ip]
	return g, ok
}

func (r ipoib) Addrs(g ib.GID) (all []netip.Addr) {
	for ip, has := range r {
		if has == g {
			all = append(all, ip)
		}
	}
	return all
}

func (r ipoib) Ask(netip.Addr) error                 { return nil }
func (r ipoib) Confirm(netip.Addr) error             { return nil }
func (r ipoib) Subnets() []netip.Prefix              { return []netip.Prefix{netip.PrefixFrom(bridge4, 24)} }
func (r ipoib) Changes() <-chan ibside.AddressChange { return nil }

// learningNodes is a rig that learns nodes, and has learned the one at .20.
func learningNodes(t *testing.T, edit func(*manageConfig)) *rig {
	t.Helper()
	at := nodeAt(20, 0)
	s := start(t, func(c *manageConfig, _ *ibPort) {
		c.Resolver, c.MaxNodes, c.NodeIdle, c.Allow = ipoib{at.IP4: at.GID}, 16, time.Hour, everyone
		if edit != nil {
			edit(c)
		}
	})
	s.give(arp(hostLink, 1, host4, at.IP4))
	if s.count(); s.loop.Status().LearnedNodes != 1 {
		t.Fatalf("%d nodes are learned", s.loop.Status().LearnedNodes)
	}
	return s
}

// partition returns the partition of the learned node, as workers know it.
func (s *rig) partition() uint8 {
	s.t.Helper()
	n, _, known := s.tables.Nodes.FindGID(nodeAt(20, 0).GID)
	if !known {
		s.t.Fatal("the learned node is not in the tables")
	}
	return n.Partition
}

// onSubnet is an IPoIB interface of a subnet.
type onSubnet struct {
	ipoib
	subnet netip.Prefix
}

func (r onSubnet) Subnets() []netip.Prefix { return []netip.Prefix{r.subnet} }

// TestLearnedNodesFollowSegment puts a segment of another subnet into the place of the only one: nodes are learned there, but
// for the addresses that a host has there.
func TestLearnedNodesFollowSegment(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		own, wanted, taken := netip.MustParsePrefix("10.8.0.254/24"), netip.MustParseAddr("10.8.0.20"), netip.MustParseAddr("10.8.0.21")
		host := netip.MustParseAddr("10.8.0.1")
		s := start(t, func(c *manageConfig, _ *ibPort) {
			r := onSubnet{ipoib{wanted: nodeAt(20, 0).GID, taken: nodeAt(21, 0).GID}, own.Masked()}
			c.Resolver, c.MaxNodes, c.NodeIdle, c.Allow = r, 16, time.Hour, everyone
		})
		c := changeOf(s.cfg)
		c.Place, c.Addresses = manage.Place{Port: 1}, []netip.Prefix{own}
		c.Hosts = append(c.Hosts, staticHost(taken))
		if err := s.loop.Change(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.giveBy(1, arp(hostLink, 1, host, taken))
		s.giveBy(1, arp(hostLink, 1, host, wanted))
		s.count()
		if _, _, known := s.tables.Nodes.FindGID(nodeAt(20, 0).GID); !known {
			t.Error("no node of the new segment's subnet is learned")
		}
		if _, _, known := s.tables.Nodes.FindGID(nodeAt(21, 0).GID); known {
			t.Error("a node is learned at the address of a host")
		}
	})
}

// TestStrangerKeepsNoNode: an address that a station on Ethernet has only claimed is learned as the node's that has it.
func TestStrangerKeepsNoNode(t *testing.T) {
	for _, confirm := range []int{0, 1} {
		bubble(t, "", func(t *testing.T) {
			at := nodeAt(20, 0)
			s := start(t, func(c *manageConfig, _ *ibPort) {
				c.Resolver, c.MaxNodes, c.NodeIdle, c.Allow = ipoib{at.IP4: at.GID}, 16, time.Hour, everyone
				c.ProxyQPLimits.Unconfirmed = confirm
			})
			s.give(arp(hostLink, 1, at.IP4, bridge4))
			s.count()
			if _, _, known := s.tables.Hosts.Find(at.IP4); !known {
				t.Fatal("the claim is no host")
			}
			s.give(arp(hostLink, 1, host4, at.IP4))
			s.count()
			if got := s.loop.Status().LearnedNodes; got != confirm {
				t.Errorf("hosts are asked %d: %d nodes are learned", confirm, got)
			}
		})
	}
}

// TestLearnedNodesPartition checks that learned nodes are in the bridge's partition where it has one, and in the one
// that they were last heard in where it has several; also those that were learned before a change.
func TestLearnedNodesPartition(t *testing.T) {
	inTwo := func(c *manage.Change) {
		c.Nodes = append(c.Nodes, manage.Node{IP4: far4, GID: gid(9), LID: 9, PKey: 0x8001})
	}
	inOne := func(*manage.Change) {}
	bubble(t, "from one to two and back", func(t *testing.T) {
		s := learningNodes(t, nil)
		if got := s.partition(); got != 0 {
			t.Errorf("learned with one partition: %d", got)
		}
		s.change(inTwo)
		if got := s.partition(); got != tables.PartitionHeard {
			t.Errorf("one has become two: %d", got)
		}
		s.change(inOne)
		if got := s.partition(); got != 0 {
			t.Errorf("two have become one: %d", got)
		}
		if n := s.loop.Status().LearnedNodes; n != 1 {
			t.Errorf("%d are learned", n)
		}
	})
	bubble(t, "two from the start", func(t *testing.T) {
		s := learningNodes(t, func(c *manageConfig) {
			c.Nodes = append(c.Nodes, manage.Node{IP4: far4, GID: gid(9), LID: 9, PKey: 0x8001})
		})
		if got := s.partition(); got != tables.PartitionHeard {
			t.Errorf("learned with two partitions: %d", got)
		}
	})
}
