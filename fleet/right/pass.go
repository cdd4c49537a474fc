// SPDX-License-Identifier: Apache-2.0

package right

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"causeway/fleet/shares"
)

// passing is how shares pass from one member to another without a loss:
//
//	owner: sees the assignment ▶ notes what it forwards ─▶ Note ─┐      ┌─▶ closes ▶ Record, with what it noted ─┐
//	heir:                                                        └ holds ─▶ Note ┘                                └ opens
//
// When anything comes between, shares pass without that: nothing opens but by take.go.
type passing struct {
	leaving *leaving            // nil: it leaves nothing
	holding map[string]*holding // by the names of those who leave the shares
	carried Carried             // for the next record
	notes   []Note              // to be told
}

// leaving is shares that the member is to close.
type leaving struct {
	epoch Epoch // of the assignment that does not give them
	set
	heirs map[string]bool // members that do not hold them yet
	tell  time.Time       // when it says so; zero: it has
	until time.Time       // when it closes them at the latest
}

// holding is shares that another member is to close.
type holding struct {
	set
	process uint64  // the other member's
	carried Carried // nil: not known
	until   time.Time
}

// owners are those who leave what is held, by name, so that nothing depends on a map's order.
func (p *passing) owners() []string { return slices.Sorted(maps.Keys(p.holding)) }

// lingering is how long a member waits at most for those that are to hold what it leaves: two of them may have to find out that what they
// watch is behind. Its right is not renewed meanwhile.
func (c *Config) lingering() time.Duration { return 2 * c.Right / 5 }

// Settling is how much later members may hear a packet than others do, for a right: a member goes on for so long when all hold
// what it leaves, and they hold what they hear so long after it began to note what it forwards.
func Settling(right time.Duration) time.Duration { return right / 50 }

func (c *Config) settling() time.Duration { return Settling(c.Right) }

func (m *Member) leaves() bool { return m.passing.leaving != nil }

// leave begins to leave shares to who has them by the newest assignment, if anybody may hold them, and the right lasts. Where
// there are shares of one that has died, there is no time for that: the member can take none while it leaves others.
func (m *Member) leave(lost set, now time.Time) bool {
	until := now.Add(m.config.lingering())
	heirs := m.heirs(&lost, now)
	lasts := !m.renewal.until.Before(until.Add(m.config.interval()))
	if len(heirs) == 0 || m.view.orphaned(now) || !lasts || !m.config.Gate.Leave(lost.list()) {
		return false
	}
	noting := m.config.Clock.Now() // Leave may have taken long
	m.passing.leaving = &leaving{m.view.epoch, lost, heirs, noting.Add(m.config.settling()), until}
	return true
}

// heirs are the members that are there and have these shares by the newest assignment.
func (m *Member) heirs(lost *set, now time.Time) map[string]bool {
	heirs := m.view.there(now)
	maps.DeleteFunc(heirs, func(name string, _ bool) bool {
		theirs := m.view.newest().to(name).both(lost)
		return theirs.empty() || name == m.config.Name
	})
	return heirs
}

// there are the members of which a process has not ended or fallen silent.
func (v *view) there(now time.Time) map[string]bool {
	names := map[string]bool{}
	for id, p := range v.processes {
		if !p.Ended && !v.silent(p, now) {
			names[id.member] = true
		}
	}
	return names
}

// orphaned reports whether a member is not there that had shares by the assignment before the newest.
func (v *view) orphaned(now time.Time) bool {
	there := v.there(now)
	if before := v.history[v.newest().follows]; before != nil {
		for name, s := range before.given {
			if !s.empty() && !there[name] {
				return true
			}
		}
	}
	return false
}

// linger says what the member leaves when it is time, and closes it when it is. It returns when there is more to do.
func (m *Member) linger(now time.Time) time.Time {
	l := m.passing.leaving
	if l == nil {
		return time.Time{}
	}
	if !l.tell.IsZero() {
		if now.Before(l.tell) {
			return l.tell
		}
		l.tell = time.Time{}
		m.note(Note{Leaves: l.bits()})
	}
	if now.Before(l.until) {
		return l.until
	}
	m.finish(now)
	return time.Time{}
}

// finish closes what the member leaves.
func (m *Member) finish(now time.Time) {
	l := m.passing.leaving
	m.passing.leaving = nil
	carried := m.config.Gate.Left(slices.Sorted(maps.Keys(l.heirs)))
	m.open = m.open.minus(&l.set)
	m.follows(l.epoch, carried, now)
}

// note has a note told.
func (m *Member) note(n Note) {
	n.Member, n.Process, n.Epoch = m.config.Name, m.config.Process, m.view.epoch
	m.passing.notes = append(m.passing.notes, n)
}

// tell tells the notes. One that is lost has shares pass without it.
func (m *Member) tell(ctx context.Context, group *sync.WaitGroup) {
	for _, n := range m.passing.notes {
		group.Go(func() {
			timed, cancel := context.WithTimeout(ctx, m.config.lingering())
			defer cancel()
			_ = m.config.Store.Tell(timed, n)
		})
	}
	m.passing.notes = nil
}

// noted takes another member's note in.
func (m *Member) noted(n Note, now time.Time) {
	if n.Epoch != m.view.epoch || n.Member == m.config.Name {
		return
	}
	m.hold(n, now)
	if l := m.passing.leaving; l != nil && l.heirs[n.Member] && slices.Contains(n.Holds, m.config.Name) {
		if delete(l.heirs, n.Member); len(l.heirs) == 0 {
			l.until = now.Add(m.config.settling())
		}
	}
}

// hold holds what a member leaves to this one. Of shares that it was given and had not opened yet, somebody before it may still
// carry some.
func (m *Member) hold(n Note, now time.Time) {
	owner, leaves := m.view.processes[identity{n.Member, n.Process}], setOf(n.Leaves)
	if owner == nil || owner.Epoch == n.Epoch || owner.Ended {
		return
	}
	theirs := leaves.both(m.view.newest().to(m.config.Name))
	if theirs = theirs.minus(&m.open); theirs.empty() || m.passing.holding[n.Member] != nil {
		return
	}
	if !m.config.Gate.Hold(theirs.list()) {
		return
	}
	m.passing.holding[n.Member] = &holding{set: theirs, process: n.Process, until: now.Add(3 * m.config.lingering())}
	m.note(Note{Holds: m.passing.owners()})
}

// left takes in what a member says that it carried. Its next records do not say so again.
func (m *Member) left(r Record) {
	h := m.passing.holding[r.Member]
	if h != nil && h.process == r.Process && r.Epoch == m.view.epoch && r.Carried != nil {
		h.carried = r.Carried
	}
}

// openAll opens shares.
func (m *Member) openAll(free set) {
	m.open.unite(&free)
	for _, name := range m.passing.owners() {
		h := m.passing.holding[name]
		held := h.both(&free)
		if held.empty() {
			continue
		}
		m.config.Gate.Open(held.list(), h.carried)
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
func (m *Member) expire(now time.Time) (again time.Time) {
	for _, name := range m.passing.owners() {
		h := m.passing.holding[name]
		switch {
		case !now.Before(h.until):
			delete(m.passing.holding, name)
			m.config.Gate.Drop(h.list())
		case again.IsZero() || h.until.Before(again):
			again = h.until
		}
	}
	return again
}

// drop drops all that is held.
func (m *Member) drop() {
	var all []shares.Share
	for _, name := range m.passing.owners() {
		h := m.passing.holding[name]
		all = append(all, h.list()...)
	}
	if clear(m.passing.holding); len(all) > 0 {
		m.config.Gate.Drop(all)
	}
}
