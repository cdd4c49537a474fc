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
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/local"
)

// A Change is all of the configuration that may change while the loop runs, in its new state. What stays the same is
// not touched. Of a segment that is there, only its SegmentChange may differ.
type Change struct {
	Segment           // the first
	More    []Segment // the others
	Shared  []SharedGroup

	Nodes []Node

	ProxyQPLimits ProxyQPLimits
	// Drained: another bridge takes over. This one does not answer for nodes any more; what still comes to it
	// crosses.
	Drained bool

	// Commit, if not nil, is called in the loop when the change is checked, before anything is done, with the numbers that
	// segments have from then on, by place. Its error cancels the change.
	Commit func(numbers map[Place]uint8) error
}

// segments are all that there are to be.
func (c *Change) segments() []Segment { return append([]Segment{c.Segment}, c.More...) }

// of returns what is to be of a segment; nil: it is to go.
func (c *Change) of(s *segment) *SegmentChange {
	if c.Place == s.cfg.Place {
		return &c.SegmentChange
	}
	for i := range c.More {
		if c.More[i].Place == s.cfg.Place {
			return &c.More[i].SegmentChange
		}
	}
	return nil
}

// Change makes a change, all of it or nothing: it is checked whole first, and then made in one turn of the loop. Joins,
// paths and the port's listeners take time, and are under way when it returns: Status tells when everything is there.
// Any goroutine but the loop's may call it.
func (l *Loop) Change(ctx context.Context, c Change) error {
	return l.inbox.Do(ctx, func() error { return l.change(&c) })
}

func (l *Loop) change(c *Change) error {
	numbers, err := l.numbersOf(c)
	if err == nil {
		err = l.checkChange(c)
	}
	if err != nil {
		return err
	}
	if c.Commit != nil {
		if err := c.Commit(numbers); err != nil {
			return err
		}
	}
	if err := l.partitions.Use(pkeysOf(c.segments(), c.Shared, c.Nodes)); err != nil { // cannot be: they have been checked
		return err
	}
	now := time.Now()
	l.changeSegments(c, numbers, now)
	l.number(c.Nodes)
	l.lookForPKeys()
	for _, s := range l.segments {
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
	shared, err := l.narrowShared(c.Shared, now)
	if err != nil { // cannot be: they have been checked
		return err
	}
	for _, s := range l.segments {
		if err := s.change(c.of(s), now); err != nil {
			return err
		}
	}
	if err := l.setShared(shared); err != nil {
		return err
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

// change changes what is a segment's, after the nodes.
func (s *segment) change(x *SegmentChange, now time.Time) error {
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
	return l.partitions.Check(pkeysOf(c.segments(), c.Shared, c.Nodes))
}

// checkChange reports why a change is not possible.
func (l *Loop) checkChange(c *Change) error {
	if err := l.CheckPKeys(c); err != nil {
		return err
	}
	static, all := 0, c.segments()
	if n, most := configured(all, c.Shared), max(l.cfg.MaxGroups, configured(l.cfg.segments(), l.cfg.Shared)); n > most {
		return fmt.Errorf("manage: %d groups are more than the limit of %d; raise [workers] groups", n, most)
	}
	if err := groups.Check(l.sharedGroups(c.Shared)); err != nil {
		return err
	}
	for i := range all {
		if err := groups.Check(all[i].Groups); err != nil {
			return err
		}
		static += len(all[i].Hosts) + len(all[i].Resolve)
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
	for _, s := range c.segments() {
		if err := l.checkAddressesIn(&s, c.Nodes); err != nil {
			return err
		}
	}
	return nil
}

// checkAddressesIn looks for addresses that two have: hosts of a segment, and nodes that it reaches.
func (l *Loop) checkAddressesIn(s *Segment, nodes []Node) error {
	if old := l.at(s.Place); old != nil { // which stays as it is but for what changes
		s.Bound, s.Addresses = old.cfg.Bound, old.cfg.Addresses
	}
	own := local.Addresses{Link: frame.Link{MAC: s.mac(l.cfg.MAC)}, IPs: s.Addresses}
	var all []netip.Addr
	for _, n := range nodes {
		if s.reaches(n.PKey) {
			all = append(all, n.Addrs()...)
		}
	}
	for _, h := range s.Hosts {
		all = append(all, h.IP)
	}
	ips := map[netip.Addr]bool{}
	for _, ip := range append(all, s.Resolve...) {
		if ips[ip] || own.Has(ip) {
			return fmt.Errorf("manage: host %v: the address is also another's, or the bridge's own", ip)
		}
		ips[ip] = true
	}
	return nil
}
