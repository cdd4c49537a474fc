// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/tables"
)

// A Change is all of the configuration that may change while the loop runs, in its new state. What stays the same is
// not touched.
type Change struct {
	Groups  []Group
	Ranges  []Range
	Nodes   []Node
	Hosts   []tables.Host // static
	Resolve []netip.Addr
	Ports   []ibside.PortRange
	Allow   []netip.Prefix

	Translate ib.Translations

	ProxyQPLimits ProxyQPLimits
	Querier       bool
	// Drained: another bridge takes over. This one does not answer for nodes any more; what still comes to it
	// crosses.
	Drained bool

	// Commit, if not nil, is called in the loop when the change is checked, before anything is done. Its error
	// cancels the change.
	Commit func() error
}

// Change makes a change, all of it or nothing: it is checked whole first, and then made in one turn of the loop. Joins,
// paths and the port's listeners take time, and are under way when it returns: Status tells when everything is there.
// Any goroutine but the loop's may call it.
func (l *Loop) Change(ctx context.Context, c Change) error {
	return l.inbox.Do(ctx, func() error { return l.change(&c) })
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
	if err := l.partitions.Use(pkeysOf(c.Nodes, c.Groups, c.Ranges)); err != nil { // cannot be: they have been checked
		return err
	}
	l.number(c.Nodes)
	l.lookForPKeys()
	now := time.Now()
	l.proxyQPs.SetLimits(c.ProxyQPLimits)
	l.neighbours.SetConfirm(c.ProxyQPLimits.Unconfirmed > 0)
	l.groups.SetQuerier(c.Querier)
	l.sidr.SetAllow(c.Allow)
	l.proxyQPs.SetAllow(c.Allow)
	l.learner.SetAllow(c.Allow)
	l.learner.SetTranslate(c.Translate)
	l.learner.SetMax(l.cfg.MaxNodes-len(c.Nodes), now)
	l.nodes.Set(c.Nodes)
	l.learner.Reconcile()
	l.neighbours.SetHosts(slices.Clone(c.Hosts), c.Resolve, now)
	l.groups.SetRanges(c.Ranges)
	if err := l.groups.Set(c.Groups); err != nil { // cannot be: they have been checked
		return err
	}
	if !l.sidr.Translates(c.Translate) {
		l.gids.Refit(func() { l.sidr.SetTranslate(c.Translate) })
	}
	l.sidr.SetPorts(c.Ports)
	if l.drained != c.Drained {
		l.drained, l.wasReady = c.Drained, false
		l.neighbours.SetDrained(c.Drained, now)
	}
	l.groups.Refilter() // the port also receives the solicited-node groups of nodes
	l.publish()
	return nil
}

// CheckPKeys reports why the P_Keys of a change are not possible: a bridge uses a limited number of them from its start
// to its end. Any goroutine may call it.
func (l *Loop) CheckPKeys(c *Change) error {
	return l.partitions.Check(pkeysOf(c.Nodes, c.Groups, c.Ranges))
}

// checkChange reports why a change is not possible.
func (l *Loop) checkChange(c *Change) error {
	if err := l.groups.Check(c.Groups); err != nil {
		return err
	}
	if err := l.CheckPKeys(c); err != nil {
		return err
	}
	switch static := len(c.Hosts) + len(c.Resolve); {
	case l.cfg.MaxNodes > 0 && len(c.Nodes) > l.cfg.MaxNodes:
		return fmt.Errorf("manage: %d IB nodes are more than the limit of %d; raise [workers] nodes, and restart", len(c.Nodes), l.cfg.MaxNodes)
	case static > l.cfg.MaxHosts:
		return fmt.Errorf("manage: %d static RoCE hosts are more than the limit of %d; raise [workers] hosts, and restart",
			static, l.cfg.MaxHosts)
	}
	return l.checkAddresses(c)
}

// checkAddresses looks for addresses and GIDs that two have.
func (l *Loop) checkAddresses(c *Change) error {
	ips, gids := map[netip.Addr]bool{}, map[ib.GID]bool{}
	take := func(ip netip.Addr) error {
		if ips[ip] || l.local.Has(ip) {
			return fmt.Errorf("manage: host %v: the address is also another's, or the bridge's own", ip)
		}
		ips[ip] = true
		return nil
	}
	for _, n := range c.Nodes {
		for _, ip := range n.Addrs() {
			if err := take(ip); err != nil {
				return err
			}
		}
		if gids[n.GID] || l.gids.Has(n.GID) {
			return fmt.Errorf("manage: node %v: gid %v is also another's, or the bridge's own", n.Addrs(), n.GID)
		}
		gids[n.GID] = true
	}
	for _, h := range c.Hosts {
		if err := take(h.IP); err != nil {
			return err
		}
	}
	for _, ip := range c.Resolve {
		if err := take(ip); err != nil {
			return err
		}
	}
	return nil
}
