// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"causeway/fleet/shards"
)

// simState is what a store has.
type simState struct {
	latest         map[string]Record
	names          map[string]Record // by which each was taken last
	revision       map[string]int64  // of each one's last record
	epoch, follows Epoch
	current        *shards.Assignment
}

func newSimState() simState {
	return simState{latest: map[string]Record{}, names: map[string]Record{}, revision: map[string]int64{}}
}

// clone returns a copy, as a backup has it.
func (s simState) clone() simState {
	s.latest, s.names, s.revision = maps.Clone(s.latest), maps.Clone(s.names), maps.Clone(s.revision)
	return s
}

// simStore is a linearizable store: its state changes only in commit, at one instant of simulated time, but when it is set back.
type simStore struct {
	simState
	log      []logged      // all that was committed
	ids      uint64        // drawn so far
	changed  chan struct{} // closed at each commit
	stalled  time.Time     // it carries out nothing before
	careless bool          // a planted mistake: renewals do not compare the epoch
	numbered bool          // another: an assignment has no ID
	shared   bool          // another: they do not compare the process
	anybody  bool          // another: proposals do not
	late     bool          // another: who takes a name does not compare the record of the one before
}

type logged struct {
	Event
	at time.Time
}

func newSimStore() *simStore {
	return &simStore{simState: newSimState(), changed: make(chan struct{})}
}

func (s *simStore) commit(e Event) {
	s.log = append(s.log, logged{e, time.Now()})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *simStore) renew(r Record) error {
	if r.Epoch != s.epoch && !s.careless {
		return ErrEpoch
	}
	has := s.names[r.Member]
	own := has.Process == r.Process && has.Claim == r.Claim
	after := r.After == 0 || r.After == s.revision[r.Member] || s.late
	if !own && has.Claim >= r.Claim && !s.shared {
		return ErrReplaced
	}
	if !own && !after {
		return ErrEpoch
	}
	r.Revision = int64(len(s.log)) + 1
	s.names[r.Member], s.latest[r.Member], s.revision[r.Member] = r, r, r.Revision
	s.commit(Event{Record: r})
	return nil
}

func (s *simStore) propose(p Proposal) error {
	if p.Epoch != s.epoch {
		return ErrEpoch
	}
	if by := p.By; by != nil && !s.anybody && (s.names[by.Member].Process != by.Process || s.names[by.Member].Claim != by.Claim) {
		return ErrEpoch
	}
	if !s.numbered {
		s.ids++
	}
	s.follows, s.epoch, s.current = s.epoch, Epoch{s.epoch.Number + 1, s.ids}, p.Assignment
	s.commit(Event{Epoch: s.epoch, Follows: s.follows, Assignment: s.current})
	return nil
}

// read returns what there is.
func (s *simStore) read() (all []Event) {
	if s.current != nil {
		all = append(all, Event{Epoch: s.epoch, Follows: s.follows, Assignment: s.current})
	}
	for _, name := range simNames {
		if r, ok := s.latest[name]; ok {
			all = append(all, Event{Record: r})
		}
	}
	return append(all, Event{Complete: true})
}

// faults are those of a machine's way to the store. They end at times.
type faults struct {
	requestsLost, repliesLost, eventsHeld time.Time
	breakWatch                            chan struct{} // closed to break it
	slow                                  float64       // how often a request or a reply takes long
	slowReplies                           bool          // all do, but not too long
}

// link is a process's way to the store. Each kind of traffic has its own random numbers, so that goroutines that run at the
// same instant do not race for them.
type link struct {
	*faults
	store                                  *simStore
	requests, proposals, deliveries, notes *rand.Rand
	point                                  func(r *rand.Rand) // where a process may stand still, or end
	killed                                 chan struct{}      // closed: the process is
}

func newLink(s *simStore, f *faults, r *rand.Rand) *link {
	return &link{faults: f, store: s, requests: split(r), proposals: split(r), deliveries: split(r), notes: split(r), point: func(*rand.Rand) {}}
}

// split makes other random numbers of those of r.
func split(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }

// delay is mostly short. Its nanoseconds make that no two things happen at the same instant.
func (l *link) delay(r *rand.Rand) time.Duration {
	d := 200*time.Microsecond + time.Duration(r.ExpFloat64()*float64(time.Millisecond))
	if r.Float64() < l.slow {
		d += time.Duration(r.Int64N(int64([]time.Duration{300 * time.Millisecond, 2500 * time.Millisecond}[r.IntN(2)])))
	}
	return d
}

var errLost = errors.New("simulated: no reply")

// call carries a request out after a delay, though nobody may wait for it any more.
func (l *link) call(ctx context.Context, r *rand.Rand, request func() error) error {
	r = split(r) // the one before it may end at this instant
	l.point(r)
	there, back := l.delay(r), l.delay(r)
	if l.slowReplies {
		back += time.Duration(r.Int64N(int64(450 * time.Millisecond)))
	}
	late := time.Duration(r.Int64N(int64(4 * time.Second)))
	if time.Now().Before(l.requestsLost) {
		if r.IntN(2) == 0 {
			select {
			case <-ctx.Done():
			case <-l.killed:
			}
			return errLost
		}
		there = max(there, time.Until(l.requestsLost)+late) // the network kept it
	}
	reply := make(chan error, 1)
	time.AfterFunc(there, func() {
		time.Sleep(time.Until(l.store.stalled.Add(there % time.Millisecond)))
		err := request()
		if !time.Now().Before(l.repliesLost) {
			time.AfterFunc(back, func() { reply <- err })
		}
	})
	select {
	case err := <-reply:
		l.point(r)
		return err
	case <-ctx.Done():
	case <-l.killed:
	}
	l.point(r)
	return errLost
}

// Renew implements Store. Now and then it is carried out once more, late: to a store of several servers it is sent again, to
// another one, where the first one does not answer soon.
func (l *link) Renew(ctx context.Context, r Record) error {
	if copies := split(l.requests); copies.IntN(20) == 0 {
		time.AfterFunc(time.Duration(copies.Int64N(int64(4*time.Second))), func() { _ = l.store.renew(r) })
	}
	return l.call(ctx, l.requests, func() error { return l.store.renew(r) })
}

// Propose implements Store.
func (l *link) Propose(ctx context.Context, p Proposal) error {
	return l.call(ctx, l.proposals, func() error { return l.store.propose(p) })
}

// Tell implements Store.
func (l *link) Tell(ctx context.Context, n Note) error {
	return l.call(ctx, l.notes, func() error {
		l.store.commit(Event{Note: &n})
		return nil
	})
}

// Watch implements Store.
func (l *link) Watch(ctx context.Context, f func(Event)) error {
	r := l.deliveries
	broken := l.breakWatch
	next, first := 0, []Event(nil)
	if err := l.pass(ctx, broken, l.delay(r)); err != nil {
		return err
	}
	first, next = l.store.read(), len(l.store.log)
	if err := l.pass(ctx, broken, l.delay(r)); err != nil {
		return err
	}
	for _, e := range first {
		l.point(r)
		f(e)
	}
	for {
		if next == len(l.store.log) {
			select {
			case <-l.store.changed:
			case <-broken:
				return errLost
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		e := l.store.log[next]
		next++
		if err := l.pass(ctx, broken, time.Until(e.at)+l.delay(r)); err != nil {
			return err
		}
		l.point(r)
		f(e.Event)
	}
}

// pass waits, and as long as events are held up.
func (l *link) pass(ctx context.Context, broken chan struct{}, d time.Duration) error {
	jitter := time.Duration(l.deliveries.Int64N(1e6))
	for due := time.Now().Add(d); ; due = l.eventsHeld.Add(jitter) {
		if time.Now().Before(due) {
			timer := time.NewTimer(time.Until(due))
			select {
			case <-timer.C:
			case <-broken:
				timer.Stop()
				return errLost
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
		if !time.Now().Before(l.eventsHeld) {
			return nil
		}
	}
}
