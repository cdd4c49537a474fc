// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"net/netip"

	"causeway/ibside/ib"
)

// A Notifier is an IB door that knows which groups the subnet has. Groups that are there already are told first.
type Notifier interface {
	// Notices is the same channel each time, nil when the door has none. Who reads it slowly makes the door wait.
	Notices() <-chan Notice
}

// A Notice says that a group came to the subnet (trap 66 of the subnet manager) or ended (trap 67).
type Notice struct {
	MGID    ib.GID
	Deleted bool
}

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
				if !open || !l.later(ctx, func() { l.noticed(x) }) {
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
		if ip, ok := l.inverses[i].of(mgid); ok && l.cfg.Ranges[i].SA {
			return ip, i
		}
	}
	return netip.Addr{}, -1
}

// An inverse finds an address from its MGID. Every form of MGID has each bit of the address in fixed places or nowhere,
// so trying each bit once finds them.
type inverse struct {
	prefix netip.Prefix
	mgid   func(netip.Addr) ib.GID
	base   ib.GID // that of the first address
	place  []place
}

// A place is where an MGID has a bit of the address; with an empty mask it has not.
type place struct {
	at   int
	mask byte
}

func inverseOf(r *Range) inverse {
	v := inverse{prefix: r.Prefix.Masked(), mgid: r.MGID}
	first := v.prefix.Addr()
	v.base = v.mgid(first)
	for bit := v.prefix.Bits(); bit < first.BitLen(); bit++ {
		var p place
		other := v.mgid(flip(first, bit))
		for i := range other {
			if d := other[i] ^ v.base[i]; d != 0 && p.mask == 0 {
				p = place{i, d}
			}
		}
		v.place = append(v.place, p)
	}
	return v
}

// flip returns an address with one bit changed, counted from the first.
func flip(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8] ^= 0x80 >> (bit % 8)
	out, _ := netip.AddrFromSlice(b)
	return out
}

func (v *inverse) of(mgid ib.GID) (netip.Addr, bool) {
	a := v.prefix.Addr()
	for i, p := range v.place {
		if (mgid[p.at]^v.base[p.at])&p.mask != 0 {
			a = flip(a, v.prefix.Bits()+i)
		}
	}
	return a, v.mgid(a) == mgid
}
