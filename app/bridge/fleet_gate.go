// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"log/slog"
	"math/bits"
	"sync/atomic"
	"time"

	"causeway/fleet/shares"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// shareGate opens and closes shares of the fleet's work: to the workers, and to management, which answers ARP and ND for
// those that are open. nil: there is no fleet.
type shareGate struct {
	rights   lcore.Rights
	virtual  frame.MAC // of host share 0
	takeOver func([]frame.MAC)
	log      *slog.Logger

	open     lcore.Shares // belongs to the member's goroutine
	hosts    atomic.Uint64
	groups   atomic.Uint64 // how many
	lapses   atomic.Uint64
	deadline atomic.Pointer[time.Time]
}

// Open implements right.Gate.
func (g *shareGate) Open(all []shares.Share) {
	var macs []frame.MAC
	for _, s := range all {
		word, bit := g.place(s)
		*word |= bit
		if s < shares.Hosts {
			macs = append(macs, macOf(g.virtual, s))
		}
	}
	g.apply()
	g.takeOver(macs)
}

// Close implements right.Gate.
func (g *shareGate) Close(all []shares.Share) {
	for _, s := range all {
		word, bit := g.place(s)
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
func (g *shareGate) place(s shares.Share) (word *uint64, bit uint64) {
	if s < shares.Hosts {
		return &g.open.Hosts, 1 << s
	}
	s -= shares.Hosts
	return &g.open.Groups[s/64], 1 << (s % 64)
}

// apply gives the workers what is open, and returns when they keep to it. Management answers for it before, and no more
// after.
func (g *shareGate) apply() {
	groups := 0
	for _, word := range g.open.Groups {
		groups += bits.OnesCount64(word)
	}
	g.hosts.Store(g.open.Hosts)
	g.groups.Store(uint64(groups))
	_ = g.rights.SetShares(context.Background(), &g.open) // which does not end
	g.log.Info("fleet_shares", "host_shares", bits.OnesCount64(g.open.Hosts), "group_shares", groups)
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

// entitled reports whether the bridge may forward now.
func (g *shareGate) entitled() bool {
	until := g.deadline.Load()
	return until != nil && time.Now().Before(*until)
}
