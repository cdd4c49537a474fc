// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A Host reports the bridge's groups to the switches of the RoCE side.
type Host struct {
	Reports uint64 // sent

	port           Port
	joined         map[netip.Addr]*membership
	leaves         map[netip.Addr]leave
	older4, older6 time.Time // until when reports have the older version, because a querier uses it
}

// A membership is a group that the bridge is a member of.
type membership struct {
	worker int       // sends its reports
	again  time.Time // when the join is reported again; zero: not at all
	answer time.Time // when a query is answered; zero: there is none
}

// A leave is reported once more.
type leave struct {
	at     time.Time
	worker int
}

const (
	// repeat bounds the time until a report is repeated, because one may be lost (RFC 3376 §8.11, RFC 3810 §9.11:
	// robustness 2, unsolicited report interval 1 s).
	repeat = time.Second
	// leavesMost bounds how many leaves are repeated: in a flood, once must do.
	leavesMost = 4096
	// maxResp is what queriers allow by default, in both protocols, and what IGMPv1 means.
	maxResp = 10 * time.Second
)

// NewHost makes a host without groups.
func NewHost(p Port) *Host {
	return &Host{port: p, joined: map[netip.Addr]*membership{}, leaves: map[netip.Addr]leave{}}
}

// Join reports a group at once and once more. worker sends its reports.
func (h *Host) Join(group netip.Addr, worker int, now time.Time) {
	delete(h.leaves, group)
	h.report(worker, frame.JoinRecord(group), now)
	h.joined[group] = &membership{worker: worker, again: now.Add(rand.N(repeat))}
}

// Again reports all groups at once and once more, as switches that were out of reach may have forgotten them.
func (h *Host) Again(now time.Time) {
	for group, m := range h.joined {
		m.again = now // if the worker cannot take it
		if h.report(m.worker, frame.JoinRecord(group), now) {
			m.again = now.Add(rand.N(repeat))
		}
	}
}

// Leave reports that the bridge leaves a group, at once and once more.
func (h *Host) Leave(group netip.Addr, now time.Time) {
	m := h.joined[group]
	if m == nil {
		return
	}
	delete(h.joined, group)
	h.report(m.worker, frame.LeaveRecord(group), now)
	if len(h.leaves) < leavesMost {
		h.leaves[group] = leave{now.Add(rand.N(repeat)), m.worker}
	}
}

// LeaveAll reports once that the bridge leaves all groups: it does not run for long enough to repeat it.
func (h *Host) LeaveAll(now time.Time) {
	for group, m := range h.joined {
		h.report(m.worker, frame.LeaveRecord(group), now)
	}
	clear(h.joined)
	clear(h.leaves)
}

// Queried takes a query. It is answered after a random part of the time that it allows (RFC 3376 §5.2).
func (h *Host) Queried(p frame.Membership, now time.Time) {
	h.heardVersion(p, now)
	q := p.Query
	within := min(max(q.MaxResp, time.Millisecond), maxResp)
	if q.MaxResp == 0 && p.Version == 1 && q.Group.Is4() {
		within = maxResp
	}
	for group, m := range h.joined {
		general := q.Group.IsUnspecified() && q.Group.Is4() == group.Is4()
		at := now.Add(rand.N(within))
		// One that is due earlier serves both.
		if (general || q.Group == group) && (m.answer.IsZero() || at.Before(m.answer)) {
			m.answer = at
		}
	}
}

// heardVersion notes the version of a query. IGMPv1 counts as version 2, whose reports its queriers ignore at worst.
func (h *Host) heardVersion(p frame.Membership, now time.Time) {
	until := now.Add(present)
	switch {
	case p.Query.Group.Is4() && p.Version < 3:
		h.older4 = until
	case p.Query.Group.Is6() && p.Version < 2:
		h.older6 = until
	}
}

// Tick sends what is due. What the worker does not take stays due.
func (h *Host) Tick(now time.Time) {
	for group, m := range h.joined {
		if due(m.again, now) && h.report(m.worker, frame.JoinRecord(group), now) {
			m.again = time.Time{}
		}
		if due(m.answer, now) && h.report(m.worker, frame.GroupRecord{Type: frame.ModeIsExclude, Group: group}, now) {
			m.answer = time.Time{}
		}
	}
	for group, b := range h.leaves {
		if due(b.at, now) && h.report(b.worker, frame.LeaveRecord(group), now) {
			delete(h.leaves, group)
		}
	}
}

// report sends one membership record, in the version of the querier.
func (h *Host) report(worker int, r frame.GroupRecord, now time.Time) bool {
	build, older := h.report6, h.older6
	if r.Group.Is4() {
		build, older = h.report4, h.older4
	}
	if !h.port.Send(worker, build(r, now.Before(older))) {
		return false
	}
	h.Reports++
	return true
}

// report4 is sent from 0.0.0.0 by a bridge without an IPv4 address (RFC 3376 §4.2.13).
func (h *Host) report4(r frame.GroupRecord, older bool) []byte {
	src := h.port.IPv4
	if !src.IsValid() {
		src = netip.IPv4Unspecified()
	}
	switch {
	case !older:
		return frame.AppendIGMPv3Report(nil, h.port.Link, src, r)
	case r.Leaves():
		return frame.AppendIGMPv2Leave(nil, h.port.Link, src, r.Group)
	}
	return frame.AppendIGMPv2Report(nil, h.port.Link, src, r.Group)
}

func (h *Host) report6(r frame.GroupRecord, older bool) []byte {
	src := h.port.Link.MAC.LinkLocal()
	switch {
	case !older:
		return frame.AppendMLDv2Report(nil, h.port.Link, src, r)
	case r.Leaves():
		return frame.AppendMLDv1Done(nil, h.port.Link, src, r.Group)
	}
	return frame.AppendMLDv1Report(nil, h.port.Link, src, r.Group)
}
