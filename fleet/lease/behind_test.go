// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"causeway/fleet/shards"
)

// TestWatchBehind: a member that hears nothing of the store for long, though its renewals succeed, as where the server that it
// watches has a disk that is stalled, does not take the others for dead: neither while that lasts, nor when it hears all that
// it has missed, nor when another watch begins.
func TestWatchBehind(t *testing.T) {
	if race {
		t.Skip("as simulate")
	}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { behind(t, seed) })
	}
}

func behind(t *testing.T, seed uint64) {
	t.Helper()
	s := newSimulation(seed, func(*simulation, *Member) {})
	for _, m := range s.machines {
		m.slow, m.slowReplies = 0, false
		s.start(m)
	}
	time.Sleep(20 * time.Second) // until all that is to pass has
	epoch := s.store.epoch
	one := s.machines[seed%uint64(len(s.machines))]
	const long = 3 * time.Second
	one.eventsHeld = time.Now().Add(long)
	time.Sleep(long - time.Duration(seed)*time.Millisecond)
	if seed%2 == 0 {
		close(one.breakWatch)
		one.breakWatch = make(chan struct{})
	}
	time.Sleep(2 * time.Second)
	if s.store.epoch != epoch {
		t.Errorf("seed %d: there were %d assignments", seed, s.store.epoch.Number-epoch.Number)
	}
	s.over = true
	for _, p := range s.processes {
		p.cancel()
	}
	for _, p := range s.processes {
		<-p.ended
	}
}

// TestChangeBehind: what one member was asked for just before is no reason for another to refuse what follows.
func TestChangeBehind(t *testing.T) {
	if race {
		t.Skip("as simulate")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(1, func(*simulation, *Member) {})
		for _, m := range s.machines {
			m.slow, m.slowReplies = 0, false
			s.start(m)
		}
		time.Sleep(20 * time.Second)
		one, other := s.machines[0], s.machines[1]
		ask := func(m *simMachine, change func(*shards.Assignment) (*shards.Assignment, error)) error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			return m.process.member.Change(ctx, change)
		}
		pin := func(a *shards.Assignment) (*shards.Assignment, error) { return a.Pin(0, a.OwnerOf(0)) }
		unpin := func(a *shards.Assignment) (*shards.Assignment, error) { return a.Unpin(0) }
		one.eventsHeld = time.Now().Add(700 * time.Millisecond)
		if err := errors.Join(ask(other, pin), ask(one, unpin)); err != nil {
			t.Error(err)
		}
		if err := ask(other, unpin); err == nil || err.Error() != "shards: host/0 is not pinned" {
			t.Errorf("what is not pinned is unpinned: %v", err)
		}
		s.over = true
		for _, p := range s.processes {
			p.cancel()
		}
		for _, p := range s.processes {
			<-p.ended
		}
	})
}
