// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"causeway/fleet/shards"
)

// passing is how shards pass from one member to another without a loss, by two assignments: by the first they are passing, and their owner
// proposes the second.
//
//	owner: sees that they pass ▶ notes what it forwards ─▶ Note ─┐       ┌─▶ proposes ─┐                ┌─▶ closes ▶ Record, with what it noted ─┐
//	successor:                                                   └ holds ▶ Note       └ attracts ▶ Note ┘                                       └ opens
//
// What cannot pass so is put off before it is proposed: its owner goes on, and hosts have reached it there all the time.
type passing struct {
	count     uint64              // as a Leave's Pass
	leaving   *leaving            // nil: it leaves nothing
	again     time.Time           // when to leave what was put off
	delay     time.Duration       // of that
	anyhow    bool                // what cannot pass without a loss passes with one
	holding   map[string]*holding // by the names of those who leave the shards
	forwarded Forwarded           // for the next record
	news      bool                // of this, which the others are to be told
	tell      time.Time           // when to tell them again, for a note may be lost
}

// leaving is shards that the member is to pass.
type leaving struct {
	set
	successors map[string]*set
	missing    map[string]bool // successors that do not hold theirs yet
	tell       time.Time       // when it says so first; zero: it has
	until      time.Time       // when those pass that can
	closed     bool            // they are not forwarded, so that nothing is noted

	last    time.Time       // until when it forwards what has passed; zero: nothing has
	reaches map[string]bool // whom hosts do not reach yet for that
}

// holding is shards that another member is to pass to this one, or has passed.
type holding struct {
	set
	leave     Leave
	forwarded Forwarded // nil: not known
	until     time.Time
	here      bool // they have passed, and hosts reach them here
}

// owners are those who leave what is held, by name, so that nothing depends on a map's order.
func (p *passing) owners() []string { return slices.Sorted(maps.Keys(p.holding)) }

// drainTime is how long a member waits at most for those that are to hold what it leaves: two of them may have to find out that what they
// watch is behind.
func (c *Config) drainTime() time.Duration { return 2 * c.Lease / 5 }

// Settling is how much later members may hear a packet than others do, for a lease: a member goes on for so long when hosts reach
// elsewhere what it has left, and others hold what they hear so long after it began to note what it forwards.
func Settling(lease time.Duration) time.Duration { return lease / 50 }

func (c *Config) settling() time.Duration { return Settling(c.Lease) }

// PassAnyhow has what the member is to pass now pass with a loss where it cannot pass without.
func (m *Member) PassAnyhow(ctx context.Context) {
	m.post(ctx, func(now time.Time) { m.passing.anyhow, m.passing.again = true, now })
}

// pass has the member pass what it is to. It returns when there is more to do.
func (m *Member) pass(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Time {
	l := m.passing.leaving
	if l == nil {
		if again := m.leave(now); m.passing.leaving == nil {
			return again
		}
		l = m.passing.leaving
	}
	if !l.tell.IsZero() && !now.Before(l.tell) {
		m.passing.news, l.tell = true, time.Time{}
	}
	if !l.last.IsZero() {
		if now.Before(l.last) {
			return l.last
		}
		m.follow(now)
		return now
	}
	if now.Before(l.until) {
		return earliest(l.tell, l.until)
	}
	ready := l.ready(m.passing.anyhow)
	if ready.empty() || now.After(l.until.Add(m.config.Lease)) && !m.proposal.sent {
		m.putOff(l.set, now)
		return m.passing.again
	}
	if rest := l.minus(&ready); !rest.empty() {
		m.putOff(rest, now)
	}
	a := m.view.newest()
	return m.send(ctx, group, now, func() *shards.Assignment { return a.Passed(ready.list()) })
}

// leave begins to leave the open shards that are passing to members that are there, and returns when to try again.
func (m *Member) leave(now time.Time) time.Time {
	p, successors, all := &m.passing, map[string]*set{}, set{}
	there := m.view.there(now)
	for name, theirs := range m.view.newest().passes[m.config.Name] {
		if theirs := theirs.both(&m.open); !theirs.empty() && there[name] {
			successors[name] = &theirs
			all.unite(&theirs)
		}
	}
	switch {
	case len(m.view.newest().passes[m.config.Name]) == 0:
		p.again, p.delay, p.anyhow = time.Time{}, 0, false
		return time.Time{}
	case all.empty() || m.renewal.epoch != m.epoch || p.forwarded != nil:
		return time.Time{} // until an event
	case now.Before(p.again):
		return p.again
	}
	l := &leaving{set: all, successors: successors, missing: map[string]bool{}, closed: !m.config.Gate.Leave(all.list())}
	noting := m.config.Clock.Now() // Leave may have taken long
	l.tell, l.until = noting.Add(m.config.settling()), noting.Add(m.config.drainTime())
	if l.closed {
		l.tell, l.until = time.Time{}, now
	}
	for name := range successors {
		l.missing[name] = true
	}
	p.leaving = l
	p.count++
	return time.Time{}
}

// ready returns what is left that can pass.
func (l *leaving) ready(anyhow bool) (all set) {
	for name, theirs := range l.successors {
		if l.closed || anyhow || !l.missing[name] {
			all.unite(theirs)
		}
	}
	return all
}

// putOff has the member keep shards that it was about to pass, for a while that is longer each time.
func (m *Member) putOff(all set, now time.Time) {
	p := &m.passing
	p.delay = min(max(2*p.delay, m.config.Lease), 8*m.config.Lease)
	p.again = now.Add(p.delay)
	m.stay(all)
}

// stay has the member keep shards that it was about to pass.
func (m *Member) stay(all set) {
	l := m.passing.leaving
	var late []string
	for _, name := range slices.Sorted(maps.Keys(l.successors)) {
		if both := l.successors[name].both(&all); !both.empty() {
			late = append(late, name)
			delete(l.successors, name)
			delete(l.missing, name)
		}
	}
	if l.set = l.minus(&all); !l.closed {
		m.config.Gate.Stay(all.list(), late)
	}
	if m.passing.news = true; l.empty() {
		m.passing.leaving = nil
		m.passing.count++ // who holds what is left drops it
	}
}

// passes goes on with what the member leaves by a new assignment, which has it keep some of its shards.
func (m *Member) passes(keep *set) {
	l := m.passing.leaving
	if l == nil {
		return
	}
	l.last, l.reaches = time.Time{}, nil
	gone := l.minus(keep)
	var rest set // what passes no more to whom it did, or had not to pass yet
	for name, theirs := range l.successors {
		still := m.view.newest().passing(m.config.Name, name).both(theirs)
		if other := theirs.both(keep); !gone.empty() || still != *theirs {
			rest.unite(&other)
		}
	}
	late := slices.Sorted(maps.Keys(l.missing))
	if !rest.empty() {
		m.stay(rest)
	}
	if gone.empty() || m.passing.leaving == nil {
		return
	}
	m.passing.leaving = nil
	if l.closed {
		return
	}
	m.passing.forwarded = m.config.Gate.Left(late)
	m.open = m.open.minus(&gone)
}

// tell tells what the member leaves and holds, when that changes and then again and again. It returns when it is the next time.
func (m *Member) tell(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Time {
	p := &m.passing
	l := p.leaving
	says := l != nil && !l.closed && l.tell.IsZero()
	switch idle := !says && len(p.holding) == 0; {
	case !p.news && idle:
		return time.Time{}
	case !p.news && now.Before(p.tell):
		return p.tell
	}
	p.news, p.tell = false, now.Add(m.config.interval())
	n := Note{Leave: Leave{m.config.Name, m.config.Process, p.count}}
	if says {
		n.Leaves = l.bits()
	}
	for _, name := range p.owners() {
		h := p.holding[name]
		if n.Holds = append(n.Holds, h.leave); h.here {
			n.Here = append(n.Here, h.leave)
		}
	}
	group.Go(func() {
		timed, cancel := context.WithTimeout(ctx, m.config.drainTime())
		defer cancel()
		_ = m.config.Store.Tell(timed, n)
	})
	return p.tell
}

// noted takes another member's note in.
func (m *Member) noted(n Note, now time.Time) {
	if n.Member == m.config.Name {
		return
	}
	m.hold(n, now)
	l, own := m.passing.leaving, Leave{m.config.Name, m.config.Process, m.passing.count}
	if l != nil && l.missing[n.Member] && slices.Contains(n.Holds, own) {
		if delete(l.missing, n.Member); len(l.missing) == 0 {
			l.until = now
		}
	}
	if l != nil && l.reaches[n.Member] && slices.Contains(n.Here, own) {
		if delete(l.reaches, n.Member); len(l.reaches) == 0 {
			l.last = now.Add(m.config.settling())
		}
	}
}

// drains reports whether the member still forwards what has passed by the newest assignment, by which it keeps some of its shards: until
// hosts reach that where it is now, and no longer than two fifths of a lease, which is not renewed meanwhile.
func (m *Member) drains(keep *set, now time.Time) bool {
	l := m.passing.leaving
	if l == nil || l.closed {
		return false
	}
	gone, closes := l.minus(keep), m.open.minus(keep)
	if more := closes.minus(&gone); gone.empty() || !more.empty() {
		return false
	}
	if l.last.IsZero() {
		l.last, l.reaches = now.Add(m.config.drainTime()), map[string]bool{}
		if end := m.renewal.until.Add(-m.config.interval()); end.Before(l.last) {
			l.last = end // closing takes a moment, too
		}
		for name, theirs := range l.successors {
			if both := theirs.both(&gone); !both.empty() && !l.missing[name] {
				l.reaches[name] = true
			}
		}
		if len(l.reaches) == 0 {
			l.last = now // nobody holds it
		}
	}
	return now.Before(l.last)
}

// attract has hosts reach here what another member leaves, and an assignment gives.
func (p *passing) attract(c *Config, keep *set, now time.Time) {
	for _, name := range p.owners() {
		h := p.holding[name]
		if theirs := h.both(keep); !theirs.empty() && !h.here {
			c.Gate.Attract(theirs.list())
			h.here, h.until, p.news = true, now.Add(c.holding()), true
		}
	}
}

// hold holds what a member leaves to this one, and what it left before no more, unless that has passed.
func (m *Member) hold(n Note, now time.Time) {
	h, leaves := m.passing.holding[n.Member], setOf(n.Leaves)
	switch {
	case h != nil && h.leave == n.Leave:
		if n.Leaves != nil { // else it has passed what it left
			put := m.view.newest().passing(n.Member, m.config.Name).minus(&leaves)
			m.passing.drop(m.config.Gate, n.Member, h.both(&put))
		}
		return
	case h != nil && h.forwarded != nil:
		return
	case h != nil:
		m.passing.drop(m.config.Gate, n.Member, h.set)
	}
	owner := m.view.processes[identity{n.Member, n.Process}]
	theirs := m.view.newest().passing(n.Member, m.config.Name).both(&leaves)
	if theirs = theirs.minus(&m.open); theirs.empty() || owner == nil || owner.Ended || m.view.silent(owner, now) {
		return
	}
	if !m.config.Gate.Hold(theirs.list()) {
		return // it is tried again when it is said again
	}
	m.passing.holding[n.Member] = &holding{set: theirs, leave: n.Leave, until: now.Add(m.config.holding())}
	m.passing.news = true
}

// left takes in what a member says that it forwarded. Its next records do not say so again.
func (p *passing) left(r Record) {
	h := p.holding[r.Member]
	if h != nil && r.Forwarded != nil && h.leave == (Leave{r.Member, r.Process, r.Pass}) {
		h.forwarded = r.Forwarded
	}
}

// openAll opens shards.
func (m *Member) openAll(free set) {
	m.open.unite(&free)
	for _, name := range m.passing.owners() {
		h := m.passing.holding[name]
		held := h.both(&free)
		if held.empty() {
			continue
		}
		m.config.Gate.Open(held.list(), h.forwarded)
		free = free.minus(&held)
		if h.set = h.minus(&held); h.empty() {
			delete(m.passing.holding, name)
		}
	}
	if !free.empty() {
		m.config.Gate.Open(free.list(), nil)
	}
}

// expire drops what is held in vain, and returns when to look again.
func (p *passing) expire(g Gate, now time.Time) (again time.Time) {
	for _, name := range p.owners() {
		if h := p.holding[name]; now.Before(h.until) {
			again = earliest(again, h.until)
		} else {
			p.drop(g, name, h.set)
		}
	}
	return again
}

// holdOn drops what is held that a new assignment neither gives the member nor has pass to it.
func (m *Member) holdOn(keep *set) {
	for _, name := range m.passing.owners() {
		h := m.passing.holding[name]
		lost := h.minus(keep)
		m.passing.drop(m.config.Gate, name, lost.minus(m.view.newest().passing(name, m.config.Name)))
	}
}

// drop drops some of what a member leaves.
func (p *passing) drop(g Gate, name string, lost set) {
	if lost.empty() {
		return
	}
	h := p.holding[name]
	if h.set = h.minus(&lost); h.empty() {
		delete(p.holding, name)
	}
	g.Drop(lost.list())
}

// dropAll drops all that is held.
func (p *passing) dropAll(g Gate) {
	for _, name := range p.owners() {
		p.drop(g, name, p.holding[name].set)
	}
}

// earliest returns the first of some times, but for those that are zero.
func earliest(all ...time.Time) (first time.Time) {
	for _, t := range all {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
