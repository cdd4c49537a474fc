// SPDX-License-Identifier: Apache-2.0

package learner

import (
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/learner/bounds"
)

// changed follows what has become known of an address.
func (l *Learner) changed(c ibside.AddressChange, now time.Time) {
	ip, ok := l.cfg.Translate.ToRoCE(c.IP)
	if !ok {
		return
	}
	holder := l.Nodes.GID(ip)
	learned := l.ages.Has(holder)
	switch {
	case c.GID.IsZero() && c.Failed && learned:
		l.failed(ip, c.IP, now)
	case c.GID.IsZero():
	case learned && c.GID == holder:
		if c.Answered {
			l.answered(ip, now)
		}
	case learned: // another has it now
		l.learn(holder, now)
		l.gids.End(c.GID)
		l.byGID(c.GID, now)
	case l.ages.Has(c.GID): // a node has one more address, or another one
		l.another(ip, c.GID, now)
	case l.ips.Open(ip, now) || l.gids.Open(c.GID, now):
		l.ips.End(ip)
		l.gids.End(c.GID)
		l.byGID(c.GID, now)
	}
}

// answered takes an answer of the node that has an address.
func (l *Learner) answered(ip netip.Addr, now time.Time) {
	delete(l.contested, ip)
	l.ages.Add(l.Nodes.GID(ip), now)
}

// failed takes that the one that has an address does not answer. If it has another, that takes the place; else all are
// asked. If nobody answers then, and a station on Ethernet claims the address, it is free; if nobody claims it, the
// node keeps it while it is used.
func (l *Learner) failed(ip, there netip.Addr, now time.Time) {
	gid, c := l.Nodes.GID(ip), l.contest(ip)
	l.learn(gid, now)
	switch {
	case l.Nodes.GID(ip) != gid:
		delete(l.contested, ip)
	case !c.failed:
		c.failed = true
		l.count.NodesAsked++
		l.tell(l.Resolver.Ask, there)
	case now.Sub(c.claimed) < contestTime:
		l.remove(gid, movedAway)
	}
}

// another takes that a learned node has one more address. If it has one of that IP version already, that one must be
// gone first; when it was asked for just now, the next one who wants the new address has it asked again.
func (l *Learner) another(ip netip.Addr, gid ib.GID, now time.Time) {
	x, _ := l.Nodes.Find(gid)
	old := x.IP4
	if ip.Is6() {
		old = x.IP6
	}
	if !old.IsValid() {
		l.learn(gid, now)
	} else if begin, _ := l.ips.Begin(old, bounds.Most, now); begin {
		l.confirm(old)
	}
}

func (l *Learner) contest(ip netip.Addr) *contest {
	c := l.contested[ip]
	if c == nil {
		c = &contest{}
		l.contested[ip] = c
	}
	return c
}

// Claimed notes that a station on Ethernet claims the address of a node. If it is a learned one it is asked whether it
// still has it: a server may have moved to Ethernet with its address.
func (l *Learner) Claimed(ip netip.Addr, now time.Time) {
	if l == nil || !l.ages.Has(l.Nodes.GID(ip)) {
		return
	}
	l.contest(ip).claimed = now
	if begin, _ := l.ips.Begin(ip, bounds.Most, now); begin {
		l.confirm(ip)
	}
}
