// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"causeway/tables"
)

// entryOf is what the shelves are to have of a group that is joined.
func (l *Loop) entryOf(m *membership) tables.Group {
	got := &m.granted
	return tables.Group{
		IP: m.IP, MGID: m.MGID, MLID: got.MLID, SL: got.SL, HopLimit: got.HopLimit,
		QKey: got.QKey, RoCEQKey: m.QKey,
		MTUToIB: min(got.MTU.Bytes(), l.cfg.IBMTU), MTUToRoCE: l.cfg.RoCEMTU,
		VLAN: l.cfg.VLAN, Version: l.cfg.Version,
		ToIB: m.ToIB, ToRoCE: m.ToRoCE, RewriteImm: m.RewriteImm, Policed: m.Rate != 0, PGM: m.PGM,
	}
}

// openGroup lets messages cross as is wanted: the IB side has the group. One that was not open gets its rate, and its counts
// begin, while it is still shut: its id may have been another's.
func (l *Loop) openGroup(m *membership) {
	e, was := l.entryOf(m), m.open && m.entry.ToIB
	if !m.open {
		shut := e
		shut.ToIB, shut.ToRoCE = false, false
		if !l.placeGroup(m, shut) {
			return
		}
		l.began(m)
	}
	if m.Rate != 0 && m.Rate != m.rate {
		l.cfg.Police(m.id, m.Rate)
	}
	if !l.placeGroup(m, e) {
		return
	}
	if m.Rate == 0 && m.rate != 0 {
		l.cfg.Police(m.id, 0)
	}
	m.rate = m.Rate
	l.changed = true
	if m.ToIB && !was {
		l.listener.Join(m.IP, m.worker, time.Now())
	}
}

// began notes a group that was not there before.
func (l *Loop) began(m *membership) {
	m.open, m.rate = true, 0
	l.opened[m.IP] = append(l.opened[m.IP], m)
	if l.cfg.Begin != nil {
		l.cfg.Begin(m.id)
	}
	l.log.Info("group_joined", "group", m.IP, "mgid", m.MGID, "mlid", m.granted.MLID, "mtu", m.granted.MTU.Bytes(), "worker", m.worker)
}

// placeGroup puts a group on the shelves. One that they do not take is left, and tried again later.
func (l *Loop) placeGroup(m *membership, e tables.Group) bool {
	main := l.mainOf(e.IP, m, e.ToIB)
	if main == m {
		l.demote(e.IP, m)
	}
	e.Inbound = main != m
	id, err := l.tables.PutGroup(e)
	if err != nil { // the bridge does not get ready, which is what an operator watches
		l.log.Error("group_refused", "group", m.IP, "mgid", m.MGID, "error", err)
		l.closeGroup(m)
		l.promote(e.IP)
		m.failed = time.Now()
		l.pursue(m)
		return false
	}
	m.id, m.entry = int(id), e
	return true
}

// failedAgain is how long a group waits that the tables did not take.
const failedAgain = 10 * time.Second

// retryFailed tries again what the tables did not take.
func (l *Loop) retryFailed(now time.Time) {
	l.retryNodes(now)
	for _, m := range l.groups {
		if !m.failed.IsZero() && now.Sub(m.failed) >= failedAgain {
			m.failed = time.Time{}
			l.pursue(m)
		}
	}
}

// narrow ends what is not wanted any more, before anything else is asked for.
func (l *Loop) narrow(m *membership) {
	if !m.open {
		return
	}
	e := m.entry
	e.ToIB, e.ToRoCE = e.ToIB && m.ToIB, e.ToRoCE && m.ToRoCE
	if m.gone || e.IP != m.IP || !e.ToIB && !e.ToRoCE {
		l.closeGroup(m)
		return
	}
	if e == m.entry {
		return
	}
	was := m.entry.ToIB
	if l.placeGroup(m, e) && was && !e.ToIB {
		l.listener.Leave(m.entry.IP, time.Now())
		l.promote(e.IP)
	}
}

// closeGroup takes a group off the shelves.
func (l *Loop) closeGroup(m *membership) {
	if !m.open {
		return
	}
	ip := m.entry.IP
	if err := l.tables.DeleteMGID(m.MGID); err != nil {
		l.log.Error("group_delete", "group", ip, "mgid", m.MGID, "error", err)
	}
	m.open, l.changed = false, true
	if l.opened[ip] = slices.DeleteFunc(l.opened[ip], func(o *membership) bool { return o == m }); len(l.opened[ip]) == 0 {
		delete(l.opened, ip)
	}
	if m.entry.ToIB {
		l.listener.Leave(m.entry.IP, time.Now())
	}
	l.promote(ip)
	l.log.Info("group_closed", "group", ip, "mgid", m.MGID)
}

// Of several groups of one address, one is what RoCE's messages to the address are about: the one that leads to IB, else
// the one with the least MGID, which then names why they are dropped. The others are inbound.

// mainOf returns which one that is when m is open too, and leads to IB or not.
func (l *Loop) mainOf(ip netip.Addr, m *membership, toIB bool) *membership {
	main := m
	for _, o := range l.opened[ip] {
		switch {
		case o == m:
		case o.entry.ToIB:
			return o
		case !toIB && bytes.Compare(o.MGID[:], main.MGID[:]) < 0:
			main = o
		}
	}
	return main
}

// demote makes all groups of an address inbound but m.
func (l *Loop) demote(ip netip.Addr, m *membership) {
	for _, o := range l.opened[ip] {
		if o != m && !o.entry.Inbound {
			l.setInbound(o, true)
		}
	}
}

// promote gives an address that has groups left its main one.
func (l *Loop) promote(ip netip.Addr) {
	list := l.opened[ip]
	if len(list) == 0 {
		return
	}
	if main := l.mainOf(ip, list[0], list[0].entry.ToIB); main.entry.Inbound {
		l.demote(ip, main)
		l.setInbound(main, false)
	}
}

func (l *Loop) setInbound(m *membership, inbound bool) {
	e := m.entry
	e.Inbound = inbound
	if _, err := l.tables.PutGroup(e); err != nil {
		l.log.Error("group_inbound", "group", m.IP, "mgid", m.MGID, "error", err)
		return
	}
	m.entry = e
}

// listJoined is what an operator sees of the groups that are open.
func (l *Loop) listJoined() []JoinedGroup {
	var list []JoinedGroup
	for _, m := range l.groups {
		if m.open {
			list = append(list, JoinedGroup{IP: m.IP, ID: m.id, MGID: m.MGID, Learned: m.learned != nil})
		}
	}
	slices.SortFunc(list, func(a, b JoinedGroup) int {
		return cmp.Or(a.IP.Compare(b.IP), bytes.Compare(a.MGID[:], b.MGID[:]))
	})
	return list
}
