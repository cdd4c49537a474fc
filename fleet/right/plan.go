// SPDX-License-Identifier: Apache-2.0

package right

import (
	"context"
	"slices"
	"sync"
	"time"

	"causeway/fleet/shares"
)

// proposal is the state of what a member proposed last.
type proposal struct {
	sent  bool // and no reply came yet
	epoch uint64
	again time.Time // not before, while the epoch is the same
}

// propose proposes an assignment if the newest one is not for the members that are alive, and the member is the first of
// these by name. Two that believe so do no harm: the store accepts one proposal an epoch. It returns when to ask again.
func (m *Member) propose(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Time {
	p := &m.proposal
	if p.sent || !m.view.live {
		return time.Time{}
	}
	members := m.view.alive(now)
	newest := m.view.newest()
	if len(members) == 0 || members[0].Name != m.config.Name || shares.Check(members) != nil || slices.Equal(members, newest.Members) {
		return m.view.nextSilence(now)
	}
	epoch := m.view.epoch
	if p.epoch == epoch && now.Before(p.again) {
		return p.again
	}
	*p = proposal{sent: true, epoch: epoch}
	var before *shares.Assignment
	if epoch > 0 {
		before = newest.Assignment
	}
	group.Go(func() {
		timed, cancel := context.WithTimeout(ctx, m.config.Right)
		defer cancel()
		_ = m.config.Store.Propose(timed, epoch, m.rules.plan(members, before)) // the watch tells what came of it
		m.post(ctx, func(now time.Time) {
			p.sent = false
			p.again = now.Add(m.config.Right / 2) // by then its event came, or it is lost
		})
	})
	return time.Time{}
}
