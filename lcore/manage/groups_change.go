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

// SetGroups makes the configured groups these, and no others. Groups that stay as they are notice nothing; what changes
// in one goes on crossing where that is possible. A set that cannot be is refused as a whole. It returns when the
// change is under way: Status tells when all are joined. Any goroutine may call it.
func (l *Loop) SetGroups(ctx context.Context, groups []Group) error {
	groups = slices.Clone(groups)
	return l.work.Do(ctx, func() error { return l.setGroups(groups) })
}

// PutGroup adds a group, or changes the one that has its MGID.
func (l *Loop) PutGroup(ctx context.Context, g Group) error {
	return l.work.Do(ctx, func() error { return l.setGroups(append(l.without(g.MGID), g)) })
}

// RemoveGroup leaves a group on both sides. What it has counted is nobody's.
func (l *Loop) RemoveGroup(ctx context.Context, mgid ib.GID) error {
	return l.work.Do(ctx, func() error {
		rest := l.without(mgid)
		if len(rest) == len(l.configured) {
			return fmt.Errorf("manage: group %v: not configured; Status lists the groups", mgid)
		}
		return l.setGroups(rest)
	})
}

func (l *Loop) without(mgid ib.GID) []Group {
	return slices.DeleteFunc(slices.Clone(l.configured), func(g Group) bool { return g.MGID == mgid })
}

// checkGroups reports why a set of groups cannot be.
func (l *Loop) checkGroups(groups []Group) error {
	if len(groups) > l.maxGroups() {
		return fmt.Errorf("manage: %d groups are more than the %d there may be; raise [workers] groups", len(groups), l.maxGroups())
	}
	mgids, toIB := map[ib.GID]netip.Addr{}, map[netip.Addr]ib.GID{}
	for _, g := range groups {
		other, taken := mgids[g.MGID]
		sends, leads := toIB[g.IP]
		switch {
		case !g.IP.IsMulticast() || g.IP.Is4In6():
			return fmt.Errorf("manage: group %v: not a multicast address", g.IP)
		case !g.MGID.IsMulticast():
			return fmt.Errorf("manage: group %v: mgid %v is not a multicast GID", g.IP, g.MGID)
		case !g.ToIB && !g.ToRoCE:
			return fmt.Errorf("manage: group %v: it leads nowhere; give it a direction", g.IP)
		case taken:
			return fmt.Errorf("manage: group %v: mgid %v is also that of group %v; each needs its own", g.IP, g.MGID, other)
		case g.ToIB && leads:
			return fmt.Errorf("manage: group %v: what RoCE hosts send to it goes to mgid %v already; let mgid %v only lead to RoCE",
				g.IP, sends, g.MGID)
		}
		mgids[g.MGID] = g.IP
		if g.ToIB {
			toIB[g.IP] = g.MGID
		}
	}
	return nil
}

func (l *Loop) maxGroups() int { return max(l.cfg.MaxGroups, len(l.cfg.Groups)) }

// startGroups wants the groups of the configuration. Those that cannot be keep the bridge from getting ready.
func (l *Loop) startGroups() {
	if l.setGroups(l.cfg.Groups) == nil {
		return
	}
	var fit []Group
	for _, g := range l.cfg.Groups {
		if err := l.checkGroups(append(fit, g)); err != nil {
			l.log.Error("group_refused", "group", g.IP, "mgid", g.MGID, "error", err)
			continue
		}
		fit = append(fit, g)
	}
	if err := l.setGroups(fit); err != nil {
		l.log.Error("group_refused", "error", err)
	}
	l.unfit = len(l.cfg.Groups) - len(fit)
}

// setGroups wants these groups and no others. All that ends does so before anything begins, so that what one group
// gives up another can have.
func (l *Loop) setGroups(groups []Group) error {
	if err := l.checkGroups(groups); err != nil {
		return err
	}
	l.configured, l.unfit, l.changed = slices.Clone(groups), 0, true
	wanted := make(map[ib.GID]bool, len(groups))
	clear(l.configuredAt)
	for _, g := range groups {
		wanted[g.MGID] = true
		l.configuredAt[g.IP]++
		if m := l.learnedAt[g.IP]; m != nil && m.MGID != g.MGID { // configured groups win
			l.drop(m)
		}
	}
	for _, m := range l.groups {
		if m.learned == nil && !wanted[m.MGID] {
			l.drop(m)
		}
	}
	var news []*membership
	for _, g := range groups {
		if m := l.want(g, nil); m != nil {
			news = append(news, m)
		}
	}
	for _, m := range news {
		l.pursue(m)
	}
	l.makeRoomForGroups()
	return nil
}

// want notes what is wanted of a group, and ends what of it is not. It returns the group when there is more to do.
func (l *Loop) want(g Group, why *learned) *membership {
	m := l.groups[g.MGID]
	if m == nil {
		m = &membership{worker: l.workerOf(g.MGID)}
		l.groups[g.MGID] = m
	} else if !m.gone && m.Group == g && m.learned == nil && why == nil {
		return nil
	}
	if m.learned != nil && why == nil {
		l.unlearn(m)
	}
	m.Group, m.learned, m.gone, m.failed = g, why, false, time.Time{}
	l.narrow(m)
	l.hearAgain = true
	return m
}

// drop ends a group: at once on the shelves, then on the IB side.
func (l *Loop) drop(m *membership) {
	if m.learned != nil {
		l.unlearn(m)
	}
	m.gone, m.learned, l.hearAgain, l.changed = true, nil, true, true
	l.pursue(m)
}

// hear has the Ethernet port receive the groups that lead to IB, if they are others than before.
func (l *Loop) hear() {
	if !l.hearAgain || l.cfg.Hear == nil {
		return
	}
	l.hearAgain = false
	var groups []netip.Addr
	for _, m := range l.groups {
		if m.ToIB && !m.gone {
			groups = append(groups, m.IP)
		}
	}
	slices.SortFunc(groups, netip.Addr.Compare)
	if l.heardOnce && slices.Equal(groups, l.hearing) {
		return
	}
	if err := l.cfg.Hear(groups); err != nil {
		l.hearFailed = true // keepHouse tries again
		if l.mayLog("groups_unheard", 1) {
			l.log.Error("groups_unheard", "groups", len(groups), "error", err)
		}
		return
	}
	l.hearing, l.heardOnce, l.hearFailed = groups, true, false
}
