// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"net/netip"

	"causeway/ibside/ib"
)

// takeNotices has the loop follow the door's notices.
func (l *Loop) takeNotices(ctx context.Context) {
	n, ok := l.door.(Notifier)
	if !ok || n.Notices() == nil {
		return
	}
	notices := n.Notices()
	l.asking.Go(func() {
		for {
			select {
			case x, open := <-notices:
				if !open || !l.work.Later(ctx, func() { l.noticed(x) }) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
}

func (l *Loop) noticed(n Notice) {
	m := l.groups[n.MGID]
	l.noteSubnetHas(n)
	if n.Deleted {
		l.count.GroupNotices++
		if m != nil {
			l.vanished(m)
		}
		return
	}
	ip, in := l.addressOf(n.MGID)
	if in < 0 || m != nil && !m.gone && (m.learned == nil || !m.learned.isGuest()) {
		l.count.NotForUs++ // most groups of a subnet; and the bridge's own, that it has made itself
		return
	}
	l.count.GroupNotices++
	if m = l.learnGroup(ip, in); m != nil {
		m.learned.sa = true
		l.pursue(m)
	}
}

// vanished follows the end of a group on the subnet, and of the bridge's membership with it. A learnt group ends, unless
// RoCE hosts listen to it; that and a configured one is made anew.
func (l *Loop) vanished(m *membership) {
	if m.learned != nil {
		m.learned.sa = false
		if m.learned.heard.IsZero() {
			l.forgetGroup(m, "deleted")
			return
		}
	}
	l.rejoin(m)
}

// addressOf finds the address in a range that SA notices count for, whose group has that MGID; -1 for none.
func (l *Loop) addressOf(mgid ib.GID) (netip.Addr, int) {
	for i := range l.cfg.Ranges {
		if ip, ok := l.inverses[i].Address(mgid); ok && l.cfg.Ranges[i].SA {
			return ip, i
		}
	}
	return netip.Addr{}, -1
}
