// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// olderQueriers says until when the switches of the RoCE side are spoken to in the older version of IGMP or
// MLD, because one of them has: 2 * 125 s + 10 s from its last query on (RFC 3376 §7.2.1 and §8.12, RFC 3810
// §8.2.1 and §9.12, with the defaults of the protocol).
type olderQueriers struct {
	v4, v6 time.Time
}

const olderQuerierPresent = 260 * time.Second

// heard notes the version of a query. IGMPv1, whose queriers are told nothing that IGMPv2's are not, counts
// as version 2.
func (o *olderQueriers) heard(p frame.Membership) {
	until := time.Now().Add(olderQuerierPresent)
	switch {
	case p.Query.Group.Is4() && p.Version < 3:
		o.v4 = until
	case p.Query.Group.Is6() && p.Version < 2:
		o.v6 = until
	}
}

// speakTo reports whether what concerns group is told in the older version.
func (o *olderQueriers) speakTo(group netip.Addr) bool {
	until := o.v6
	if group.Is4() {
		until = o.v4
	}
	return time.Now().Before(until)
}

// announce reports membership to the switches of the RoCE side, twice, a second apart at most, because a
// report may be lost (RFC 3376 §8.11, RFC 3810 §9.11: robustness 2, unsolicited report interval 1 s).
func (l *Loop) announce(m *membership) {
	delete(l.byes, m.IP)
	l.report(m.worker, frame.JoinRecord(m.IP))
	m.announceAt = time.Now().Add(randomly(time.Second))
}

// A bye is a leave that is told once more.
type bye struct {
	at     time.Time
	worker int
}

// bye tells the switches that the bridge listens no more, twice, as announce does.
func (l *Loop) bye(m *membership) {
	m.announceAt, m.answerAt = time.Time{}, time.Time{}
	l.report(m.worker, frame.LeaveRecord(m.entry.IP))
	if len(l.byes) < byesMost {
		l.byes[m.entry.IP] = bye{time.Now().Add(randomly(time.Second)), m.worker}
	}
}

// byesMost bounds how many leaves are told again: in a flood, once must do.
const byesMost = 4096

// handleMembership answers queries after a random part of the time that they allow (RFC 3376 §5.2), and learns from
// reports.
func (l *Loop) handleMembership(f frame.Frame, p frame.Membership, fault frame.Fault) {
	switch {
	case fault == frame.IGMPType || fault == frame.MLDType: // of routers among themselves
		l.count.NotForUs++
		return
	case fault != "":
		l.malformed(fault.Counter())
		return
	case f.Eth.Src() == l.cfg.MAC: // an echo of the bridge's own
		l.count.NotForUs++
		return
	case p.Query == nil:
		l.reported(f.Src(), p.Records)
		return
	}
	l.count.GroupQueries++
	l.older.heard(p)
	l.heardQuery(f.Src(), p.Query.Group)
	const most = 10 * time.Second // the default of both protocols, and what IGMPv1 means
	within := min(max(p.Query.MaxResp, time.Millisecond), most)
	if p.Query.MaxResp == 0 && p.Version == 1 && p.Query.Group.Is4() {
		within = most
	}
	for _, m := range l.groups {
		general := p.Query.Group.IsUnspecified() && p.Query.Group.Is4() == m.IP.Is4()
		if m.open && m.entry.ToIB && (general || p.Query.Group == m.IP) {
			m.answer(time.Now().Add(randomly(within)))
		}
	}
}

// answer has a querier get its answer. One that is due earlier serves both.
func (m *membership) answer(at time.Time) {
	if m.answerAt.IsZero() || at.Before(m.answerAt) {
		m.answerAt = at
	}
}

// sendReports sends what is due. What the worker does not take stays due.
func (l *Loop) sendReports(now time.Time) {
	for _, m := range l.groups {
		if due(m.announceAt, now) && l.report(m.worker, frame.JoinRecord(m.IP)) {
			m.announceAt = time.Time{}
		}
		if due(m.answerAt, now) && l.report(m.worker, frame.GroupRecord{Type: frame.ModeIsExclude, Group: m.IP}) {
			m.answerAt = time.Time{}
		}
	}
	for ip, b := range l.byes {
		if due(b.at, now) && l.report(b.worker, frame.LeaveRecord(ip)) {
			delete(l.byes, ip)
		}
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

func randomly(within time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(within))) }

// report sends one membership record, in the version that the querier speaks.
func (l *Loop) report(worker int, r frame.GroupRecord) bool {
	build := l.report6
	if r.Group.Is4() {
		build = l.report4
	}
	if !l.send(l.workers[worker], build(r)) {
		return false
	}
	l.count.GroupReports++
	return true
}

// report4 is sent from 0.0.0.0 by a bridge without an IPv4 address (RFC 3376 §4.2.13).
func (l *Loop) report4(r frame.GroupRecord) []byte {
	src := l.own(func(p netip.Prefix) bool { return p.Addr().Is4() }, netip.IPv4Unspecified())
	switch {
	case !l.older.speakTo(r.Group):
		return frame.AppendIGMPv3Report(nil, l.link, src, r)
	case r.Leaves():
		return frame.AppendIGMPv2Leave(nil, l.link, src, r.Group)
	}
	return frame.AppendIGMPv2Report(nil, l.link, src, r.Group)
}

func (l *Loop) report6(r frame.GroupRecord) []byte {
	src := l.cfg.MAC.LinkLocal()
	switch {
	case !l.older.speakTo(r.Group):
		return frame.AppendMLDv2Report(nil, l.link, src, r)
	case r.Leaves():
		return l.mldv1(frame.MLDv1Done, src, allRouters6, r.Group)
	}
	return l.mldv1(frame.MLDv1Report, src, r.Group, r.Group)
}

// own returns the first address of the bridge's whose prefix fits, or else.
func (l *Loop) own(fits func(netip.Prefix) bool, otherwise netip.Addr) netip.Addr {
	for _, p := range l.cfg.Addresses {
		if fits(p) {
			return p.Addr()
		}
	}
	return otherwise
}
