// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// announced returns the address that a frame announces; the zero Addr: none.
func announced(b []byte) netip.Addr {
	f, fault := frame.Open(b)
	switch {
	case fault != "":
	case f.Type == frame.TypeARP:
		if a, fault := frame.ParseARP(f.Eth.Src(), f.Payload); fault == "" && a.IsGratuitous() {
			return a.SPA
		}
	case f.IPv6 != nil && f.Protocol() == frame.ProtoICMPv6:
		if nd, fault := frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload); fault == "" && nd.Type == frame.NDAdvertisement && nd.Override {
			return nd.Target
		}
	}
	return netip.Addr{}
}

func announces(b []byte) bool { return announced(b).IsValid() }

// told waits and returns what was announced meanwhile: "10.9.0.254 fd09::fe".
func (s *rig) told(wait time.Duration) string {
	time.Sleep(wait)
	synctest.Wait()
	var who []string
	for _, b := range s.w.takeTold() {
		who = append(who, announced(b).String())
	}
	return strings.Join(who, " ")
}

// TestAnnounce checks that each address is announced, IPv4 twice, IPv6 three times, at their intervals.
func TestAnnounce(t *testing.T) {
	bubble(t, "own and nodes", func(t *testing.T) {
		s := start(t, nil)
		first := frames(t, s.w.takeTold())
		if len(first) != 4 || first[0].Eth.Dst() != frame.Broadcast || first[1].Dst() != frame.AllNodes6 || first[1].Src() != bridge6 {
			t.Errorf("announced %+v", first)
		}
		const six, both = "fd09::fe fd09::7", "10.9.0.254 fd09::fe 10.9.0.7 fd09::7"
		for i, want := range []string{"", six, "", both, "", ""} {
			const halfASecond = 500 * time.Millisecond
			if got := s.told(halfASecond + time.Duration(i%2)*200*time.Millisecond); got != want {
				t.Errorf("%d: announced %q, want %q", i, got, want)
			}
		}
		if got := s.told(time.Minute); got != "" || s.count().AddressesAnnounced != 10 {
			t.Errorf("announced again %q, %d in all", got, s.count().AddressesAnnounced)
		}
	})
	bubble(t, "before it reports that it is ready", func(t *testing.T) {
		const joining = 30 * time.Millisecond // the bridge is ready only after that
		s := start(t, func(cfg *manageConfig, d *ibPort) {
			cfg.Nodes[0].LID = 0
			d.path = func(context.Context, ib.GID, int) error { time.Sleep(joining); return nil }
		})
		for !s.loop.Status().Ready {
			if got := s.told(time.Millisecond); got != "" && !s.loop.Status().Ready {
				t.Errorf("announced too early: %q", got)
			} else if s.loop.Status().Ready && got == "" {
				t.Error("ready, and nothing is announced")
			}
		}
	})
	bubble(t, "tagged", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, _ *ibPort) { cfg.VLAN = 100 })
		for _, f := range frames(t, s.w.takeTold()) {
			if f.Tag == nil || f.Tag.VID() != 100 {
				t.Errorf("announced untagged: %+v", f)
			}
		}
	})
}

// TestAnnounceLate checks that a bridge that is not ready announces nothing, for a limited time; and never a node that
// the subnet does not have.
func TestAnnounceLate(t *testing.T) {
	missing := netip.MustParseAddr("10.9.0.8")
	bubble(t, "a node comes late", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, d *ibPort) {
			cfg.Nodes = append(cfg.Nodes, manageNode{IP4: missing, GID: gid(8)})
			begin := time.Now()
			d.path = func(context.Context, ib.GID, int) error {
				if time.Since(begin) < time.Minute {
					return errors.New("no such node")
				}
				return nil
			}
		})
		if got := s.told(4900 * time.Millisecond); got != "" {
			t.Errorf("announced before it is ready: %q", got)
		}
		if got := s.told(300 * time.Millisecond); got != "10.9.0.254 fd09::fe 10.9.0.7 fd09::7" {
			t.Errorf("announced %q after 5 s", got)
		}
		if got := s.told(50 * time.Second); strings.Contains(got, missing.String()) {
			t.Errorf("announced a node that is not there: %q", got)
		}
		if got := s.told(30 * time.Second); got != "10.9.0.8 10.9.0.8" {
			t.Errorf("announced %q when the node came", got)
		}
	})
	bubble(t, "the worker takes nothing", func(t *testing.T) {
		s := start(t, nil)
		s.w.setFull(true)
		s.told(10 * time.Second)
		s.w.setFull(false)
		if got := s.told(10 * time.Second); strings.Count(got, node4.String()) != 1 || strings.Count(got, node6.String()) != 2 {
			t.Errorf("announced later: %q", got)
		}
	})
}

// TestAnnounceMany checks that many nodes' announcements are spread over time.
func TestAnnounceMany(t *testing.T) {
	const many = 14
	bubble(t, "many", func(t *testing.T) {
		s := start(t, func(cfg *manageConfig, _ *ibPort) {
			for i := range many {
				n := manageNode{GID: gid(uint64(100 + i)), LID: ib.LID(100 + i)}
				n.IP4 = netip.MustParseAddr(fmt.Sprintf("10.9.0.%d", 100+i))
				n.IP6 = netip.MustParseAddr(fmt.Sprintf("fd09::%x", 0x100+i))
				cfg.Nodes = append(cfg.Nodes, n)
			}
			for i := range 8 {
				cfg.Addresses = append(cfg.Addresses, netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("10.%d.0.254", 20+i)), 24))
			}
		})
		if n := len(s.w.takeTold()); n != 32 {
			t.Errorf("%d at once, want 32", n)
		}
		if got := strings.Fields(s.told(100 * time.Millisecond)); len(got) != 2*(many+2)+8-32 {
			t.Errorf("then %d", len(got))
		}
	})
}
