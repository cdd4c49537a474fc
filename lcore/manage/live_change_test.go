// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"

	"pgregory.net/rapid"
)

// everyone is a policy that allows all.
var everyone = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// changeOf returns the change that contains a configuration unchanged.
func changeOf(cfg manage.Config) manage.Change {
	c := manage.Change{Segment: cfg.Segment, Nodes: cfg.Nodes, ProxyQPLimits: cfg.ProxyQPLimits}
	c.Allow = everyone
	for _, s := range cfg.More {
		s.Allow = everyone
		c.More = append(c.More, s)
	}
	return c
}

// change returns an edited change of the usual configuration.
func (s *rig) change(edit func(*manage.Change)) {
	s.t.Helper()
	c := changeOf(config())
	edit(&c)
	if err := s.loop.Change(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// nodeAt is a node with one address of 10.9.0.0/24.
func nodeAt(n byte, lid ib.LID) manage.Node {
	return manage.Node{IP4: netip.AddrFrom4([4]byte{10, 9, 0, n}), GID: gid(uint64(n)), LID: lid}
}

// answersFor reports whether the bridge answers for an address.
func (s *rig) answersFor(ip netip.Addr) bool { return len(s.give(arp(hostLink, 1, host4, ip))) == 1 }

// TestNodesChange checks that nodes are added and removed: with a LID of their own at once, else when the subnet
// administrator knows their path.
func TestNodesChange(t *testing.T) {
	bubble(t, "come and go", nodesComeAndGo)
	bubble(t, "removed while its path is being queried", nodeRemovedEarly)
	bubble(t, "changed in place", nodeInPlace)
	bubble(t, "addresses exchanged", nodesExchanged)
	bubble(t, "in the place of a RoCE host", nodeForHost)
}

func nodesComeAndGo(t *testing.T) {
	s := start(t, nil)
	s.change(func(c *manage.Change) { c.Nodes = append(c.Nodes, nodeAt(20, 20), nodeAt(21, 0)) })
	sleep(200 * time.Millisecond)
	for _, n := range []byte{20, 21} {
		if !s.answersFor(nodeAt(n, 0).IP4) {
			t.Errorf("no answer for the new node %d", n)
		}
	}
	if s.w.takeTold() == nil {
		t.Error("the new nodes are not announced")
	}
	if got, _, _ := s.tables.Nodes.Find(nodeAt(21, 0).IP4); got.LID != 7 || got.SL != 1 {
		t.Errorf("the path of the second is %+v", got)
	}
	s.change(func(c *manage.Change) { c.Nodes = []manage.Node{nodeAt(20, 20)} })
	if s.answersFor(node4) || s.answersFor(nodeAt(21, 0).IP4) || !s.answersFor(nodeAt(20, 0).IP4) {
		t.Error("the bridge answers for a removed node, or does not for one that is left")
	}
	if n := s.tables.Nodes.Len(); n != 1 {
		t.Errorf("%d nodes are in the tables", n)
	}
}

func nodeRemovedEarly(t *testing.T) {
	s := start(t, func(c *manageConfig, d *ibPort) {
		c.Nodes = append(c.Nodes, nodeAt(20, 0))
		d.path = never
	})
	if s.loop.Status().Ready {
		t.Error("ready without a path")
	}
	s.change(func(*manage.Change) {})
	sleep(time.Second)
	if st := s.loop.Status(); !st.Ready || st.Waiting != 0 {
		t.Errorf("status %+v", st)
	}
}

func nodeInPlace(t *testing.T) {
	s := start(t, nil)
	_, id, _ := s.tables.Nodes.Find(node4)
	s.change(func(c *manage.Change) {
		c.Nodes = []manage.Node{{IP4: node4, GID: nodeGID, LID: 9, SL: 3, Bridge: true}}
	})
	if got, now, _ := s.tables.Nodes.Find(node4); now != id || got.LID != 9 || got.SL != 3 || !got.Bridge {
		t.Errorf("node %+v with id %d, before %d", got, now, id)
	}
	if _, _, there := s.tables.Nodes.Find(node6); there || s.answersFor(node6) {
		t.Error("an address that was removed still counts as the node's")
	}
	s.change(func(c *manage.Change) { c.Nodes = []manage.Node{{IP4: node4, GID: nodeGID}} })
	if _, now, there := s.tables.Nodes.Find(node4); !there || now != id {
		t.Error("a node whose LID is queried again is missing meanwhile")
	}
	sleep(time.Second)
	if got, _, _ := s.tables.Nodes.Find(node4); got.LID != 7 {
		t.Errorf("its path is %+v", got)
	}
}

func nodesExchanged(t *testing.T) {
	a, b := nodeAt(20, 20), nodeAt(21, 21)
	s := start(t, func(c *manageConfig, _ *ibPort) { c.Nodes = []manage.Node{a, b} })
	a.IP4, b.IP4 = b.IP4, a.IP4
	s.change(func(c *manage.Change) { c.Nodes = []manage.Node{a, b} })
	if got, _, _ := s.tables.Nodes.Find(a.IP4); got.GID != a.GID {
		t.Errorf("%v is at %v", a.IP4, got.GID)
	}
}

func nodeForHost(t *testing.T) {
	s := start(t, nil)
	s.punt(hostLink, host4, 0x123)
	s.change(func(c *manage.Change) { c.Nodes = append(c.Nodes, manage.Node{IP4: host4, GID: gid(1), LID: 1}) })
	if _, known := s.host(host4); known || s.loop.Status().ProxyQPs != 0 || s.ibPort.open() != 0 {
		t.Error("the address is still a RoCE host's")
	}
	if h := s.punt(hostLink, host4, 0x123); h.ended() != "source" {
		t.Errorf("its data ends by %q", h.ended())
	}
}

// TestRoomForNodes checks that new nodes for which there is no room until workers have looped are in the tables in the
// end.
func TestRoomForNodes(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var many, others []manage.Node
		for i := range byte(8) {
			many, others = append(many, nodeAt(20+i, 1)), append(others, nodeAt(120+i, 1))
		}
		s := startWith(t, tables.Config{MaxHosts: 4, MaxProxyQPs: 4, MaxNodes: 8, MaxGroups: 4, MaxReaders: 1}, func(c *manageConfig, _ *ibPort) {
			c.Nodes, c.MaxNodes = many, 8
		})
		s.change(func(c *manage.Change) { c.Nodes = others })
		sleep(3 * time.Second)
		if st := s.loop.Status(); !st.Ready || st.Nodes != 8 {
			t.Errorf("status %+v", st)
		}
	})
}

// TestAnyNodes checks that any sequence of changes ends in the state of a bridge that starts with the last.
func TestAnyNodes(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) []manage.Node {
		var set []manage.Node
		ips := rapid.Permutation([]byte{20, 21, 22, 23}).Draw(t, "addresses")
		gids := rapid.Permutation([]uint64{20, 21, 22, 23}).Draw(t, "GIDs")
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := nodeAt(ips[i], ib.LID(rapid.IntRange(0, 2).Draw(t, "lid")))
			n.GID, n.Bridge = gid(gids[i]), rapid.Bool().Draw(t, "bridge")
			set = append(set, n)
		}
		return set
	})
	run := func(t *testing.T, sets [][]manage.Node, pause int) string {
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Nodes = sets[0]
			d.path = func(context.Context, ib.GID, int) error { time.Sleep(20 * time.Millisecond); return nil }
		})
		for _, set := range sets[1:] {
			sleep(time.Duration(pause) * time.Millisecond)
			s.change(func(c *manage.Change) { c.Nodes = set })
		}
		sleep(5 * time.Second)
		var there []string
		for n := range s.tables.Nodes.All() {
			there = append(there, fmt.Sprintf("%+v", n))
		}
		slices.Sort(there)
		st := s.loop.Status()
		return fmt.Sprint(there, st.Ready, st.Waiting, st.Nodes)
	}
	rapid.Check(t, func(rt *rapid.T) {
		sets, pause := rapid.SliceOfN(draw, 1, 5).Draw(rt, "sets"), rapid.IntRange(0, 60).Draw(rt, "pause, ms")
		var changed, fresh string
		synctest.Test(t, func(t *testing.T) { changed = run(t, sets, pause) })
		synctest.Test(t, func(t *testing.T) { fresh = run(t, sets[len(sets)-1:], 0) })
		if changed != fresh {
			rt.Fatalf("after changes\n%s\nfrom the start\n%s", changed, fresh)
		}
	})
}

// TestHostsChange checks that a host that becomes static keeps its proxy QPs, and that one that is no longer static
// stays known.
func TestHostsChange(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, nil)
		s.punt(hostLink, host4, 0x123)
		s.change(func(c *manage.Change) {
			c.Hosts = []tables.Host{{IP: host4, MAC: otherMAC, Version: 1, Static: true}, staticHost(host6)}
			c.Resolve = []netip.Addr{netip.MustParseAddr("10.9.0.3")}
		})
		if h, _ := s.host(host4); !h.Static || h.MAC != otherMAC || h.Version != 2 || s.loop.Status().ProxyQPs != 1 {
			t.Errorf("host %+v, %d proxy QPs", h, s.loop.Status().ProxyQPs)
		}
		if _, known := s.host(host6); !known {
			t.Error("the other is not known")
		}
		if sleep(200 * time.Millisecond); s.count().HostsAsked == 0 {
			t.Error("no request for the third one's MAC address")
		}
		s.change(func(*manage.Change) {})
		if h, known := s.host(host6); !known || h.Static {
			t.Errorf("host %+v, known: %v", h, known)
		}
		sleep(15 * time.Minute)
		if _, known := s.host(host6); known {
			t.Error("it never sends, and is never removed")
		}
	})
}

// TestAllowChange checks that hosts that are not allowed any more lose their proxy QPs and get none.
func TestAllowChange(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, nil)
		s.punt(hostLink, host4, 0x123)
		s.punt(otherLink, other4, 0x123)
		s.change(func(c *manage.Change) { c.Allow = []netip.Prefix{netip.PrefixFrom(other4, 32)} })
		if s.loop.Status().ProxyQPs != 1 || s.ibPort.open() != 1 {
			t.Errorf("%d proxy QPs", s.loop.Status().ProxyQPs)
		}
		if h := s.punt(hostLink, host4, 0x123); h.ended() != "denied" {
			t.Errorf("its data ends by %q", h.ended())
		}
		if h := s.punt(otherLink, other4, 0x124); h.ended() != "requeued" {
			t.Errorf("the other's data ended with %q", h.ended())
		}
	})
}

// TestPortsChange checks that a changed list of services is served, in both directions, at once or when the port can;
// the last list counts.
func TestPortsChange(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := startServices(t, func(_ *manageConfig, cm *services) { cm.serving = 50 * time.Millisecond })
		for _, port := range []uint16{9, 10, 11} {
			c := changeOf(config())
			c.Ports = []ibside.PortRange{{First: port, Last: port}}
			if err := s.loop.Change(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		if s.loop.Status().Ready {
			t.Error("ready before the port serves")
		}
		sleep(time.Second)
		s.cm.mu.Lock()
		ports, serves := s.cm.ports, s.cm.serves
		s.cm.mu.Unlock()
		if len(ports) != 1 || ports[0].First != 11 || !s.loop.Status().Ready || serves > 3 {
			t.Errorf("after %d calls %v are served; %+v", serves, ports, s.loop.Status())
		}
		s.change(func(c *manage.Change) { c.Ports = nil })
		sleep(time.Second)
		s.cm.mu.Lock()
		defer s.cm.mu.Unlock()
		if s.cm.ports != nil || s.cm.h != nil {
			t.Errorf("%v are served", s.cm.ports)
		}
	})
}

// TestRangesChange checks that groups stay while a changed range still contains them, and end when none does.
func TestRangesChange(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.MaxGroups = 32 })
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.wantLearned("without a range")
		one := rangeOf("239.2.0.0/16")
		s.change(func(c *manage.Change) { c.Ranges = []manage.Range{one} })
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.wantLearned("with one", learned4)
		_, id, _ := s.tables.Groups.Find(learned4)
		wider := rangeOf("239.0.0.0/8")
		wider.Group.RewriteImm = true
		s.change(func(c *manage.Change) { c.Ranges = []manage.Range{rangeOf("ff15::2:0/112"), wider} })
		s.wantLearned("with a wider one", learned4)
		if g, now, _ := s.tables.Groups.Find(learned4); now != id || !g.RewriteImm {
			t.Errorf("group %+v with id %d, before %d", g, now, id)
		}
		s.reports(hostLink, host6, frame.JoinRecord(learned6))
		s.wantLearned("with another", learned4, learned6)
		s.change(func(c *manage.Change) { c.Ranges = []manage.Range{rangeOf("ff15::2:0/112")} })
		s.wantLearned("without the wider one", learned6)
	})
}

// TestChangeRejected checks that a change that is not possible changes nothing, and that the error says why.
func TestChangeRejected(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.MaxNodes, c.MaxGroups = 3, 2 })
		committed := false
		for want, edit := range map[string]func(*manage.Change){
			"4 IB nodes are more than the limit of 3": func(c *manage.Change) { c.Nodes = append(c.Nodes, nodeAt(20, 1), nodeAt(21, 1)) },
			"17 static RoCE hosts":                    func(c *manage.Change) { c.Resolve = make([]netip.Addr, 17) },
			"is also that of group":                   func(c *manage.Change) { c.Groups = []manage.Group{toIB(group4), toIB(group4)} },
			"3 groups are more than the limit of 2":   func(c *manage.Change) { c.Groups = []manage.Group{toIB(group4), toIB(group6), {}} },
			"host 10.9.0.254: the address":            func(c *manage.Change) { c.Hosts = []tables.Host{staticHost(bridge4)} },
			"host 10.9.0.7: the address":              func(c *manage.Change) { c.Hosts = []tables.Host{staticHost(node4)} },
			"gid fe80::7 is also":                     func(c *manage.Change) { c.Nodes = append(c.Nodes, manage.Node{IP4: host4, GID: nodeGID, LID: 1}) },
			"0x9008 the bridge would have used 9 since": func(c *manage.Change) {
				for i := range 8 {
					c.Ranges = append(c.Ranges, manage.Range{Group: manage.Group{PKey: ib.PKey(0x9001 + i)}})
				}
			},
			"not now": func(c *manage.Change) { c.Commit = func(map[manage.Place]uint8) error { return errors.New("not now") } },
		} {
			c := changeOf(config())
			c.Commit = func(map[manage.Place]uint8) error { committed = true; return nil }
			c.Nodes = append(c.Nodes, nodeAt(30, 30))
			edit(&c)
			if err := s.loop.Change(context.Background(), c); err == nil || !strings.Contains(err.Error(), want) || committed {
				t.Errorf("%v, want %s; committed: %v", err, want, committed)
			}
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		c := changeOf(config())
		c.Nodes = nil
		_ = s.loop.Change(ended, c) // done or not, but as the error says
		if s.settle(); !s.answersFor(node4) && s.tables.Nodes.Len() == 1 || s.tables.Groups.Len() != 0 {
			t.Error("something has changed")
		}
	})
}
