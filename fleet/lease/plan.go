// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"causeway/fleet/shards"
)

// proposal is the state of what a member proposed last.
type proposal struct {
	sent   bool // and no reply came yet
	epoch  Epoch
	again  time.Time // not before, while the epoch is the same
	tried  Epoch     // the newest that anything was proposed to follow: it may still be carried out
	wanted time.Time // since when the newest assignment is not for the members that are alive; zero: it is
}

// propose proposes an assignment if the newest one is not for the members that are alive, and the member is the first of
// these by name, or those before it have not done so for long. Two that propose do no harm: the store accepts one proposal an
// epoch. It returns when to ask again.
func (m *Member) propose(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Time {
	p := &m.proposal
	if p.sent || !m.current() {
		return time.Time{}
	}
	members, unanimous := m.view.alive(now)
	newest := m.view.newest()
	rank, there := m.view.rank(m.config.Name, members)
	if !there || shards.Check(members) != nil || slices.Equal(members, newest.Members) && unanimous == newest.Unanimous {
		p.wanted = time.Time{}
		return m.view.nextSilence(now)
	}
	if p.wanted.IsZero() {
		p.wanted = now
	}
	if turn := p.wanted.Add(time.Duration(2*rank) * m.config.Lease); now.Before(turn) {
		return turn
	}
	var before *shards.Assignment
	if m.view.epoch != (Epoch{}) {
		before = newest.Assignment
	}
	return m.send(ctx, group, now, func() *shards.Assignment {
		a := m.rules.plan(members, before)
		a.Unanimous = unanimous
		if before != nil {
			a = a.After(before)
		}
		return a
	})
}

// send proposes what is to follow the newest assignment, and returns when to ask again.
func (m *Member) send(ctx context.Context, group *sync.WaitGroup, now time.Time, next func() *shards.Assignment) time.Time {
	p, epoch := &m.proposal, m.view.epoch
	by, bound := m.rules.bound(m, now)
	switch {
	case p.sent || !m.current():
		return time.Time{}
	case now.Before(bound):
		return bound
	case p.epoch == epoch && now.Before(p.again):
		return p.again
	}
	p.sent, p.epoch, p.tried = true, epoch, epoch
	group.Go(func() {
		timed, cancel := context.WithTimeout(ctx, m.config.Lease)
		defer cancel()
		_ = m.config.Store.Propose(timed, Proposal{epoch, next(), by}) // the watch tells what came of it
		m.post(ctx, func(now time.Time) {
			p.sent = false
			p.again = now.Add(m.config.Lease / 2) // by then its event came, or it is lost
		})
	})
	return time.Time{}
}

// current reports whether the watch has told of what the member itself has last renewed. A member of which it has not told for
// long may live otherwise: the server that is watched may be behind.
func (m *Member) current() bool {
	p := m.view.processes[m.own()]
	return m.view.live && (m.renewal.acknowledged == 0 || p != nil && p.Renewals >= m.renewal.acknowledged)
}

// rank is a member's place among those that may propose. Where these are the members of the newest assignment, the others come
// after them.
func (v *view) rank(name string, members []shards.Member) (rank int, there bool) {
	newest := v.newest()
	before := func(o string) bool {
		_, has := newest.given[name]
		if _, theirs := newest.given[o]; newest.Unanimous && has != theirs {
			return theirs
		}
		return o < name
	}
	for _, m := range members {
		there = there || m.Name == name
		if before(m.Name) {
			rank++
		}
	}
	return rank, there
}
