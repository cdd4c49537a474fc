// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/lcore/manage/neighbours"
	"causeway/tables"
)

// TestLists checks that lists have all selected entries, in order, up to the limit.
func TestLists(t *testing.T) {
	bubble(t, "all", func(t *testing.T) {
		s := start(t, func(c *manage.Config, _ *ibPort) {
			c.Hosts = []tables.Host{staticHost(netip.MustParseAddr("10.9.0.5"))}
			c.Groups = []manage.Group{{IP: netip.MustParseAddr("239.1.2.3"), MGID: ib.MGIDRDMACM(netip.MustParseAddr("239.1.2.3"), 0xffff, 2), ToIB: true, ToRoCE: true}}
			c.Resolve = []netip.Addr{netip.MustParseAddr("10.9.0.6")}
		})
		s.punt(hostLink, host4, 0x12)
		s.punt(hostLink, host4, 0x11)
		s.give(arp(otherLink, frame.ARPRequest, netip.MustParseAddr("10.9.0.2"), node4))
		ctx := context.Background()
		hosts, err := s.loop.Lists().ListHosts(ctx, manage.Query{})
		if err != nil || hosts.Total != 3 || hosts.Entries[0].IP != host4 || hosts.Entries[0].ProxyQPs != 2 || hosts.Entries[0].State != manage.HostReachable ||
			hosts.Entries[2].State != neighbours.Static {
			t.Errorf("hosts %+v %v", hosts, err)
		}
		near, err := s.loop.Lists().ListNeighbours(ctx, manage.Query{})
		if err != nil || near.Total != 4 || near.Entries[3].State != manage.HostUnresolved {
			t.Errorf("neighbours %+v %v", near, err)
		}
		qps, err := s.loop.Lists().ListProxyQPs(ctx, manage.Query{In: netip.MustParsePrefix("10.9.0.0/30"), Limit: 1})
		if err != nil || qps.Total != 2 || len(qps.Entries) != 1 || qps.Entries[0].HostQPN != 0x11 || qps.Entries[0].Used.IsZero() {
			t.Errorf("proxy QPs %+v %v", qps, err)
		}
		if none, err := s.loop.Lists().ListProxyQPs(ctx, manage.Query{In: netip.MustParsePrefix("10.9.0.2/32")}); err != nil || none.Total != 0 {
			t.Errorf("of another host: %+v %v", none, err)
		}
		nodes, err := s.loop.Lists().ListNodes(ctx, manage.Query{})
		if err != nil || nodes.Total != 1 || !nodes.Entries[0].Resolved || nodes.Entries[0].LID != 7 {
			t.Errorf("nodes %+v %v", nodes, err)
		}
		groups, err := s.loop.Lists().ListGroups(ctx, manage.Query{})
		if err != nil || groups.Total != 1 || groups.Entries[0].State != "joined" || groups.Entries[0].MLID == 0 {
			t.Errorf("groups %+v %v", groups, err)
		}
		if requests, err := s.loop.Lists().ListRequests(ctx, manage.Query{}); err != nil || requests.Total != 0 {
			t.Errorf("requests %+v %v", requests, err)
		}
	})
}

// TestUnresolvedNode checks that a node whose path is not known is in the list.
func TestUnresolvedNode(t *testing.T) {
	bubble(t, "node", func(t *testing.T) {
		s := start(t, func(c *manage.Config, d *ibPort) { c.Nodes[0].LID, d.path = 0, never })
		nodes, err := s.loop.Lists().ListNodes(context.Background(), manage.Query{})
		if err != nil || nodes.Total != 1 || nodes.Entries[0].Resolved {
			t.Errorf("nodes %+v %v", nodes, err)
		}
	})
}

// TestRemoveLearnedHost checks that a learned host is removed, but not one that is static, has proxy QPs, or is not
// known.
func TestRemoveLearnedHost(t *testing.T) {
	bubble(t, "hosts", func(t *testing.T) {
		static := netip.MustParseAddr("10.9.0.5")
		s := start(t, func(c *manage.Config, _ *ibPort) { c.Hosts = []tables.Host{staticHost(static)} })
		s.punt(hostLink, host4, 0x11)
		heard := netip.MustParseAddr("10.9.0.2")
		s.give(arp(otherLink, frame.ARPRequest, heard, node4))
		for ip, want := range map[netip.Addr]bool{static: false, host4: false, far4: false, heard: true} {
			if got, err := s.loop.Lists().RemoveLearnedHost(context.Background(), 0, ip); got != want || err != nil {
				t.Errorf("%v: %v %v", ip, got, err)
			}
		}
		if _, known := s.host(heard); known {
			t.Error("it is still there")
		}
	})
}

// TestListsOfMany checks that a long list delays the loop by short pieces only, keeps to its limit, and is complete
// when entries come and go meanwhile. Time is real here.
func TestListsOfMany(t *testing.T) {
	const many = 50_000
	cfg := config()
	cfg.MaxHosts = many
	table, err := tables.New(tables.Config{MaxHosts: many + 64, MaxProxyQPs: 16, MaxNodes: 16, MaxGroups: 64, MaxReaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	ip := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range many {
		cfg.Hosts = append(cfg.Hosts, tables.Host{IP: ip(i), MAC: hostMAC, Version: 2, Static: true})
	}
	w := &worker{}
	loop := manage.New(cfg, table, newPort(), []manage.Worker{w}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()
	list, err := loop.Lists().ListHosts(ctx, manage.Query{Limit: 10})
	if err != nil || list.Total != many || len(list.Entries) != 10 || list.Entries[9].IP != ip(9) {
		t.Errorf("%d of %d, %v", len(list.Entries), list.Total, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			if list, err := loop.Lists().ListHosts(ctx, manage.Query{}); err != nil || list.Total < many || !slices.IsSortedFunc(list.Entries, func(a, b manage.HostEntry) int { return a.IP.Compare(b.IP) }) {
				t.Errorf("%d, %v", list.Total, err)
			}
		}
	}()
	for n := byte(1); ; n++ { // hosts come meanwhile
		w.give(manage.Punted{Data: arp(otherLink, frame.ARPRequest, netip.AddrFrom4([4]byte{10, 9, 0, 100 + n%8}), node4)})
		select {
		case <-done:
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := loop.Lists().ListHosts(context.Background(), manage.Query{}); !errors.Is(err, manage.ErrEnded) {
				t.Errorf("after the end: %v", err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}
