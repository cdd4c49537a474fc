// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"slices"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// TestTwoPorts checks that of two MAC addresses which both answer for an address, as those of a host with two ports do, the one has
// it that data come from; but not from a holder that sends itself.
func TestTwoPorts(t *testing.T) {
	answer := func(l frame.Link) []byte {
		return frame.AppendARP(nil, l, bridgeMAC, frame.ARPFields{Op: frame.ARPReply, SHA: l.MAC, SPA: host4, THA: bridgeMAC, TPA: bridge4})
	}
	bubble(t, "the holder only answers", func(t *testing.T) {
		s := start(t, nil)
		s.give(answer(hostLink))
		if h := s.punt(otherLink, host4, 0x11); h.ended() != "source" {
			t.Errorf("the first data ended by %q", h.ended())
		}
		s.wait(150 * time.Millisecond)
		if to := s.questions(host4); len(to) != 2 || !slices.Contains(to, otherMAC) || !slices.Contains(to, hostMAC) {
			t.Errorf("asked %v, want both", to)
		}
		s.give(answer(hostLink))
		s.give(answer(otherLink))
		if h, _ := s.host(host4); h.MAC != otherMAC {
			t.Errorf("is at %v", frame.MAC(h.MAC))
		}
		if h := s.punt(otherLink, host4, 0x11); h.ended() != "requeued" {
			t.Errorf("the next data ended by %q", h.ended())
		}
		for range 3 {
			s.give(answer(hostLink))
			s.give(answer(otherLink))
			s.wait(claimTime)
		}
		if h, _ := s.host(host4); h.MAC != otherMAC || s.log.count("host_answers_twice") != 1 || s.count().HostFlaps != 0 {
			t.Errorf("in the end it is at %v; %+v", frame.MAC(h.MAC), s.count())
		}
	})
	bubble(t, "the holder sends", func(t *testing.T) {
		s := start(t, nil)
		s.punt(hostLink, host4, 0x10)
		s.punt(otherLink, host4, 0x11)
		s.wait(150 * time.Millisecond)
		s.give(answer(otherLink))
		s.give(answer(hostLink))
		s.wait(claimTime)
		if h, _ := s.host(host4); h.MAC != hostMAC || s.count().HostsMoved != 0 {
			t.Errorf("is at %v", frame.MAC(h.MAC))
		}
	})
}

// TestLateAnswer checks that a host keeps its address whose answer waits in the ring: management judges by what it has taken.
func TestLateAnswer(t *testing.T) {
	bubble(t, "starved", func(t *testing.T) {
		s := start(t, nil)
		s.give(arp(hostLink, frame.ARPRequest, host4, node4))
		s.give(arp(otherLink, frame.ARPRequest, host4, host4))
		s.wait(150 * time.Millisecond)
		s.w.slow.Store(int64(300 * time.Millisecond))
		for range 4 * burst {
			s.w.give(manage.Punted{Data: []byte{0}})
		}
		s.w.give(manage.Punted{Data: arp(hostLink, frame.ARPReply, host4, bridge4)})
		s.wait(3 * time.Second)
		s.w.slow.Store(0)
		s.wait(claimTime)
		if h, _ := s.host(host4); h.MAC != hostMAC || s.count().HostsMoved != 0 {
			t.Errorf("is at %v", frame.MAC(h.MAC))
		}
	})
}
