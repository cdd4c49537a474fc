// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A process that has died is succeeded as soon as its lease has run out, not when a member next looks. Processes of the simulation stand
// still now and then, so the median counts.
func TestTakeOverIsPrompt(t *testing.T) {
	if race {
		t.Skip("as simulate")
	}
	var late []time.Duration
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { late = append(late, takeOver(t, seed)...) })
	}
	slices.Sort(late)
	const most = 15 * time.Millisecond // a proposal, a renewal, and what is seen of both
	if median := late[len(late)/2]; median > most {
		t.Errorf("half of %d shards have a successor %v after the lease of a process that died, want %v", len(late), median, most)
	}
}

// takeOver kills one process of some, and returns how long after its lease could last each of its shards was open elsewhere.
func takeOver(t *testing.T, seed uint64) (late []time.Duration) {
	t.Helper()
	s := newSimulation(seed, func(*simulation, *Member) {})
	for _, m := range s.machines {
		m.slow, m.slowReplies = 0, false
		s.start(m)
	}
	time.Sleep(5 * time.Second)
	died := s.machines[seed%uint64(len(s.machines))].process
	died.kill()
	killed := time.Now()
	time.Sleep(3 * time.Second)
	var last time.Time
	for _, e := range s.store.log {
		if e.Record.Process == died.number {
			last = e.at.Add(died.member.config.silence())
		}
	}
	for word, spans := range died.gate.open {
		if n := len(spans); n > 0 && spans[n-1].to.Equal(killed) {
			late = append(late, s.successor(word, killed).Sub(last))
		}
	}
	s.over = true
	for _, p := range s.processes {
		p.cancel()
	}
	for _, p := range s.processes {
		<-p.ended
	}
	return late
}

// successor returns when a shard was opened first after a time.
func (s *simulation) successor(word int, after time.Time) (first time.Time) {
	for _, p := range s.processes {
		for _, o := range p.gate.open[word] {
			if o.from.After(after) && (first.IsZero() || o.from.Before(first)) {
				first = o.from
			}
		}
	}
	return first
}
