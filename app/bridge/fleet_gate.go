// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"causeway/fleet/shares"
	"causeway/ibside"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// shareGate opens and closes shares of the fleet's work: to the workers, and to management, which answers ARP and ND for
// those that are open. nil: there is no fleet.
type shareGate struct {
	rights   lcore.Rights
	name     string    // of the fleet
	virtual  frame.MAC // of host share 0
	takeOver func([]frame.MAC)
	log      *slog.Logger

	founded  atomic.Uint64 // when the fleet was, Unix time in nanoseconds; 0: not known yet
	changing sync.Mutex
	open     lcore.Shares
	barred   bool // nothing is forwarded of what is open
	hosts    atomic.Uint64
	groups   atomic.Uint64 // how many
	lapses   atomic.Uint64
	deadline atomic.Pointer[time.Time]
}

// Open implements right.Gate.
func (g *shareGate) Open(all []shares.Share) {
	g.changing.Lock()
	defer g.changing.Unlock()
	opened := lcore.Shares{}
	for _, s := range all {
		word, bit := place(&opened, s)
		*word |= bit
		word, _ = place(&g.open, s)
		*word |= bit
	}
	g.apply()
	g.announce(opened.Hosts)
}

// announce has switches learn that host shares are here now.
func (g *shareGate) announce(hosts uint64) {
	var macs []frame.MAC
	for s := range shares.Share(shares.Hosts) {
		if !g.barred && hosts>>s&1 != 0 {
			macs = append(macs, macOf(g.virtual, s))
		}
	}
	g.takeOver(macs)
}

// bar has nothing forwarded, or again what is open. It returns when the workers keep to it.
func (g *shareGate) bar(on bool) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.barred = on
	g.apply()
	g.announce(g.open.Hosts)
}

// Close implements right.Gate.
func (g *shareGate) Close(all []shares.Share) {
	g.changing.Lock()
	defer g.changing.Unlock()
	for _, s := range all {
		word, bit := place(&g.open, s)
		*word &^= bit
	}
	g.apply()
}

// Until implements right.Gate.
func (g *shareGate) Until(deadline time.Time) {
	if was := g.deadline.Swap(&deadline); was != nil {
		if late := time.Since(*was); late > 0 {
			g.lapses.Add(1)
			g.log.Warn("fleet_right_lapsed", "for", late.Round(time.Millisecond), "note", "nothing was forwarded meanwhile: etcd did not answer in time")
		}
	}
	g.rights.SetDeadline(deadline)
}

// place returns where a share's bit is.
func place(in *lcore.Shares, s shares.Share) (word *uint64, bit uint64) {
	if s < shares.Hosts {
		return &in.Hosts, 1 << s
	}
	s -= shares.Hosts
	return &in.Groups[s/64], 1 << (s % 64)
}

// apply gives the workers what is open, and returns when they keep to it. Management answers for it before, and no more
// after.
func (g *shareGate) apply() {
	open := g.open
	if g.barred {
		open = lcore.Shares{}
	}
	groups := 0
	for _, word := range open.Groups {
		groups += bits.OnesCount64(word)
	}
	g.hosts.Store(open.Hosts)
	g.groups.Store(uint64(groups))
	_ = g.rights.SetShares(context.Background(), &open) // which does not end
	g.log.Info("fleet_shares", "host_shares", bits.OnesCount64(open.Hosts), "group_shares", groups)
}

// macOf returns the MAC address of a host share; that of share 0 is the fleet's.
func macOf(fleet frame.MAC, s shares.Share) frame.MAC {
	fleet[5] = byte(s)
	return fleet
}

// MACFor implements manage.Fleet. Who has no right any more does not answer: another may have the share.
func (g *shareGate) MACFor(station frame.MAC) (mac frame.MAC, own bool) {
	s := shares.OfHost(station)
	return macOf(g.virtual, s), g.hosts.Load()>>s&1 != 0 && g.entitled()
}

// fleet is what the bridge tells others of its fleet.
func (g *shareGate) fleet() ibside.Fleet { return fleetOf(g.name, g.founded.Load()) }

// entitled reports whether the bridge may forward now.
func (g *shareGate) entitled() bool {
	until := g.deadline.Load()
	return until != nil && time.Now().Before(*until)
}
