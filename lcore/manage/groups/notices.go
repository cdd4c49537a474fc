// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"maps"
	"net/netip"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Noticed handles a notice of the port's.
func (g *Groups) Noticed(n ibside.Notice) { g.learner.noticed(n) }

// Know takes over which groups the subnet has, from others that have followed its notices.
func (g *Groups) Know(others *Groups) { g.learner.onSubnet = maps.Clone(others.learner.onSubnet) }

// noticed handles a notice: the subnet has created or deleted a group.
func (l *learner) noticed(n ibside.Notice) {
	m := l.groups.groups[n.MGID]
	l.note(n)
	if n.Deleted {
		l.count.GroupNotices++
		if m != nil {
			l.deleted(m)
		}
		return
	}
	ip, in := l.addressOf(n.MGID)
	if in < 0 || m != nil && !m.gone && (m.learned == nil || !m.learned.isNonMember()) {
		l.groups.frames.NotForUs() // most groups of a subnet, and those that the bridge itself has created
		return
	}
	l.count.GroupNotices++
	if m = l.learn(ip, in, netip.Addr{}); m != nil {
		m.learned.sa = true
		l.groups.pursue(m)
	}
}

// onSubnetMost bounds how many groups of the subnet are remembered.
const onSubnetMost = 1 << 16

// note remembers which groups the subnet has: ranges may be configured later that they are in.
func (l *learner) note(n ibside.Notice) {
	switch {
	case n.Deleted:
		delete(l.onSubnet, n.MGID)
	case len(l.onSubnet) < onSubnetMost:
		l.onSubnet[n.MGID] = true
	}
}

// deleted follows the end of a group on the subnet, and of the bridge's membership with it. A learned group ends,
// unless RoCE hosts are members; such a group and a configured one are joined again.
func (l *learner) deleted(m *membership) {
	if m.learned != nil {
		m.learned.sa = false
		if !m.learned.listeners.Any() {
			l.end(m, "deleted")
			return
		}
	}
	l.groups.rejoin(m)
}

// addressOf finds the address with that MGID in a range that follows the subnet's notices; -1 for none.
func (l *learner) addressOf(mgid ib.GID) (netip.Addr, int) {
	for i := range l.ranges {
		if ip, ok := l.prefixes[i].Address(mgid); ok && l.ranges[i].SA {
			return ip, i
		}
	}
	return netip.Addr{}, -1
}
