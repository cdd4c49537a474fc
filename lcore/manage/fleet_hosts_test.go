// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// A part is the stations that a bridge has the shards of. The loop's goroutine uses it.
type part map[frame.MAC]bool

func (p part) MACFor(station frame.MAC) (frame.MAC, bool) { return bridgeMAC, p[station] }

// Has has the MAC address of a shard.
func (p part) Has(mac frame.MAC) bool { return mac == shardMAC && p[mac] }

var shardMAC = frame.MAC{0x32, 1, 2, 3, 4, 5}

// TestHostsHere: a host is here while it is known and the bridge has its shard, to nodes of the partitions that its segment
// has. Only hosts of RoCE that are not known are asked for.
func TestHostsHere(t *testing.T) {
	bubble(t, "one segment", func(t *testing.T) {
		p := part{hostMAC: true}
		s := start(t, func(c *manageConfig, _ *ibPort) { c.Fleet = p })
		all := []netip.Addr{host4, node4, netip.MustParseAddr("10.9.0.99")}
		here := func() []netip.Addr { return manage.HostsHere(t.Context(), s.loop, ib.PKeyDefault, all) }
		if got := here(); len(got) != 0 {
			t.Errorf("of nobody known, %v are here", got)
		}
		for _, ip := range append(all, netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("10.9.0.255")) {
			manage.AskForHost(s.loop, ib.PKeyDefault, ip)
			s.settle()
			asked := s.asked()
			if _, is := asked[ip]; is != (ip == all[0] || ip == all[2]) || len(asked) > 1 {
				t.Errorf("for %v it asks for %v", ip, asked)
			}
		}
		s.give(arp(hostLink, 2, host4, bridge4))
		if got := here(); !slices.Equal(got, all[:1]) {
			t.Errorf("%v are here, of which one is known", got)
		}
		manage.AskForHost(s.loop, ib.PKeyDefault, host4)
		s.settle()
		if asked := s.asked(); len(asked) != 0 {
			t.Errorf("a host that is known is asked for: %v", asked)
		}
		p[hostMAC] = false
		if got := here(); len(got) != 0 {
			t.Errorf("%v are here, whose shards others have", got)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if got := manage.HostsHere(ended, s.loop, ib.PKeyDefault, all); len(got) != 0 {
			t.Errorf("%v are here, and nobody waits", got)
		}
	})
	bubble(t, "two segments", func(t *testing.T) {
		s := startSegmentServices(t, func(c *manageConfig) { c.Fleet = part{hostMAC: true}; c.More[0].Hosts = nil })
		for pkey, want := range map[ib.PKey]int{firstPKey: 1, secondPKey: 0, 0x8123: 0} {
			if got := manage.HostsHere(t.Context(), s.loop, pkey, []netip.Addr{host4}); len(got) != want {
				t.Errorf("nodes with %v reach %v here, want %d", pkey, got, want)
			}
		}
	})
}

// TestContradicts: the bridge says at once that it has a shard which another station says it has, and is silent of others' shards.
func TestContradicts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := part{shardMAC: true}
		s := start(t, func(c *manageConfig, _ *ibPort) { c.Fleet = p })
		claimed := func(mac frame.MAC, times int) (answers int) {
			for range times {
				s.w.give(manage.Punted{Data: frame.AppendRARP(nil, frame.Link{MAC: mac})})
			}
			s.settle()
			for _, f := range frames(t, s.w.take()) {
				if f.Type == frame.TypeRARP && f.Eth.Src() == mac {
					answers++
				}
			}
			return answers
		}
		if n := claimed(shardMAC, 1); n != 1 || s.log.count("shard_claimed") != 1 {
			t.Errorf("%d answers, %d lines", n, s.log.count("shard_claimed"))
		}
		other := shardMAC
		other[5]++
		if n := claimed(other, 1); n != 0 {
			t.Errorf("%d answers for another bridge's shard", n)
		}
		if n := claimed(shardMAC, 400); n < 200 || n > 300 {
			t.Errorf("%d answers to 400", n)
		}
	})
}

// TestHostsOnInfiniBand: nodes ask for addresses of InfiniBand, where these are others than on RoCE; by IPv6, of all hosts
// that are known.
func TestHostsOnInfiniBand(t *testing.T) {
	there4, there6, configured := netip.MustParseAddr("10.10.9.1"), netip.MustParseAddr("fd10:1::1"), netip.MustParseAddr("fd10:1::ffff")
	another, there := netip.MustParseAddr("fd09::5"), netip.MustParseAddr("fd10:1::5")
	bubble(t, "translated", func(t *testing.T) {
		p := part{}
		s := start(t, func(c *manageConfig, _ *ibPort) {
			c.Fleet, c.Translate, c.ProxyQPLimits.Unconfirmed = p, onIB, 2
			c.Hosts = append(c.Hosts, tables.Host{IP: netip.MustParseAddr("fd09::ffff"), MAC: otherMAC, Version: 2, Static: true})
		})
		wantSearched := func(want ...netip.Addr) {
			t.Helper()
			time.Sleep(2 * time.Second)
			got, err := manage.HostsSearched(t.Context(), s.loop, ib.PKeyDefault)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("nodes look for %v, %v, want %v", got, err, want)
			}
		}
		wantSearched(configured)
		manage.AskForHost(s.loop, ib.PKeyDefault, there4)
		s.settle()
		asked := s.asked()
		if _, is := asked[host4]; !is || len(asked) != 1 {
			t.Errorf("for %v it asks for %v", there4, asked)
		}
		s.give(arp(hostLink, 2, host4, bridge4))
		s.give(frame.AppendND(nil, hostLink, bridgeMAC, host6, bridge6, frame.NDFields{Type: frame.NDSolicitation, Target: bridge6, LinkLayer: hostMAC}))
		wantSearched(configured, there6)
		p[hostMAC] = true
		wantSearched(configured, there6)
		s.give(ns(otherLink, another, bridge6))
		wantSearched(configured, there6, there)
		s.give(na(otherLink, another, true))
		wantSearched(configured, there, there6) // it has answered
		here := manage.HostsHere(t.Context(), s.loop, ib.PKeyDefault, []netip.Addr{there4, host4, there6, host6})
		if !slices.Equal(here, []netip.Addr{there4, there6}) {
			t.Errorf("%v are here", here)
		}
	})
}
