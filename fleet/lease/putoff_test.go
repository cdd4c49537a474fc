// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"slices"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// owned counts the shards of the first member.
func owned(s *simulation) (n int) {
	hosts, groups := s.store.current.Load(s.machines[0].name)
	return hosts + groups
}

// drain has the first member of three leave all that it has to the others in turn. It returns how many it had.
func drain(s *simulation) int {
	for _, m := range s.machines {
		m.process.member.rules.plan = func(all []shards.Member, before *shards.Assignment) *shards.Assignment {
			if len(all) < 3 {
				return shards.Plan(all, before)
			}
			a := *before
			a.Members = all
			for x := range a.Owner {
				if a.Owner[x] == 0 {
					a.Owner[x] = int8(1 + x%2)
				}
			}
			return &a
		}
	}
	had := owned(s)
	first := s.machines[0].process
	first.member.SetWeight(first.running, 0)
	return had
}

// What a successor cannot hold stays where it is: nobody closes it before another opens it, what others can hold passes, and the rest when
// it can.
func TestPutOff(t *testing.T) {
	quietFleet(t, true, func(s *simulation, _ *simMachine) {
		first, unable := s.machines[0].process, s.machines[1].process
		unable.pass.unable = true
		had, began := drain(s), time.Now()
		time.Sleep(5 * time.Second)
		left := owned(s)
		if left == 0 || left == had {
			t.Errorf("of %d shards %d have not passed, while one of two successors can hold nothing", had, left)
		}
		if first.pass.stayed < 2 {
			t.Errorf("it was told %d times that shards stay", first.pass.stayed)
		}
		unable.pass.unable = false
		time.Sleep(10 * time.Second)
		if n := owned(s); n > 0 {
			t.Errorf("%d shards have not passed since the successor can hold them", n)
		}
		if n := first.pass.lossy; n > 0 {
			t.Errorf("%d shards passed though their successors had not said that they hold them", n)
		}
		for word, spans := range first.gate.open {
			if closed := spans[max(0, len(spans)-1):]; len(closed) > 0 && closed[0].to.After(began) {
				if gap := s.successor(word, closed[0].to).Sub(closed[0].to); gap > 50*time.Millisecond {
					t.Errorf("word %d was open nowhere for %v", word, gap)
				}
			}
		}
	})
}

// refusingStore has nothing pass for a time.
type refusingStore struct {
	Store
	until   time.Time
	refused int
}

func (s *refusingStore) Propose(ctx context.Context, p Proposal) error {
	if time.Now().Before(s.until) && !slices.Contains(p.Assignment.Passing[:], true) {
		s.refused++
		return errLost
	}
	return s.Store.Propose(ctx, p)
}

// Hosts reach a shard where it is forwarded, or kept by a successor that has it a moment later: also where what all hold cannot be
// proposed for so long that it is put off.
func TestReached(t *testing.T) {
	for _, refused := range []time.Duration{0, 4 * time.Second} {
		quietFleet(t, true, func(s *simulation, _ *simMachine) {
			first := s.machines[0].process
			store := &refusingStore{Store: first.member.config.Store, until: time.Now().Add(refused)}
			first.member.config.Store = store
			drain(s)
			time.Sleep(10 * time.Second)
			if n := owned(s); n > 0 || (first.pass.stayed > 0) != (refused > 0) || (store.refused > 0) != (refused > 0) {
				t.Errorf("refused %d times: %d shards have not passed, and it was told %d times that they stay", store.refused, n, first.pass.stayed)
			}
			for _, p := range s.processes {
				if p.pass.lost+p.pass.early > 0 {
					t.Errorf("%s has dropped %d shards that hosts reached there, and closed %d", p.machine.name, p.pass.lost, p.pass.early)
				}
			}
			for shard := range shards.Shard(shards.Count) {
				if at := s.reached[shard]; at.machine.name != s.store.current.OwnerOf(shard) {
					t.Fatalf("hosts reach %v at %s, and %s has it", shard, at.machine.name, s.store.current.OwnerOf(shard))
				}
			}
		})
	}
}

// An operator need not wait.
func TestPassAnyhow(t *testing.T) {
	quietFleet(t, true, func(s *simulation, _ *simMachine) {
		first := s.machines[0].process
		s.machines[1].process.pass.unable = true
		drain(s)
		time.Sleep(5 * time.Second)
		first.member.PassAnyhow(first.running)
		time.Sleep(time.Second)
		if n, lossy := owned(s), first.pass.lossy; n > 0 || lossy == 0 {
			t.Errorf("%d shards have not passed, and %d with a loss", n, lossy)
		}
	})
}

// An owner that has died passes nothing: its successors have its shards by one assignment.
func TestOwnerDiesPassing(t *testing.T) {
	quietFleet(t, false, func(s *simulation, _ *simMachine) {
		for _, m := range s.machines[1:] {
			m.process.pass.unable = true
		}
		drain(s)
		time.Sleep(3 * time.Second)
		if !slices.Contains(s.store.current.Passing[:], true) {
			t.Error("nothing is passing")
		}
		before := s.store.current
		s.machines[0].process.kill()
		s.over = true // it does not start again
		time.Sleep(3 * time.Second)
		for x := range shards.Shard(shards.Count) {
			if before.Passing[x] && s.store.current.Passing[x] || s.store.current.OwnerOf(x) == s.machines[0].name {
				t.Errorf("%v is passing: %t; its owner is %s", x, s.store.current.Passing[x], s.store.current.OwnerOf(x))
			}
		}
	})
}
