// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

func absentUntil(when time.Time) func(context.Context, ib.GID, int) error {
	return func(context.Context, ib.GID, int) error {
		if time.Now().Before(when) {
			return errors.New("no such node")
		}
		return nil
	}
}

// flood makes the worker punt the frames of more, until that returns nil.
func (w *worker) flood(more func() *manage.Punted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.more = more
	w.tell()
}

// heapNow returns how many bytes are in use.
func heapNow() uint64 {
	var m runtime.MemStats
	for range 2 { // what sync.Pool has is kept once
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestIdleHostAges checks that a host without proxy QPs is probed three times and then removed; and that one that
// answers stays.
func TestIdleHostAges(t *testing.T) {
	bubble(t, "idle", func(t *testing.T) {
		s := start(t, nil)
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.give(ns(otherLink, host6, node6))
		s.w.take()
		s.wait(9*time.Minute + 50*time.Second)
		if to := s.questions(host4); len(to) != 0 {
			t.Errorf("asked too early: %v", to)
		}
		s.wait(10200 * time.Millisecond)
		first := s.w.take()
		s.w.sent = first
		if to := s.questions(host4); !slices.Equal(to, []frame.MAC{hostMAC}) {
			t.Errorf("asked %v by ARP", to)
		}
		s.w.sent = first
		if to := s.questions(host6); !slices.Equal(to, []frame.MAC{otherMAC}) {
			t.Errorf("asked %v by ND", to)
		}
		s.give(naBare(otherLink, host6))
		s.wait(5 * time.Second)
		if _, known := s.host(host4); known || s.count().HostsAged != 1 {
			t.Errorf("a host that does not answer is still known: %+v", s.count())
		}
		if to := s.questions(host4); !slices.Equal(to, []frame.MAC{hostMAC, hostMAC}) {
			t.Errorf("then asked %v", to)
		}
		if _, known := s.host(host6); !known {
			t.Error("who answers is removed")
		}
	})
}

// TestUsedHostIsRefreshed checks that a host whose proxy QP is in use is probed each minute, and stays for as long as
// it answers.
func TestUsedHostIsRefreshed(t *testing.T) {
	bubble(t, "used", func(t *testing.T) {
		s := start(t, nil)
		s.punt(hostLink, host4, 0x10)
		asked := 0
		for range 1200 { // twenty minutes
			s.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host4, HostQPN: 0x10})
			s.wait(time.Second)
			for _, to := range s.questions(host4) {
				asked++
				if to != hostMAC {
					t.Fatalf("asked %v", to)
				}
				s.give(arp(hostLink, frame.ARPReply, host4, bridge4))
			}
		}
		if asked < 18 || asked > 21 {
			t.Errorf("asked %d times in twenty minutes", asked)
		}
		if n := s.count(); n.HostsAged+n.HostsSilent+n.HostsMoved != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestSilentHost checks that a host with proxy QPs stays though it does not answer, is searched for by broadcast, found
// under a new MAC address, and removed when its proxy QPs have ended.
func TestSilentHost(t *testing.T) {
	bubble(t, "silent", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.ProxyQPLimits.Idle = time.Hour })
		s.punt(hostLink, host4, 0x10)
		use := func(d time.Duration) []frame.MAC {
			for range d / time.Second {
				s.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host4, HostQPN: 0x10})
				s.wait(time.Second)
			}
			return s.questions(host4)
		}
		to := use(66 * time.Second)
		if want := []frame.MAC{hostMAC, hostMAC, hostMAC, frame.Broadcast}; !slices.Equal(to, want) || s.count().HostsSilent != 1 {
			t.Errorf("asked %v, want %v; %+v", to, want, s.count())
		}
		if to := use(5 * time.Minute); len(to) != 5 || to[0] != frame.Broadcast || s.log.count("host_silent") != 1 {
			t.Errorf("then asked %v, %d lines", to, s.log.count("host_silent"))
		}
		s.give(arp(otherLink, frame.ARPReply, host4, bridge4)) // a new card
		s.wait(claimTime)
		if h, known := s.host(host4); !known || h.MAC != otherMAC {
			t.Errorf("known %v, at %v", known, frame.MAC(h.MAC))
		}
		s.wait(50 * time.Minute)
		if _, known := s.host(host4); !known || s.count().HostsSilent != 2 {
			t.Errorf("a host with proxy QPs is known: %v, %+v", known, s.count())
		}
		s.wait(45 * time.Minute)
		if _, known := s.host(host4); known || s.count().ProxyQPsAged != 1 || s.count().HostsAged != 1 {
			t.Errorf("without proxy QPs it is known: %v, %+v", known, s.count())
		}
	})
}

// TestWhoStays checks that a static host is never probed nor removed, that one behind a router is removed without a
// probe, and that one that is configured without its MAC address is searched for again.
func TestWhoStays(t *testing.T) {
	bubble(t, "who stays", func(t *testing.T) {
		static, named := netip.MustParseAddr("10.9.0.3"), netip.MustParseAddr("10.9.0.4")
		s := start(t, func(c *manageConfig, _ *ibPort) {
			c.Resolve, c.ProxyQPLimits.Idle = []netip.Addr{named}, time.Minute
			c.Hosts = append(c.Hosts, staticHost(static))
		})
		s.give(arp(otherLink, frame.ARPReply, named, bridge4))
		s.punt(hostLink, far4, 0x10)
		s.w.take()
		s.wait(25 * time.Minute)
		if _, known := s.host(static); !known {
			t.Error("the static host is gone")
		}
		if _, known := s.host(far4); known || s.count().HostsAged != 2 {
			t.Errorf("the host behind a router is known: %v, %+v", known, s.count())
		}
		sent := s.w.take()
		for ip, want := range map[netip.Addr]int{static: 0, far4: 0} {
			s.w.sent = slices.Clone(sent)
			if to := s.questions(ip); len(to) != want {
				t.Errorf("%v was asked for: %v", ip, to)
			}
		}
		s.w.sent = sent
		to := s.questions(named)
		if len(to) < 10 || to[0] != otherMAC || to[len(to)-1] != frame.Broadcast {
			t.Errorf("the configured host was asked for: %v", to)
		}
	})
}

// TestFullRingAsksLater checks that no request is lost when the worker's ring is full.
func TestFullRingAsksLater(t *testing.T) {
	bubble(t, "full", func(t *testing.T) {
		s := start(t, nil)
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.w.setFull(true)
		s.wait(15 * time.Minute)
		s.w.setFull(false)
		if _, known := s.host(host4); !known {
			t.Fatal("removed without a question")
		}
		s.wait(10 * time.Second)
		if _, known := s.host(host4); known || len(s.questions(host4)) != 3 {
			t.Errorf("known %v", known)
		}
	})
}
