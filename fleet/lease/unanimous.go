// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/binary"
	"time"
)

// unanimity is how a member goes on without the store: for a lease at a time, while all other members of its assignment have
// promised to propose no other for that long.
//
//	m: asks ─ word ─▶ each other one ▶ is without the store, too ▶ will not propose ─ word ─▶ m: goes on for a lease from when it asked
//
// Another member may open what m has only by an assignment that follows m's. Who proposes that
//   - is a member of m's assignment, which has promised m nothing or whose promise has run out; or m, whose lease is one of
//     the store's then, as others see it; and who has proposed promises nothing, for its proposal may be carried out late;
//   - or has come later, and proposes in place of a member that has ended: m waits in vain for that one's promise.
//
// A process promises nothing for one of its name that was before it, and proposes only when what that one has promised has run
// out. It takes the name only from one that has ended, or that follows an older assignment: one that may forward by promises
// cannot be told from one that is dead by the store alone.
type unanimity struct {
	count   uint64          // of questions
	asked   time.Time       // when the last one was, read before
	missing map[string]bool // members whose answer has not come; nil: nothing was asked
	next    time.Time       // when to ask again
	until   time.Time       // the deadline
	bound   time.Time       // until then the member proposes nothing
	named   time.Time       // when the name was free; zero: it is not yet
}

// word is what members say to each other, not by the store.
type word struct {
	promise bool   // else it asks for one
	epoch   Epoch  // of the assignment
	count   uint64 // of the question
	process uint64 // which has asked; of a promise alone
}

// wordLen is the length of a word: its kind, and four numbers, big-endian.
const wordLen = 1 + 4*8

func (w word) bytes() []byte {
	b := make([]byte, 1, wordLen)
	if w.promise {
		b[0] = 1
	}
	for _, n := range []uint64{w.epoch.Number, w.epoch.ID, w.count, w.process} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// wordOf reads a word; false: it is none, of this version.
func wordOf(b []byte) (w word, is bool) {
	if len(b) != wordLen || b[0] > 1 {
		return w, false
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	return word{b[0] == 1, Epoch{n(0), n(1)}, n(2), n(3)}, true
}

// quiet is how long after a renewal was sent a member is without the store if no other has succeeded.
func (c *Config) quiet() time.Duration { return 2 * c.interval() }

// without reports whether a member with such renewals is without the store.
func (r *renewal) without(c *Config, now time.Time) bool { return !now.Before(r.sent.Add(c.quiet())) }

// unites reports whether a member may go on by others' promises, and give its own: it has a way to them, has been given a lease by the newest
// assignment that it knows of, which lets it, and nothing that it has proposed can be carried out.
func unites(m *Member) bool {
	a := m.view.newest()
	_, has := a.given[m.config.Name]
	return m.config.Say != nil && has && a.Unanimous && m.epoch == m.view.epoch && m.renewal.epoch == m.epoch && m.proposal.tried != m.epoch
}

// ask asks the other members when it is time to, and returns when it is the next time.
func (m *Member) ask(now time.Time) time.Time {
	u := &m.unanimity
	switch {
	case !m.rules.unites(m):
		return time.Time{}
	case !m.renewal.without(&m.config, now):
		return m.renewal.sent.Add(m.config.quiet())
	case now.Before(u.next):
		return u.next
	}
	u.count++
	u.asked, u.next, u.missing = now, now.Add(m.config.interval()/2), map[string]bool{}
	for _, o := range m.view.newest().Members {
		if o.Name != m.config.Name {
			u.missing[o.Name] = true
		}
	}
	m.config.Say(word{epoch: m.epoch, count: u.count}.bytes())
	m.agree(now)
	return u.next
}

// Heard takes a word of another member's process, in any goroutine, and keeps none of it. It may come twice, late or not at all,
// and is lost where the member has no time for it.
func (m *Member) Heard(member string, process uint64, text []byte) {
	w, is := wordOf(text)
	if !is {
		return
	}
	select {
	case m.inbox <- func(now time.Time) { m.heard(member, process, w, now) }:
	default:
	}
}

func (m *Member) heard(member string, process uint64, w word, now time.Time) {
	switch {
	case w.epoch != m.epoch || !m.rules.unites(m) || member == m.config.Name:
	case !w.promise:
		if m.renewal.without(&m.config, now) {
			m.unanimity.bound = now.Add(m.config.silence())
			m.config.Say(word{true, w.epoch, w.count, process}.bytes())
		}
	case w.process == m.config.Process && w.count == m.unanimity.count:
		delete(m.unanimity.missing, member)
		m.agree(now)
	}
}

// agree has the member go on when all have promised what was asked last.
func (m *Member) agree(now time.Time) {
	u := &m.unanimity
	if u.missing == nil || !m.rules.agreed(u) {
		return
	}
	u.missing, u.next = nil, u.asked.Add(m.config.interval())
	u.until = m.rules.deadline(&m.config, u.asked, now)
	m.until()
}

// until has the gate know how long the member may forward.
func (m *Member) until() {
	if !m.steady() {
		return
	}
	deadline := m.renewal.until
	promised := m.unanimity.until.After(deadline)
	if promised {
		deadline = m.unanimity.until
	}
	m.promised.Store(promised)
	m.config.Gate.Until(deadline)
}

// Promised reports whether the member's lease, which may have run out, is one by promises, and not one of the store's. Any goroutine
// may call it.
func (m *Member) Promised() bool { return m.promised.Load() }

// doubt has all that was promised be promised now, and ends what others have promised, by a clock that may have jumped.
func (u *unanimity) doubt(now time.Time, c *Config) {
	u.missing, u.until, u.next, u.bound = nil, time.Time{}, now, now.Add(c.silence())
	if !u.named.IsZero() {
		u.named = now
	}
}

// has reports whether a process may have its member's name: nobody else may forward, or promise anything, by it.
func (u *unanimity) has(v *view, own identity, now time.Time) bool {
	switch {
	case v.newest().Unanimous && !v.free(own):
		u.named = time.Time{}
	case u.named.IsZero():
		u.named = now
	}
	return !u.named.IsZero()
}

// free reports whether all other processes of a member's name have ended, or do not follow the newest assignment.
func (v *view) free(own identity) bool {
	for id, p := range v.processes {
		if id.member == own.member && id != own && !p.Ended && p.Epoch == v.epoch && !v.config.Gone(p.Where) {
			return false
		}
	}
	return true
}

// endedLong returns the record of a member of the newest assignment that has ended so long ago that what it promised has run
// out; nil: there is none.
func (v *view) endedLong(now time.Time) *Record {
	for _, member := range v.newest().Members {
		var last *process
		ended := true
		for id, p := range v.processes {
			if id.member != member.Name {
				continue
			}
			ended = ended && p.Ended && v.silent(p, now)
			if last == nil || p.Claim > last.Claim {
				last = p
			}
		}
		if last != nil && ended {
			return &last.Record
		}
	}
	return nil
}

// waits returns the members of the newest assignment, if the member has come later, and none of them is there or has ended.
func (v *view) waits(now time.Time) (names []string) {
	a, there := v.newest(), v.there(now)
	if _, has := a.given[v.config.Name]; has || !a.Unanimous || v.endedLong(now) != nil {
		return nil
	}
	for _, o := range a.Members {
		if there[o.Name] {
			return nil
		}
		names = append(names, o.Name)
	}
	return names
}

// bound returns by whom a member may propose what follows the newest assignment, and when.
func bound(m *Member, now time.Time) (by *Record, until time.Time) {
	own := m.record()
	newest, never := m.view.newest(), now.Add(m.config.Lease)
	_, has := newest.given[m.config.Name]
	switch u := &m.unanimity; {
	case !m.claimed:
		return nil, never // it is not alive to others yet
	case !newest.Unanimous:
		return &own, until
	case !has:
		if by = m.view.endedLong(now); by == nil {
			until = never
		}
		return by, until
	case u.named.IsZero(), u.until.After(m.renewal.until):
		return nil, never
	default:
		until = u.named.Add(m.config.silence())
		if u.bound.After(until) {
			until = u.bound
		}
		return &own, until
	}
}
