// SPDX-License-Identifier: Apache-2.0

package gids_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/gids"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

var (
	host  = netip.MustParseAddr("fe80::101")
	other = netip.MustParseAddr("fe80::102")
)

func gid(n uint64) ib.GID { return ib.GIDFromGUID(0xfe80<<48, ib.GUID(n)) }

// port is a Port with these GIDs, all of which can be sent from, and an ibside.Aliaser.
type port struct {
	mu      sync.Mutex
	gids    []ib.GID
	aliases map[ib.GUID]bool

	elsewhere map[frame.MAC]bool // stations that other bridges have
	room      int                // for aliases; 0: for any number
}

func (p *port) Own() (own ibside.Own) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own = ibside.Own{LID: 1, GIDs: p.gids}
	for i, g := range p.gids {
		own.Sources = append(own.Sources, ibside.Source{Number: uint8(i), GID: g})
	}
	return own
}

func (p *port) SetAlias(_ context.Context, guid ib.GUID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room != 0 && len(p.aliases) >= p.room {
		return ibside.ErrNoAlias
	}
	p.aliases[guid] = true
	return nil
}

func (p *port) DropAlias(_ context.Context, guid ib.GUID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.aliases, guid)
	return nil
}

// proxyQPs is ProxyQPs: the source of each host that has proxy QPs.
type proxyQPs map[netip.Addr]uint8

func (p proxyQPs) Hosts() iter.Seq[netip.Addr]            { return maps.Keys(p) }
func (p proxyQPs) SendFrom(host netip.Addr, source uint8) { p[host] = source }

// run runs a test with GIDs on a fake clock. turn runs the loop for a second.
func run(t *testing.T, c gids.Config, own []ib.GID, hosts []tables.Host, test func(t *testing.T, g *gids.GIDs, p *port, turn func())) {
	synctest.Test(t, func(t *testing.T) {
		ts, err := tables.New(tables.Config{MaxHosts: 16, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 4, MaxReaders: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer ts.Close()
		from := proxyQPs{}
		for _, h := range hosts {
			if _, err := ts.Hosts.Put(h); err != nil {
				t.Fatal(err)
			}
			from[h.IP] = 0
		}
		in := inbox.New(16, errors.New("ended"))
		a := ask.New(in)
		a.Start(t.Context())
		p := &port{gids: own, aliases: map[ib.GUID]bool{}, elsewhere: map[frame.MAC]bool{}}
		g := gids.New(c, gids.Deps{
			Tables: ts.Nodes, HostTables: ts.Hosts, Port: p, ProxyQPs: from, Ask: a, Log: ratelog.New(slog.New(slog.NewTextHandler(io.Discard, nil))), OwnGID: ib.GIDFromAddr,
			Here: func(mac frame.MAC) bool { return !p.elsewhere[mac] },
		})
		test(t, g, p, func() {
			for range 10 {
				g.Follow()
				g.Tick(time.Now())
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				in.DoPending()
			}
		})
		a.Wait()
	})
}

func hosts(ips ...netip.Addr) (hs []tables.Host) {
	for i, ip := range ips {
		hs = append(hs, tables.Host{IP: ip, MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Version: 2})
	}
	return hs
}

// TestFollow checks that a host sends from the GID that is its address, another from a reserved one, and both from the
// bridge's own when the port no longer has those.
func TestFollow(t *testing.T) {
	c := gids.Config{Reserved: []netip.Prefix{netip.MustParsePrefix("fe80::900/120")}}
	own := []ib.GID{gid(1), gid(0x901), ib.GIDFromAddr(host)}
	run(t, c, own, hosts(host, other), func(t *testing.T, g *gids.GIDs, p *port, turn func()) {
		turn()
		if g.Of(host) != own[2] || g.Of(other) != own[1] || g.Hosts() != 2 || g.Own() != 3 || !g.Has(gid(1)) || g.BySource(1) != own[1] {
			t.Errorf("%v has %v, %v has %v", host, g.Of(host), other, g.Of(other))
		}
		p.gids = own[:1]
		turn()
		if !g.Of(host).IsZero() || g.Hosts() != 0 || g.Own() != 1 {
			t.Errorf("%v still has %v", host, g.Of(host))
		}
	})
}

// TestAliases checks that GIDs of known hosts are requested from the port, and only if that is configured.
func TestAliases(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		run(t, gids.Config{Aliases: enabled}, []ib.GID{gid(1)}, hosts(host), func(t *testing.T, g *gids.GIDs, p *port, turn func()) {
			turn()
			if has := p.aliases[ib.GIDFromAddr(host).GUID()]; has != enabled || g.Aliases() != len(p.aliases) {
				t.Errorf("enabled %t: the port has %v", enabled, p.aliases)
			}
		})
	}
}

// TestAliasesInOrder checks that the port's room is for configured hosts first, and last for those that have never answered.
func TestAliasesInOrder(t *testing.T) {
	const room = 4 // as many as are asked for at once
	var all []tables.Host
	for i := range 3 * room {
		h := hosts(netip.MustParseAddr(fmt.Sprintf("fe80::1%02x", i)))[0]
		h.Confirmed, h.Static = i%3 == 1 && i < 9, i == 11
		all = append(all, h)
	}
	run(t, gids.Config{Aliases: true}, []ib.GID{gid(1)}, all, func(t *testing.T, g *gids.GIDs, p *port, turn func()) {
		p.room = room
		turn()
		for _, h := range all {
			if p.aliases[ib.GIDFromAddr(h.IP).GUID()] != (h.Confirmed || h.Static) {
				t.Errorf("the port has %v", p.aliases)
			}
		}
	})
}

// TestAliasesElsewhere checks that the port has the aliases of hosts that this bridge has, and no others: those go that another
// one gets.
func TestAliasesElsewhere(t *testing.T) {
	all := hosts(host, other)
	run(t, gids.Config{Aliases: true}, []ib.GID{gid(1)}, all, func(t *testing.T, g *gids.GIDs, p *port, turn func()) {
		for _, has := range [][2]bool{{true, true}, {true, false}, {false, false}, {false, true}} {
			for i, h := range all {
				p.elsewhere[h.MAC] = !has[i]
			}
			turn()
			turn()
			for i, h := range all {
				if p.aliases[ib.GIDFromAddr(h.IP).GUID()] != has[i] {
					t.Errorf("of %v the port has %v", has, p.aliases)
				}
			}
		}
	})
}
