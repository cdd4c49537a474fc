// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"causeway/lcore/frame"
)

// A Host reports the bridge's groups to the switches of the RoCE side.
type Host struct {
	Reports uint64 // sent

	port   Port
	joined map[netip.Addr]*membership
	leaves map[netip.Addr]leave
	older  [2]time.Time // until when a querier uses version 1, and 2, of IGMP
	older6 time.Time    // and version 1 of MLD
}

// A membership is a group that the bridge is a member of.
type membership struct {
	worker  int          // sends its reports
	sources []netip.Addr // it wants messages of; nil: of all
	again   time.Time    // when the join is reported again; zero: not at all
	answer  time.Time    // when a query is answered; zero: there is none
	asked   []netip.Addr // the sources in the query; nil: it is for the group
}

// A leave is reported once more.
type leave struct {
	at      time.Time
	worker  int
	sources []netip.Addr
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

// Join reports a group at once and once more: for all sources, or for some. worker sends its reports.
func (h *Host) Join(group netip.Addr, sources []netip.Addr, worker int, now time.Time) {
	delete(h.leaves, group)
	m := &membership{worker: worker, sources: sources, again: now.Add(rand.N(repeat))}
	h.report(worker, m.joins(group), now)
	h.joined[group] = m
}

// joins is the record that a membership begins with, ends the one that it ends with, and is the one that answers a query.
func (m *membership) joins(group netip.Addr) frame.GroupRecord {
	if m.sources == nil {
		return frame.JoinRecord(group)
	}
	return frame.GroupRecord{Type: frame.AllowNewSources, Group: group, Sources: m.sources}
}

func ends(group netip.Addr, sources []netip.Addr) frame.GroupRecord {
	if sources == nil {
		return frame.LeaveRecord(group)
	}
	return frame.GroupRecord{Type: frame.BlockOldSources, Group: group, Sources: sources}
}

// is answers a query about sources with those of them that are wanted (RFC 3376 §5.2, RFC 3810 §6.3).
func (m *membership) is(group netip.Addr) frame.GroupRecord {
	r := frame.GroupRecord{Type: frame.ModeIsInclude, Group: group, Sources: m.asked}
	switch {
	case m.asked == nil && m.sources == nil:
		r.Type = frame.ModeIsExclude
	case m.asked == nil:
		r.Sources = m.sources
	}
	return r
}

// Again reports all groups at once and once more, as switches that were out of reach may have forgotten them.
func (h *Host) Again(now time.Time) {
	for group, m := range h.joined {
		m.again = now // if the worker cannot take it
		if h.report(m.worker, m.joins(group), now) {
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
	h.report(m.worker, ends(group, m.sources), now)
	if len(h.leaves) < leavesMost {
		h.leaves[group] = leave{now.Add(rand.N(repeat)), m.worker, m.sources}
	}
}

// LeaveAll reports once that the bridge leaves all groups: it does not run for long enough to repeat it.
func (h *Host) LeaveAll(now time.Time) {
	for group, m := range h.joined {
		h.report(m.worker, ends(group, m.sources), now)
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
		if general || q.Group == group {
			m.queried(q.Sources, now.Add(rand.N(within)))
		}
	}
}

// queried has a query answered: about the group, or about some sources. Of two, the one that is due first serves both, and
// has all that either is about.
func (m *membership) queried(about []netip.Addr, at time.Time) {
	wanted := about
	if m.sources != nil {
		wanted = slices.DeleteFunc(slices.Clone(about), func(a netip.Addr) bool { return !slices.Contains(m.sources, a) })
	}
	if about != nil && len(wanted) == 0 {
		return
	}
	pending := !m.answer.IsZero()
	if !pending || at.Before(m.answer) {
		m.answer = at
	}
	switch {
	case about == nil || pending && m.asked == nil:
		m.asked = nil
	default:
		for _, a := range wanted {
			if !slices.Contains(m.asked, a) && len(m.asked) < sourcesMost {
				m.asked = append(m.asked, a)
			}
		}
	}
}

// heardVersion notes the version of a query (RFC 3376 §7.2.1, RFC 3810 §8.2.1).
func (h *Host) heardVersion(p frame.Membership, now time.Time) {
	until := now.Add(standard.membership())
	switch {
	case p.Query.Group.Is4() && p.Version < 3:
		h.older[p.Version-1] = until
	case p.Query.Group.Is6() && p.Version < 2:
		h.older6 = until
	}
}

// Tick sends what is due. What the worker does not take stays due.
func (h *Host) Tick(now time.Time) {
	for group, m := range h.joined {
		if due(m.again, now) && h.report(m.worker, m.joins(group), now) {
			m.again = time.Time{}
		}
		if due(m.answer, now) && h.report(m.worker, m.is(group), now) {
			m.answer, m.asked = time.Time{}, nil
		}
	}
	for group, b := range h.leaves {
		if due(b.at, now) && h.report(b.worker, ends(group, b.sources), now) {
			delete(h.leaves, group)
		}
	}
}

// report sends one membership record, in the version of the querier.
func (h *Host) report(worker int, r frame.GroupRecord, now time.Time) bool {
	b := h.report6(r, now)
	if r.Group.Is4() {
		b = h.report4(r, now)
	}
	if b == nil {
		return true
	}
	if !h.port.Send(worker, b) {
		return false
	}
	h.Reports++
	return true
}

// report4 is sent from 0.0.0.0 by a bridge without an IPv4 address (RFC 3376 §4.2.13). Hosts leave without a word where a
// querier has version 1.
func (h *Host) report4(r frame.GroupRecord, now time.Time) []byte {
	src := h.port.IPv4
	if !src.IsValid() {
		src = netip.IPv4Unspecified()
	}
	isFirst, isSecond := now.Before(h.older[0]), now.Before(h.older[1])
	switch {
	case !isFirst && !isSecond:
		return frame.AppendIGMPv3Report(nil, h.port.Link, src, r)
	case r.Joins() && isFirst:
		return frame.AppendIGMPv1Report(nil, h.port.Link, src, r.Group)
	case r.Joins():
		return frame.AppendIGMPv2Report(nil, h.port.Link, src, r.Group)
	case isFirst:
		return nil
	}
	return frame.AppendIGMPv2Leave(nil, h.port.Link, src, r.Group)
}

func (h *Host) report6(r frame.GroupRecord, now time.Time) []byte {
	src := h.port.Link.MAC.LinkLocal()
	switch {
	case !now.Before(h.older6):
		return frame.AppendMLDv2Report(nil, h.port.Link, src, r)
	case r.Joins():
		return frame.AppendMLDv1Report(nil, h.port.Link, src, r.Group)
	}
	return frame.AppendMLDv1Done(nil, h.port.Link, src, r.Group)
}
