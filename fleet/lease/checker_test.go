// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"causeway/fleet/shards"
)

// errOverlap is the one thing that must not happen.
var errOverlap = errors.New("two members forwarded one shard at the same time")

// held is when a process forwarded a shard.
type held struct {
	span
	process *simProcess
}

// held returns when each process forwarded a shard, in order.
func (s *simulation) held(word int) (all []held) {
	for _, p := range s.processes {
		for _, f := range p.gate.forwards(word) {
			all = append(all, held{f, p})
		}
	}
	slices.SortFunc(all, func(a, b held) int { return a.from.Compare(b.from) })
	return all
}

// disjoint checks that no two processes forward a shard at the same true time.
func (s *simulation) disjoint() error {
	for word := range len(set{}) {
		var last held
		for _, h := range s.held(word) {
			if h.from.Before(last.to) && h.process != last.process {
				return fmt.Errorf("%w: %v by %s/%d from %v to %v and by %s/%d from %v to %v", errOverlap, shards.Shard(word*64),
					last.process.machine.name, last.process.number, s.since(last.from), s.since(last.to),
					h.process.machine.name, h.process.number, s.since(h.from), s.since(h.to))
			}
			if h.to.After(last.to) {
				last = h
			}
		}
	}
	return nil
}

func (s *simulation) since(t time.Time) time.Duration { return t.Sub(s.machines[0].clock.start) }

// settled checks that each shard is forwarded, by the member that it is assigned to, and that all members have some.
func (s *simulation) settled() error {
	now := time.Now()
	a := s.store.current
	if a == nil || len(a.Members) != len(s.machines) {
		return fmt.Errorf("after all faults epoch %v is not for all of %d members: %v", s.store.epoch, len(s.machines), s.describe())
	}
	for word := range len(set{}) {
		owner := a.OwnerOf(shards.Shard(word * 64))
		i := slices.Index(simNames, owner)
		g := &s.machines[i].process.gate
		n, v := len(g.open[word]), len(g.valid)
		if n == 0 || v == 0 || !g.open[word][n-1].to.IsZero() || !now.Before(g.valid[v-1].to) {
			return fmt.Errorf("after all faults %s does not forward %v of epoch %v", owner, shards.Shard(word*64), s.store.epoch)
		}
	}
	return nil
}

// describe returns what the store has, for messages.
func (s *simulation) describe() (all []any) {
	if s.store.current != nil {
		all = append(all, s.store.current.Members)
	}
	for _, m := range s.machines {
		all = append(all, s.store.latest[m.name])
	}
	return all
}

// use is an operation on a shard as porcupine sees it: a lock that a process takes, uses, and gives back.
type use struct {
	shard   shards.Shard
	process uint64
	kind    byte // 't', 'u', 'g'
}

var lock = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[shards.Shard][]porcupine.Operation{}
		for _, o := range history {
			by[o.Input.(use).shard] = append(by[o.Input.(use).shard], o)
		}
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		holder, u := state.(uint64), input.(use)
		switch u.kind {
		case 't':
			return holder == 0, u.process
		case 'g':
			return holder == u.process, uint64(0)
		}
		return holder == u.process, holder
	},
}

// operations are what processes did with a shard. Each use lies within what the gate allowed; taking may have begun, and
// giving back ended, no earlier and no later than that.
func (s *simulation) operations(word int) (all []porcupine.Operation) {
	for _, h := range s.held(word) {
		from, to := int64(s.since(h.from)), int64(s.since(h.to))
		add := func(kind byte, call, done int64) {
			all = append(all, porcupine.Operation{ClientId: int(h.process.number), Input: use{shards.Shard(word * 64), h.process.number, kind},
				Call: call, Return: done})
		}
		if to-from < 8 {
			continue
		}
		add('t', from, from+1)
		add('u', from+2, to-3)
		add('g', to-2, to-1)
	}
	return all
}

// linear has porcupine judge what was done with a shard of a word, or of each if none is named.
func (s *simulation) linear(words ...int) bool {
	if len(words) == 0 {
		for word := range len(set{}) {
			words = append(words, word)
		}
	}
	var all []porcupine.Operation
	for _, word := range words {
		all = append(all, s.operations(word)...)
	}
	return porcupine.CheckOperations(lock, all)
}
