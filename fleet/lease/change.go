// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"time"

	"causeway/fleet/shards"
)

// ErrNothingAssigned is returned where there is no assignment to change yet.
var ErrNothingAssigned = errors.New("lease: the fleet has no assignment yet")

// Change proposes what an operator makes of the newest assignment, and does so again when another came between, until ctx is
// done. Any member may be asked, while Run runs; shards pass as with any other assignment. What change refuses is refused by an
// assignment that is as new as the call: another member may have been asked for something just before.
func (m *Member) Change(ctx context.Context, change func(*shards.Assignment) (*shards.Assignment, error)) error {
	for sure := false; ; {
		s, err := m.Snapshot(ctx)
		if err != nil {
			return err
		}
		if s.Assignment == nil {
			return ErrNothingAssigned
		}
		next, err := change(s.Assignment)
		if err != nil && !sure && catchUp(ctx, m) {
			sure = true
			continue
		}
		if err != nil {
			return err
		}
		next = next.After(s.Assignment)
		next.Unanimous = s.Assignment.Unanimous
		if err = propose(ctx, m, s.Epoch, next); !errors.Is(err, ErrEpoch) {
			return err
		}
		select {
		case <-m.config.Clock.After(m.config.interval()): // by then the newer one has come
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// propose proposes an assignment as soon as the member is not bound by what it has promised.
func propose(ctx context.Context, m *Member, epoch Epoch, next *shards.Assignment) error {
	type leave struct {
		by    *Record
		until time.Duration
	}
	for {
		free := make(chan leave, 1)
		m.post(ctx, func(now time.Time) {
			by, bound := m.rules.bound(m, now)
			if !now.Before(bound) && epoch == m.view.epoch {
				m.proposal.tried = epoch
			}
			free <- leave{by, bound.Sub(now)}
		})
		select {
		case l := <-free:
			if l.until <= 0 {
				return m.config.Store.Propose(ctx, Proposal{epoch, next, l.by})
			}
			select {
			case <-m.config.Clock.After(min(l.until, m.config.interval())):
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp returns when the watch has told of all that the store had when it was called: of a renewal that was sent later. False: not
// before ctx was done.
func catchUp(ctx context.Context, m *Member) bool {
	sent := make(chan uint64, 1) // so many were before
	m.post(ctx, func(now time.Time) {
		sent <- m.renewal.count
		m.renewal.next = now
	})
	var before uint64
	select {
	case before = <-sent:
	case <-ctx.Done():
		return false
	}
	for {
		told := make(chan bool, 1)
		m.post(ctx, func(time.Time) { told <- m.renewal.acknowledged > before && m.current() })
		select {
		case is := <-told:
			if is {
				return true
			}
		case <-ctx.Done():
			return false
		}
		select {
		case <-m.config.Clock.After(m.config.interval() / 40):
		case <-ctx.Done():
			return false
		}
	}
}
