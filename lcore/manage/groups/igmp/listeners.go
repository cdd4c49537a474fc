// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/lcore/frame"
)

// Listeners are what hosts want of one group, as a router knows it (RFC 3376 §6, RFC 3810 §7): messages of some sources,
// INCLUDE, or of all but some, EXCLUDE, each for as long as somebody reports it. The zero Listeners want nothing.
//
// Timers run while a querier asks: without one hosts report what they want once, and nothing they say grows old.
type Listeners struct {
	exclude bool
	timer   time.Time // of EXCLUDE: when it ends
	sources map[netip.Addr]*source
	older   [2]time.Time   // until when hosts of version 1, and 2 of IGMP, are there
	resend  retransmission // of the query for the group
	asked   time.Time      // until when timers run because another querier has asked for the group
}

// source is one that is wanted; or, of EXCLUDE, one that nobody wants, if its timer has ended.
type source struct {
	until  time.Time // zero: it has ended
	resend retransmission
}

// retransmission is a specific query that is to be sent again (RFC 3376 §6.6.3, RFC 3810 §7.6.3).
type retransmission struct {
	times int
	at    time.Time
}

// sourcesMost bounds the sources of a group. With more, it is wanted of all.
const sourcesMost = 64

// Any reports whether somebody wants the group.
func (l *Listeners) Any() bool { return l.exclude || len(l.sources) > 0 }

// Reported takes a record of a host's report (RFC 3376 §6.4, RFC 3810 §7.4). version is the message's.
func (l *Listeners) Reported(q *Querier, version uint8, r frame.GroupRecord, now time.Time) {
	t := q.timing(r.Group, now)
	r, heeded := l.compatible(version, r, now, now.Add(t.membership()))
	if !heeded {
		return
	}
	if !l.hasRoom(r.Sources) {
		if !r.Joins() {
			return
		}
		r = frame.GroupRecord{Type: frame.ModeIsExclude, Group: r.Group}
	}
	if l.sources == nil {
		l.sources = map[netip.Addr]*source{}
	}
	c := change{l: l, q: q, r: r, now: now, until: now.Add(t.membership())}
	if l.exclude {
		c.whileExclude()
	} else {
		c.whileInclude()
	}
}

// compatible notes the version of a host, and makes of a record what it means while there are older ones (RFC 3376 §7.3.2,
// RFC 3810 §8.3.2): they do not know sources, and those of IGMPv1 leave without a word.
func (l *Listeners) compatible(version uint8, r frame.GroupRecord, now, until time.Time) (as frame.GroupRecord, heeded bool) {
	newest := uint8(2)
	if r.Group.Is4() {
		newest = 3
	}
	if version < newest && !r.Leaves() {
		l.older[version-1] = until
	}
	isFirst, isOld := r.Group.Is4() && now.Before(l.older[0]), now.Before(l.older[0]) || now.Before(l.older[1])
	switch {
	case !isOld:
		return r, true
	case r.Type == frame.BlockOldSources, isFirst && r.Type == frame.ToInclude:
		return r, false
	case r.Type == frame.ToExclude:
		r.Sources = nil
	}
	return r, true
}

// hasRoom reports whether there may be these sources, too.
func (l *Listeners) hasRoom(more []netip.Addr) bool {
	n := len(l.sources)
	for _, a := range more {
		if l.sources[a] == nil {
			n++
		}
	}
	return n <= sourcesMost
}

// A change is what one record does. The comments are rows of the tables in RFC 3376 §6.4.1 and §6.4.2, which are those of
// RFC 3810 §7.4.1 and §7.4.2.
type change struct {
	l          *Listeners
	q          *Querier
	r          frame.GroupRecord
	now, until time.Time // until: for as long as a report counts
}

func (c *change) whileInclude() {
	l, named := c.l, c.r.Sources
	switch c.r.Type {
	case frame.ModeIsInclude, frame.AllowNewSources: // A+B, (B)=GMI
		c.want(named, c.until)
	case frame.BlockOldSources: // Send Q(G,A*B)
		c.askSources(l.those(named, true))
	case frame.ToInclude: // A+B, (B)=GMI, Send Q(G,A-B)
		others := l.those(named, false)
		c.want(named, c.until)
		c.askSources(others)
	case frame.ModeIsExclude, frame.ToExclude: // EXCLUDE (A*B,B-A), Delete (A-B), timer=GMI; TO_EX: Send Q(G,A*B)
		both := l.those(named, true)
		l.keep(named)
		for _, a := range named {
			if l.sources[a] == nil {
				l.sources[a] = &source{}
			}
		}
		l.exclude, l.timer = true, c.until
		if c.r.Type == frame.ToExclude {
			c.askSources(both)
		}
	}
}

func (c *change) whileExclude() {
	l, named := c.l, c.r.Sources
	switch c.r.Type {
	case frame.ModeIsInclude, frame.AllowNewSources: // EXCLUDE (X+A,Y-A), (A)=GMI
		c.want(named, c.until)
	case frame.ToInclude: // EXCLUDE (X+A,Y-A), (A)=GMI, Send Q(G,X-A), Send Q(G)
		others := l.those(named, false)
		c.want(named, c.until)
		c.askSources(others)
		c.askGroup()
	case frame.BlockOldSources: // EXCLUDE (X+(A-Y),Y), (A-X-Y)=timer, Send Q(G,A-Y)
		c.want(l.unknown(named), l.timer)
		c.askSources(l.those(named, true))
	case frame.ModeIsExclude: // EXCLUDE (A-Y,Y*A), (A-X-Y)=GMI, Delete (X-A), (Y-A), timer=GMI
		c.want(l.unknown(named), c.until)
		l.keep(named)
		l.timer = c.until
	case frame.ToExclude: // EXCLUDE (A-Y,Y*A), (A-X-Y)=timer, Delete (X-A), (Y-A), Send Q(G,A-Y), timer=GMI
		c.want(l.unknown(named), l.timer)
		l.keep(named)
		c.askSources(l.those(named, true))
		l.timer = c.until
	}
}

// those returns the sources that are wanted and named, or wanted and not.
func (l *Listeners) those(named []netip.Addr, in bool) (all []netip.Addr) {
	for a, s := range l.sources {
		if !s.until.IsZero() && slices.Contains(named, a) == in {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// unknown returns those that are neither wanted nor excluded.
func (l *Listeners) unknown(named []netip.Addr) (all []netip.Addr) {
	for _, a := range named {
		if l.sources[a] == nil {
			all = append(all, a)
		}
	}
	return all
}

// keep removes all sources but the named ones.
func (l *Listeners) keep(named []netip.Addr) {
	maps.DeleteFunc(l.sources, func(a netip.Addr, _ *source) bool { return !slices.Contains(named, a) })
}

func (c *change) want(named []netip.Addr, until time.Time) {
	for _, a := range named {
		s := c.l.sources[a]
		if s == nil {
			s = &source{}
			c.l.sources[a] = s
		}
		s.until = until
	}
}

// askGroup has the querier ask who listens to the group, which ends unless somebody answers (RFC 3376 §6.6.3.1, RFC 3810
// §7.6.3.1).
func (c *change) askGroup() {
	if !c.q.IsOwn(c.r.Group, c.now) {
		return
	}
	t := standard
	c.l.lower(c.now.Add(t.lastMember(lastMemberInterval)))
	c.l.resend = retransmission{t.robustness, c.now}
	c.l.ask(c.q, c.r.Group, c.now)
}

// askSources is askGroup for sources (§6.6.3.2, §7.6.3.2).
func (c *change) askSources(which []netip.Addr) {
	if !c.q.IsOwn(c.r.Group, c.now) {
		return
	}
	t := standard
	end := c.now.Add(t.lastMember(lastMemberInterval))
	for _, a := range which {
		if s := c.l.sources[a]; s.until.After(end) {
			s.until, s.resend = end, retransmission{t.robustness, c.now}
		}
	}
	c.l.ask(c.q, c.r.Group, c.now)
}

func (l *Listeners) lower(end time.Time) {
	if l.exclude && l.timer.After(end) {
		l.timer = end
	}
}

// ask sends the queries that are due. What is wanted again meanwhile is asked with the flag that keeps others' timers as
// they are.
func (l *Listeners) ask(q *Querier, group netip.Addr, now time.Time) {
	end := now.Add(standard.lastMember(lastMemberInterval))
	if l.resend.isDue(now) && q.askLast(group, nil, l.timer.After(end)) {
		l.resend.sent(now)
	}
	var due [2][]netip.Addr // sources with a lowered timer, and those reported since
	for a, s := range l.sources {
		if s.resend.isDue(now) {
			k := 0
			if s.until.After(end) {
				k = 1
			}
			due[k] = append(due[k], a)
		}
	}
	for k, some := range due {
		slices.SortFunc(some, netip.Addr.Compare)
		if len(some) > 0 && q.askLast(group, some, k == 1) {
			for _, a := range some {
				l.sources[a].resend.sent(now)
			}
		}
	}
}

func (x *retransmission) isDue(now time.Time) bool { return x.times > 0 && !now.Before(x.at) }

func (x *retransmission) sent(now time.Time) { x.times, x.at = x.times-1, now.Add(lastMemberInterval) }

// Queried takes another querier's query for the group (RFC 3376 §6.6.1, RFC 3810 §7.6.1): what it asks for ends as soon as
// it does for the querier, unless somebody answers.
func (l *Listeners) Queried(q *frame.Query, now time.Time) {
	if q.Suppress || q.MaxResp == 0 {
		return
	}
	end := now.Add(timingOf(q).lastMember(max(q.MaxResp, lastMemberInterval)))
	if l.asked.Before(end) {
		l.asked = end
	}
	if len(q.Sources) == 0 {
		l.lower(end)
	}
	for _, a := range q.Sources {
		if s := l.sources[a]; s != nil && s.until.After(end) {
			s.until = end
		}
	}
}

// Tick ends what nobody has reported in its time (RFC 3376 §6.2.3, §6.3, §6.5), and repeats queries. passed is the time since
// the last call.
func (l *Listeners) Tick(q *Querier, group netip.Addr, passed time.Duration, now time.Time) {
	if !q.IsPresent(group, now) && l.asked.Before(now.Add(-passed)) {
		l.pause(passed)
		return
	}
	for a, s := range l.sources {
		if !due(s.until, now) {
			continue
		}
		if s.until = (time.Time{}); !l.exclude {
			delete(l.sources, a)
		}
	}
	if l.exclude && due(l.timer, now) {
		l.exclude = false
		maps.DeleteFunc(l.sources, func(_ netip.Addr, s *source) bool { return s.until.IsZero() })
	}
	if q.IsOwn(group, now) {
		l.ask(q, group, now)
	}
}

// pause moves all timers on, by a time in which there was no querier.
func (l *Listeners) pause(d time.Duration) {
	if l.exclude {
		l.timer = l.timer.Add(d)
	}
	for i := range l.older {
		l.older[i] = l.older[i].Add(d)
	}
	for _, s := range l.sources {
		if !s.until.IsZero() {
			s.until = s.until.Add(d)
		}
	}
}

// Forget has some sources no more be wanted; all: nothing of the group.
func (l *Listeners) Forget(sources []netip.Addr, all bool) {
	if all {
		*l = Listeners{}
		return
	}
	for _, a := range sources {
		if !l.exclude {
			delete(l.sources, a)
		}
	}
}
