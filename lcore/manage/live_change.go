// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A Change is all of the configuration that may change while the loop runs, as it is to be. What stays as it is notices nothing.
type Change struct {
	Groups  []Group
	Ranges  []Range
	Nodes   []Node
	Hosts   []tables.Host // static
	Resolve []netip.Addr
	Ports   []PortRange
	Allow   []netip.Prefix

	Translate ib.Translations

	StandInsPerHost int
	StandInIdle     time.Duration
	Querier         bool
	// Drained: another bridge is to take over. This one answers for nodes no more; what still comes to it crosses.
	Drained bool

	// Commit, if not nil, is called in the loop when all is checked, before anything is done. It may refuse.
	Commit func() error
}

// Change does a change, all of it or nothing. It is checked whole first, and then done in one turn of the loop. What takes the
// subnet's time, joins and paths and the door's listeners, is under way when it returns: Status tells when all is there. Any
// goroutine may call it.
func (l *Loop) Change(ctx context.Context, c Change) error {
	return l.work.Do(ctx, func() error { return l.change(&c) })
}

func (l *Loop) change(c *Change) error {
	if err := l.checkChange(c); err != nil {
		return err
	}
	if c.Commit != nil {
		if err := c.Commit(); err != nil {
			return err
		}
	}
	l.cfg.StandInsPerHost, l.cfg.StandInIdle, l.querier.Asks = c.StandInsPerHost, c.StandInIdle, c.Querier
	l.setAllow(c.Allow)
	l.setNodes(c.Nodes)
	l.setHosts(c.Hosts, c.Resolve)
	l.setRanges(c.Ranges)
	if err := l.setGroups(c.Groups); err != nil { // cannot be: they have been checked
		return err
	}
	l.setTranslate(c.Translate)
	l.setPorts(c.Ports)
	l.setDrained(c.Drained)
	l.hearAgain, l.heardOnce = true, false // nodes have groups of their own to be asked on
	l.publish()
	return nil
}

// checkChange reports why a change cannot be.
func (l *Loop) checkChange(c *Change) error {
	if err := l.checkGroups(c.Groups); err != nil {
		return err
	}
	switch {
	case l.cfg.MaxNodes > 0 && len(c.Nodes) > l.cfg.MaxNodes:
		return fmt.Errorf("manage: %d IB nodes are more than the %d there may be; raise [workers] nodes, and restart", len(c.Nodes), l.cfg.MaxNodes)
	case len(c.Hosts)+len(c.Resolve) > l.cfg.MaxHosts:
		return fmt.Errorf("manage: %d static RoCE hosts are more than the %d that may be known; raise [workers] hosts, and restart",
			len(c.Hosts)+len(c.Resolve), l.cfg.MaxHosts)
	}
	return l.checkPlaces(c)
}

// checkPlaces looks for addresses and GIDs that two have.
func (l *Loop) checkPlaces(c *Change) error {
	ips, gids := map[netip.Addr]bool{}, map[ib.GID]bool{}
	place := func(ip netip.Addr) error {
		if ips[ip] || l.isOwn(ip) {
			return fmt.Errorf("manage: host %v: the address is also another's, or the bridge's own", ip)
		}
		ips[ip] = true
		return nil
	}
	for _, n := range c.Nodes {
		for _, ip := range n.addrs() {
			if err := place(ip); err != nil {
				return err
			}
		}
		if gids[n.GID] || slices.Contains(l.port.own.GIDs, n.GID) {
			return fmt.Errorf("manage: node %v: gid %v is also another's, or the bridge's own", n.addrs(), n.GID)
		}
		gids[n.GID] = true
	}
	for _, h := range c.Hosts {
		if err := place(h.IP); err != nil {
			return err
		}
	}
	for _, ip := range c.Resolve {
		if err := place(ip); err != nil {
			return err
		}
	}
	return nil
}

// setAllow lets these hosts send across, and no others: the stand-ins of others end. The workers know already.
func (l *Loop) setAllow(allow []netip.Prefix) {
	l.cfg.Service.Allow, l.allowChanged = slices.Clone(allow), true
	var denied []standInKey
	for key := range l.standIns {
		if !l.mayUse(key.host) {
			denied = append(denied, key)
		}
	}
	for _, key := range denied {
		l.removeStandIn(key, "denied")
	}
}

// isDenied reports whether policy has been changed, and does not allow a host.
func (l *Loop) isDenied(host netip.Addr) bool { return l.allowChanged && !l.mayUse(host) }

// setHosts makes these the static RoCE hosts. One that was static stays known, as if it had been learnt, until it is silent.
func (l *Loop) setHosts(hosts []tables.Host, resolve []netip.Addr) {
	for _, old := range l.cfg.Hosts {
		if !slices.ContainsFunc(hosts, func(h tables.Host) bool { return h.IP == old.IP }) {
			l.release(old.IP)
		}
	}
	l.search.Keep(func(ip netip.Addr) bool { return slices.Contains(resolve, ip) })
	for _, ip := range resolve {
		if !l.isKnown(ip) && !slices.Contains(l.cfg.Resolve, ip) && l.onLink(ip) {
			l.search.Add(ip)
		}
	}
	l.cfg.Hosts, l.cfg.Resolve = slices.Clone(hosts), slices.Clone(resolve)
	for _, h := range hosts {
		l.fix(h)
	}
}

// release makes a static host one that was learnt just now.
func (l *Loop) release(ip netip.Addr) {
	h, _, known := l.tables.FindHost(ip)
	if !known || !h.Static {
		return
	}
	h.Static = false
	if _, err := l.tables.PutHost(h); err != nil {
		l.log.Error("host_released", "ip", ip, "error", err)
		return
	}
	l.neighbours.Add(ip, time.Now())
}

// fix makes a host static. Which RoCE version it speaks it has said itself, if it has said anything.
func (l *Loop) fix(h tables.Host) {
	old, _, known := l.tables.FindHost(h.IP)
	if known {
		h.Version = old.Version
	}
	if known && h == old {
		return
	}
	if err := l.putHost(h, known, true); err != nil { // until it is learnt, or the next change
		l.log.Error("host_refused", "ip", h.IP, "mac", frame.MAC(h.MAC), "error", err)
		return
	}
	l.neighbours.Drop(h.IP)
}
