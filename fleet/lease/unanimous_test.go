// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"causeway/fleet/shards"
)

// quietFleet runs a fleet to which nothing happens but what a test does, after the fleet has settled; the last machine's process
// is not started. No two may forward a shard.
func quietFleet(t *testing.T, unanimous bool, test func(s *simulation, last *simMachine)) {
	t.Helper()
	if err := quietly(t, unanimous, test); err != nil {
		t.Error(err)
	}
}

// quietly is quietFleet, and returns whether two forwarded a shard.
func quietly(t *testing.T, unanimous bool, test func(s *simulation, last *simMachine)) (err error) {
	t.Helper()
	if race {
		t.Skip("the simulated world has no locks: see simulate")
	}
	synctest.Test(t, func(*testing.T) {
		s, nothing := &simulation{}, func(*simulation, *Member) {}
		for seed := uint64(0); len(s.machines) < 4; seed++ {
			s = newSimulation(seed, nothing)
		}
		s.quiet = true
		for _, m := range s.machines {
			m.unanimous, m.slow, m.slowReplies = unanimous, 0, false
		}
		last := s.machines[len(s.machines)-1]
		s.machines = s.machines[:len(s.machines)-1]
		for _, m := range s.machines {
			s.start(m)
		}
		time.Sleep(5 * time.Second)
		test(s, last)
		s.over = true
		time.Sleep(90 * time.Second) // until what the store and the network have kept has come
		for _, p := range s.processes {
			p.cancel()
		}
		for _, p := range s.processes {
			<-p.ended
			p.gate.end()
		}
		err = s.disjoint()
	})
	return err
}

// forwarding counts the processes whose lease lasts.
func (s *simulation) forwarding() (n int) {
	for _, p := range s.processes {
		if v := p.gate.valid; !p.dead && len(v) > 0 && time.Now().Before(v[len(v)-1].to) {
			n++
		}
	}
	return n
}

// lapses counts the times at which a lease had run out.
func (s *simulation) lapses() (n int) {
	for _, p := range s.processes {
		n += len(p.gate.valid) - 1
	}
	return n
}

// Without the store all go on as long as all are there, or nobody for longer than a lease.
func TestUnanimous(t *testing.T) {
	for _, unanimous := range []bool{true, false} {
		quietFleet(t, unanimous, func(s *simulation, _ *simMachine) {
			all := len(s.machines)
			s.store.stalled = time.Now().Add(time.Minute)
			time.Sleep(50 * time.Second)
			switch n := s.forwarding(); {
			case unanimous && (n != all || s.lapses() > 0):
				t.Errorf("%d of %d go on, and leases had run out %d times; all are to go on", n, all, s.lapses())
			case !unanimous && n > 0:
				t.Errorf("%d go on without the store", n)
			}
			time.Sleep(15 * time.Second)
			if n := s.forwarding(); n != all {
				t.Errorf("%d of %d forward when the store is back", n, all)
			}
		})
	}
}

// Without the store, one that is not heard stops all; and so does one that has the store.
func TestNotUnanimous(t *testing.T) {
	for name, happens := range map[string]func(s *simulation, one *simMachine) int{
		"one is not heard": func(s *simulation, one *simMachine) int {
			s.store.stalled = time.Now().Add(time.Minute)
			one.wordsLost = s.store.stalled
			return 0
		},
		"one has died": func(s *simulation, one *simMachine) int {
			s.store.stalled = time.Now().Add(time.Minute)
			time.AfterFunc(10*time.Second, one.process.kill)
			return 0
		},
		"one alone is without the store": func(s *simulation, one *simMachine) int {
			one.requestsLost = time.Now().Add(time.Minute)
			one.eventsHeld = one.requestsLost
			return len(s.machines) - 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			quietFleet(t, true, func(s *simulation, _ *simMachine) {
				want := happens(s, s.machines[1])
				time.Sleep(20 * time.Second)
				if n := s.forwarding(); n != want {
					t.Errorf("%d forward, want %d", n, want)
				}
			})
		})
	}
}

// Who comes while all others are without the store, and it is not, takes nothing; and does when they are back.
func TestComesLater(t *testing.T) {
	quietFleet(t, true, func(s *simulation, last *simMachine) {
		all, until := len(s.machines), time.Now().Add(time.Minute)
		for _, m := range s.machines {
			m.requestsLost, m.eventsHeld = until, until
		}
		time.Sleep(5 * time.Second)
		s.machines = append(s.machines, last)
		s.start(last)
		waited := 0
		for range 50 { // now and then a renewal of theirs comes late
			time.Sleep(time.Second)
			if seen, err := last.process.member.Snapshot(last.process.running); err == nil && len(seen.Waits) == all {
				waited++
			}
		}
		if waited < 10 {
			t.Errorf("it has waited for all of them for %d seconds of 50", waited)
		}
		if n := s.forwarding(); n != all+1 || s.lapses() > 0 || len(s.store.current.Members) != all {
			t.Errorf("%d have a lease, which had run out %d times, in a fleet of %d; the one that came is to have one that opens nothing", n, s.lapses(), len(s.store.current.Members))
		}
		time.Sleep(15 * time.Second)
		if n := len(s.store.current.Members); n != all+1 {
			t.Errorf("the fleet has %d members", n)
		}
	})
}

// Who has promised, and has the store again before the others do, takes what they had only when the leases by its promises have
// run out. To the store they have been silent for long by then. A promise that does not bind is found.
func TestPromiseBinds(t *testing.T) {
	for _, binds := range []bool{true, false} {
		err := quietly(t, true, func(s *simulation, _ *simMachine) {
			first, lost := s.machines[0], time.Now().Add(time.Minute)
			if !binds {
				first.process.member.rules.bound = func(m *Member, now time.Time) (*Record, time.Time) {
					m.unanimity.bound = time.Time{}
					return bound(m, now)
				}
			}
			for _, m := range s.machines {
				m.requestsLost, m.eventsHeld = lost, lost
			}
			first.requestsLost = time.Now().Add(20 * time.Second)
			first.eventsHeld = first.requestsLost
			time.Sleep(30 * time.Second)
			if n := len(s.store.current.Members); n != 1 || s.agreed == 0 {
				t.Errorf("the fleet has %d members, after %d leases by promises; who has the store is to be the only one", n, s.agreed)
			}
		})
		if binds && err != nil || !binds && !errors.Is(err, errOverlap) {
			t.Errorf("promises bind: %t; %v", binds, err)
		}
	}
}

// asking returns a member of two that follows their assignment, and has asked the other one for a promise, if it has a way to say so.
func asking(t *testing.T, say func([]byte)) (*Member, time.Time) {
	t.Helper()
	m, err := New(Config{Name: "a", Weight: 1, Process: 1, Store: emptyStore{}, Gate: &openGate{}, Say: say})
	if err != nil {
		t.Fatal(err)
	}
	a, now := shards.Plan([]shards.Member{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}, nil), time.Now()
	a.Unanimous = true
	m.view.saw(Event{Epoch: epoch(1), Assignment: a}, now)
	m.epoch, m.renewal.epoch, m.claimed = epoch(1), epoch(1), true
	m.ask(now)
	return m, now
}

// A member that has come back without a way to the others neither asks nor promises, though the assignment is of a fleet that does.
func TestNoWay(t *testing.T) {
	for _, way := range []bool{true, false} {
		said := 0
		var say func([]byte)
		if way {
			say = func([]byte) { said++ }
		}
		m, now := asking(t, say)
		m.heard("b", 2, word{epoch: epoch(1), count: 1}, now)
		if want := map[bool]int{true: 2, false: 0}[way]; said != want {
			t.Errorf("with a way %t it says %d words, want %d", way, said, want)
		}
	}
}

// A promise is for the question that it answers: one that comes late binds for less long than the lease would last that is asked
// for by then.
func TestOldPromise(t *testing.T) {
	m, now := asking(t, func([]byte) {})
	asked := now.Add(m.config.interval())
	m.ask(asked)
	later := asked.Add(time.Millisecond)
	for _, w := range []word{{true, epoch(1), 1, 1}, {true, epoch(1), 2, 9}} { // of the first question, and to the process before
		if m.heard("b", 2, w, later); !m.unanimity.until.IsZero() {
			t.Fatalf("%+v lets it go on", w)
		}
	}
	m.heard("b", 2, word{true, epoch(1), 2, 1}, later)
	if want := asked.Add(m.config.Lease); !m.unanimity.until.Equal(want) {
		t.Errorf("it goes on for %v after it asked, want %v", m.unanimity.until.Sub(asked), m.config.Lease)
	}
}
