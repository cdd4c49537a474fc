// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"sync"
	"time"
)

// renewal is the state of a member's renewals, of which one is under way at a time.
type renewal struct {
	weight float64
	next   time.Time // when to send one
	sent   time.Time // when the last that succeeded was, read before
	count  uint64    // of those sent; what comes of an earlier one than the last is ignored
	cancel context.CancelFunc
	ended  chan struct{} // of the last one: it has succeeded or failed
	epoch  Epoch         // of the last that succeeded
	until  time.Time     // the deadline

	acknowledged uint64 // the number of the last that succeeded
}

// renew sends a renewal. Its time is one read before it is sent.
func (m *Member) renew(ctx context.Context, group *sync.WaitGroup, now time.Time) {
	if m.renewal.cancel != nil {
		m.renewal.cancel()
	}
	m.renewal.count++
	r := m.record()
	// One that takes longer is sent again before the lease runs out.
	timed, cancel := context.WithTimeout(ctx, m.config.Lease/2)
	m.renewal.next = now.Add(m.config.Lease)
	ended := make(chan struct{})
	m.renewal.cancel, m.renewal.ended = cancel, ended
	group.Go(func() {
		defer cancel()
		err := func() error {
			defer close(ended)
			return m.config.Store.Renew(timed, r)
		}()
		m.post(ctx, func(replied time.Time) { m.renewed(r, now, replied, err) })
	})
}

// settle waits for the renewal that is under way: one that is given up may be carried out after the member's last record, and
// the member would seem to live on.
func (r *renewal) settle() {
	if r.ended != nil {
		<-r.ended
	}
}

// refusedMost is how often the store may know of another process of the name, before the watch has told of it.
const refusedMost = 50

func (m *Member) record() Record {
	after := m.after
	if !m.view.newest().Unanimous || m.claimed {
		after = 0 // the name may be taken from one that lives
	}
	return Record{After: after, Member: m.config.Name, Weight: m.renewal.weight, Process: m.config.Process, Claim: m.claim, Where: m.config.Where, Epoch: m.epoch, Renewals: m.renewal.count,
		Unanimous: m.config.Say != nil, Forwarded: m.passing.forwarded, Pass: m.passing.count}
}

// renewed moves the deadline if a renewal has succeeded.
func (m *Member) renewed(r Record, sent, replied time.Time, err error) {
	if r.Renewals != m.renewal.count {
		return
	}
	m.renewal.next = replied.Add(m.config.interval() / 2)
	if err != nil { // with ErrEpoch, the other assignment comes by the watch, and so does the name's process before itself
		if errors.Is(err, ErrReplaced) {
			m.refused++
			m.replaced = m.claimed || m.refused > refusedMost
		}
		return
	}
	m.claimed, m.renewal.acknowledged = true, r.Renewals
	m.renewal.next, m.renewal.sent = sent.Add(m.config.interval()), sent
	m.renewal.epoch = r.Epoch
	if r.Forwarded != nil {
		m.passing.forwarded = nil
	}
	m.renewal.until = m.rules.deadline(&m.config, sent, replied)
	m.until()
}

// resign ends the member's record, if the store can be reached within a lease.
func (m *Member) resign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.config.Lease)
	defer cancel()
	m.renewal.count++
	return End(ctx, m.config.Store, m.record())
}

// End says that a process forwards nothing any more, so that nobody waits for its lease to run out. A supervisor that saw
// a member's process die gives its Member, Process and Weight.
func End(ctx context.Context, s Store, r Record) error {
	r.Ended = true
	for {
		err := s.Renew(ctx, r)
		if !errors.Is(err, ErrEpoch) {
			return err
		}
		if r.Epoch, err = otherEpoch(ctx, s, r.Epoch); err != nil {
			return err
		}
	}
}

// otherEpoch returns the store's epoch once it is another.
func otherEpoch(ctx context.Context, s Store, epoch Epoch) (Epoch, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := errors.New("found")
	newest := Epoch{}
	err := s.Watch(ctx, func(e Event) {
		if e.Assignment != nil {
			newest = e.Epoch
		}
		if (e.Assignment != nil || e.Complete) && newest != epoch && ctx.Err() == nil {
			epoch = newest
			cancel(found)
		}
	})
	if context.Cause(ctx) == found {
		return epoch, nil
	}
	return epoch, err
}
