// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// keptStore has the network keep the first record by which a process takes its name from another.
type keptStore struct {
	Store
	claims chan Record // has room for that
	reply  chan error
	kept   bool
}

func (k *keptStore) Renew(ctx context.Context, r Record) error {
	if r.Claim == 1 || k.kept {
		return k.Store.Renew(ctx, r)
	}
	k.kept = true
	k.claims <- r
	select {
	case err := <-k.reply:
		return err
	case <-ctx.Done():
		return errLost
	}
}

// comes has the store have what was kept, and the process know what came of it.
func (k *keptStore) comes(s *simStore) error {
	err := s.renew(<-k.claims)
	k.reply <- err
	return err
}

// beside starts a process of a machine's name on another machine.
func (s *simulation) beside(m *simMachine) *keptStore {
	other := &simMachine{faults: faults{breakWatch: make(chan struct{})}, name: m.name, weight: 1, unanimous: true, clock: m.clock, suspects: m.suspects}
	s.machines = append(s.machines, other)
	k := &keptStore{claims: make(chan Record, 1), reply: make(chan error, 1)}
	s.plant = func(_ *simulation, member *Member) { k.Store, member.config.Store = member.config.Store, k }
	s.launch(other)
	return k
}

// A process wants the name of one that follows an older assignment. Its record comes when that one follows the newest and is cut from
// the store, as all are soon: it goes on by promises. The store must not give the name away then: a third process knows nothing of the
// first one, once the second one has ended. Where the store does so all the same, as the planted mistake has it, two forward.
func TestLateClaim(t *testing.T) {
	for _, mistake := range []bool{false, true} {
		err := quietly(t, true, func(s *simulation, _ *simMachine) {
			s.store.late = mistake
			first, epoch := s.machines[1], s.store.epoch
			first.eventsHeld = time.Now().Add(200 * time.Millisecond)
			s.machines[0].process.member.rules.plan = func(all []shards.Member, before *shards.Assignment) *shards.Assignment {
				if a := *before; len(all) == len(a.Members) { // one assignment more, by which nothing passes
					a.Members = all
					return &a
				}
				return shards.Plan(all, before)
			}
			s.machines[0].process.member.SetWeight(s.machines[0].process.running, 2)
			for s.store.epoch == epoch {
				time.Sleep(time.Millisecond)
			}
			second := s.beside(first)
			for len(second.claims) == 0 {
				time.Sleep(time.Millisecond)
			}
			for _, m := range s.machines[:3] {
				for s.store.latest[m.name].Epoch == epoch { // all must be able to promise
					time.Sleep(time.Millisecond)
				}
			}
			first.eventsHeld = time.Now().Add(20 * time.Second)
			first.requestsLost = first.eventsHeld
			if refused := errors.Is(second.comes(s.store), ErrEpoch); refused == mistake {
				t.Errorf("refused: %t", refused)
			}
			s.processes[len(s.processes)-1].kill()
			if third := s.beside(first); mistake {
				if err := third.comes(s.store); err != nil {
					t.Error(err)
				}
			}
			s.store.stalled = time.Now().Add(10 * time.Second)
			time.Sleep(15 * time.Second)
		})
		if errors.Is(err, errOverlap) != mistake {
			t.Errorf("mistake: %t: %v", mistake, err)
		}
	}
}
