// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// A Change is all of the configuration that may change while the loop runs, in its new state. What stays the same is
// not touched.
type Change struct {
	SegmentChange                 // of the first segment
	More          []SegmentChange // of the others

	Nodes []Node

	ProxyQPLimits ProxyQPLimits
	// Drained: another bridge takes over. This one does not answer for nodes any more; what still comes to it
	// crosses.
	Drained bool

	// Commit, if not nil, is called in the loop when the change is checked, before anything is done. Its error
	// cancels the change.
	Commit func() error
}

// of returns what of a segment changes.
func (c *Change) of(s *segment) *SegmentChange {
	switch {
	case s.number == 0:
		return &c.SegmentChange
	case int(s.number) <= len(c.More):
		return &c.More[s.number-1]
	}
	return &SegmentChange{}
}

// pkeys returns the P_Keys that a change needs.
func (l *Loop) pkeys(c *Change) []ib.PKey {
	all := pkeysOf(c.Nodes)
	for _, s := range l.segments {
		x := c.of(s)
		all = append(all, s.pkeysOf(x)...)
	}
	return all
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
	if err := l.partitions.Use(l.pkeys(c)); err != nil { // cannot be: they have been checked
		return err
	}
	l.number(c.Nodes)
	l.lookForPKeys()
	now := time.Now()
	for _, s := range l.segments {
		s.proxyQPs.SetLimits(l.share(c.ProxyQPLimits))
		s.neighbours.SetConfirm(c.ProxyQPLimits.Unconfirmed > 0)
		s.groups.SetQuerier(c.of(s).Querier)
		s.sidr.SetAllow(c.of(s).Allow)
		s.proxyQPs.SetAllow(c.of(s).Allow)
	}
	l.learner.SetAllow(c.Allow)
	l.learner.SetTranslate(c.Translate)
	l.learner.SetMax(l.cfg.MaxNodes-len(c.Nodes), now)
	l.nodes.Set(c.Nodes)
	l.learner.Reconcile()
	for _, s := range l.segments {
		if err := l.changeSegment(s, c, now); err != nil {
			return err
		}
	}
	if l.drained != c.Drained {
		l.drained, l.wasReady = c.Drained, false
		for _, s := range l.segments {
			s.neighbours.SetDrained(c.Drained, now)
		}
	}
	for _, s := range l.segments {
		s.groups.Refilter() // the port also receives the solicited-node groups of nodes
	}
	l.publish()
	return nil
}

// changeSegment changes what is a segment's, after the nodes.
func (l *Loop) changeSegment(s *segment, c *Change, now time.Time) error {
	x := c.of(s)
	s.neighbours.SetHosts(slices.Clone(x.Hosts), x.Resolve, now)
	s.groups.SetRanges(x.Ranges)
	if err := s.groups.Set(x.Groups); err != nil { // cannot be: they have been checked
		return err
	}
	if !s.sidr.Translates(x.Translate) {
		s.gids.Refit(func() { s.sidr.SetTranslate(x.Translate) })
	}
	s.sidr.SetPorts(x.Ports)
	return nil
}

// CheckPKeys reports why the P_Keys of a change are not possible: a bridge uses a limited number of them from its start
// to its end. Any goroutine may call it.
func (l *Loop) CheckPKeys(c *Change) error {
	return l.partitions.Check(l.pkeys(c))
}

// checkChange reports why a change is not possible.
func (l *Loop) checkChange(c *Change) error {
	static := 0
	for _, s := range l.segments {
		x := c.of(s)
		if err := s.groups.Check(x.Groups); err != nil {
			return err
		}
		static += len(x.Hosts) + len(x.Resolve)
	}
	if err := l.CheckPKeys(c); err != nil {
		return err
	}
	switch {
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
	gids := map[ib.GID]bool{}
	for _, n := range c.Nodes {
		if gids[n.GID] || l.segments[0].gids.Has(n.GID) {
			return fmt.Errorf("manage: node %v: gid %v is also another's, or the bridge's own", n.Addrs(), n.GID)
		}
		gids[n.GID] = true
	}
	for _, s := range l.segments {
		if err := s.checkAddresses(c); err != nil {
			return err
		}
	}
	return nil
}

// checkAddresses looks for addresses that two have: hosts of the segment, and nodes that it reaches.
func (s *segment) checkAddresses(c *Change) error {
	var all []netip.Addr
	for _, n := range c.Nodes {
		if s.reaches(n.PKey) {
			all = append(all, n.Addrs()...)
		}
	}
	x := c.of(s)
	for _, h := range x.Hosts {
		all = append(all, h.IP)
	}
	ips := map[netip.Addr]bool{}
	for _, ip := range append(all, x.Resolve...) {
		if ips[ip] || s.local.Has(ip) {
			return fmt.Errorf("manage: host %v: the address is also another's, or the bridge's own", ip)
		}
		ips[ip] = true
	}
	return nil
}
