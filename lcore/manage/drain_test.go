// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"causeway/lcore/manage"
)

// answered reports whether an ARP request for an address is answered, whatever else is sent meanwhile.
func (s *rig) answered(ip netip.Addr) bool {
	was := s.loop.Status().Counters.ARPAnswered
	s.give(arp(hostLink, 1, host4, ip))
	sleep(200 * time.Millisecond)
	return s.loop.Status().Counters.ARPAnswered == was+1
}

// TestDrained checks that a drained bridge leaves nodes and groups to another one, but still forwards packets that come
// to it; and that it takes everything back afterwards.
func TestDrained(t *testing.T) {
	bubble(t, "and back", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.Groups, c.MaxGroups = []manage.Group{both(group4)}, 8 })
		sleep(200 * time.Millisecond)
		if !s.answered(node4) || !s.loop.Status().Ready || s.tables.Groups.Len() == 0 {
			t.Fatalf("before: answers %t, %+v, %d groups", s.answered(node4), s.loop.Status(), s.tables.Groups.Len())
		}
		groups := s.tables.Groups.Len()
		s.change(func(c *manage.Change) { c.Drained, c.Groups = true, nil })
		sleep(time.Second)
		if s.answered(node4) {
			t.Error("it answers for a node")
		}
		if st := s.loop.Status(); st.Ready || !st.Drained || st.Waiting != 0 {
			t.Errorf("it is ready %t, drained %t, and waits for %d", st.Ready, st.Drained, st.Waiting)
		}
		if s.tables.Groups.Len() != 0 || s.tables.Nodes.Len() != 1 {
			t.Errorf("%d groups and %d nodes are left", s.tables.Groups.Len(), s.tables.Nodes.Len())
		}
		was := s.loop.Status().Counters
		s.give(arp(hostLink, 1, node4, node4))
		if now := s.loop.Status().Counters; now.AddressesDefended != was.AddressesDefended {
			t.Error("it defends a node's address against the bridge that takes over")
		}
		s.change(func(c *manage.Change) { c.Groups = []manage.Group{both(group4)} })
		sleep(200 * time.Millisecond)
		if st := s.loop.Status(); !s.answered(node4) || !st.Ready || st.Drained || s.tables.Groups.Len() != groups {
			t.Errorf("it is not back: ready %t, drained %t, %d groups", st.Ready, st.Drained, s.tables.Groups.Len())
		}
		if now := s.loop.Status().Counters; now.AddressesAnnounced <= was.AddressesAnnounced {
			t.Error("it has not announced itself")
		}
	})
}

// TestIdleLoopAwaits checks that an idle loop looks for punted frames each millisecond while not all of them are told of, which
// changes with the ports.
func TestIdleLoopAwaits(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const tickHalf = 50 * time.Millisecond
		var told atomic.Bool
		told.Store(true)
		s := start(t, func(c *manage.Config, _ *ibPort) {
			c.Punted, c.AwaitPunted = make(chan struct{}), told.Load
		})
		for _, want := range []bool{true, false, true} {
			told.Store(want)
			sleep(3*time.Second + tickHalf) // between two looks
			s.w.take()                      // announcements
			answered := len(s.give(arp(hostLink, 1, host4, bridge4))) == 1
			if answered == want {
				t.Errorf("told of frames: %v; a frame that is not told of is answered at once: %v", want, answered)
			}
			sleep(time.Second)
			s.w.take()
		}
	})
}
