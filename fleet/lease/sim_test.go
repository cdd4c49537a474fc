// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"causeway/fleet/shards"
)

var simNames = []string{"a", "b", "c", "d", "e"}

// simMachine runs one process at a time.
type simMachine struct {
	faults
	wordFaults
	unanimous bool
	name      string
	clock     *simClock
	weight    float64
	process   *simProcess // the last
	suspects  map[string]time.Time
}

// simulation is a fleet in simulated time; all that happens follows from its seed.
type simulation struct {
	store     *simStore
	machines  []*simMachine
	processes []*simProcess // all that ever were
	r         *rand.Rand
	plant     func(*simulation, *Member) // a mistake
	over      bool
	lefts     []simLeft
	reached   map[shards.Shard]*simProcess // where hosts reach each shard
	outages   bool                         // the store is away for half of the time
	quiet     bool                         // nobody is preempted, and no word is lost by chance
	backups   []simState
	setBack   *rand.Rand // by which the store is set back; nil: it is not
	jumps     *rand.Rand // by which clocks jump; nil: they do not
	agreed    int        // times that a member went on by promises
}

func newSimulation(seed uint64, plant func(*simulation, *Member)) *simulation {
	s := &simulation{store: newSimStore(), reached: map[shards.Shard]*simProcess{}, r: rand.New(rand.NewPCG(seed, 0)), plant: plant}
	unanimous := s.r.IntN(4) > 0
	s.outages = unanimous && s.r.IntN(4) == 0
	if r := rand.New(rand.NewPCG(seed, 1)); !unanimous && r.IntN(2) == 0 {
		s.setBack, s.backups = r, []simState{newSimState()}
	}
	if seed%4 == 3 {
		s.jumps = rand.New(rand.NewPCG(seed, 2))
	}
	for _, name := range simNames[:1+unanimously(unanimous, s.r)] {
		rate := 1 + DefaultDrift*[]float64{-1, 1, 2*s.r.Float64() - 1}[s.r.IntN(3)]
		s.machines = append(s.machines, &simMachine{
			faults: faults{breakWatch: make(chan struct{}), slow: float64(s.r.IntN(4)) / 20, slowReplies: s.r.IntN(3) == 0},
			name:   name, weight: 1, unanimous: unanimous && s.r.IntN(30) > 0, suspects: map[string]time.Time{},
			clock: &simClock{time.Now(), time.Now().Add(time.Duration(s.r.Int64N(int64(time.Hour)))), rate, 0},
		})
	}
	return s
}

// start starts a process, unless one runs.
func (s *simulation) start(m *simMachine) {
	if !s.over && (m.process == nil || m.process.dead) {
		s.launch(m)
	}
}

// launch starts one, whatever runs.
func (s *simulation) launch(m *simMachine) {
	r := split(s.r)
	p := &simProcess{simClock: m.clock, machine: m, number: uint64(len(s.processes) + 1), ended: make(chan struct{}), killed: make(chan struct{}), clockRng: split(r), gateRng: split(r),
		sim: s, jumps: m.clock.jumps, pass: simPass{held: map[shards.Shard]time.Time{}, here: map[shards.Shard]bool{}}}
	s.processes = append(s.processes, p)
	m.process = p
	l := newLink(s.store, &m.faults, r)
	l.point, l.killed = p.stand, p.killed
	c := Config{Name: m.name, Weight: m.weight, Process: p.number, Where: p.where(), Store: l, Gate: p, Clock: p,
		Suspect: func(name string) bool { return time.Now().Before(m.suspects[name]) }, Gone: s.gone}
	if words := split(r); m.unanimous {
		c.Say = func(text []byte) { p.say(words, text) }
	}
	member, err := New(c)
	if err != nil {
		panic(err)
	}
	planner := split(r)
	member.rules.plan = func(all []shards.Member, before *shards.Assignment) *shards.Assignment {
		return simPlan(planner, all, before)
	}
	s.plant(s, member)
	agreed := member.rules.agreed
	member.rules.agreed = func(u *unanimity) bool {
		all := agreed(u)
		if all {
			s.agreed++
		}
		return all
	}
	p.member = member
	p.running, p.cancel = context.WithCancel(context.Background())
	again := time.Duration(r.Int64N(int64(2 * time.Second)))
	go func() {
		defer close(p.ended)
		defer p.kill()
		_ = member.Run(p.running)
		time.AfterFunc(again, func() { s.start(m) })
	}()
}

// unanimously is how many members a fleet has beside the first: without promises, two or more.
func unanimously(unanimous bool, r *rand.Rand) int {
	if unanimous && r.IntN(25) == 0 {
		return r.IntN(2)
	}
	return 2 + r.IntN(3)
}

// simPlan is a worse planner than shards.Plan: it moves also what could stay, so that leases change hands more often. Words
// of a set are alike.
func simPlan(r *rand.Rand, all []shards.Member, before *shards.Assignment) *shards.Assignment {
	a := &shards.Assignment{Members: all}
	for word := range len(set{}) {
		owner := r.IntN(len(all))
		if before != nil && r.IntN(2) > 0 {
			for i, m := range all {
				if m.Name == before.OwnerOf(shards.Shard(word*64)) {
					owner = i
				}
			}
		}
		for s := word * 64; s < word*64+64; s++ {
			a.Owner[s], a.Successor[s] = int8(owner), int8((owner+1)%len(all))
		}
	}
	return a
}

// upTo is a random time to come.
func (s *simulation) upTo(d time.Duration) time.Time { return time.Now().Add(s.within(d)) }

func (s *simulation) within(d time.Duration) time.Duration {
	return time.Duration(s.r.Int64N(int64(d)))
}

// happen has one random thing happen.
func (s *simulation) happen() {
	m := s.machines[s.r.IntN(len(s.machines))]
	p := m.process
	long := 3 * time.Second
	what := s.r.IntN(22)
	if s.outages && s.r.IntN(2) == 0 {
		what = 17
	}
	switch what {
	case 0:
		s.die(m)
	case 1:
		p.cancel() // it resigns
	case 2, 3:
		p.stopped = s.upTo(long)
	case 4:
		m.requestsLost = s.upTo(long)
		m.eventsHeld = m.requestsLost
	case 5:
		m.requestsLost = s.upTo(long)
	case 6:
		m.repliesLost = s.upTo(long)
	case 7:
		m.eventsHeld = s.upTo(long)
	case 8:
		s.store.stalled = s.upTo(long)
	case 9:
		m.endWatch()
	case 10, 18, 19, 20, 21:
		m.weight = float64(1 + s.r.IntN(3))
		go p.member.SetWeight(p.running, m.weight)
	case 11:
		m.suspects[s.machines[s.r.IntN(len(s.machines))].name] = s.upTo(long)
		go p.member.post(p.running, func(time.Time) {})
	case 12:
		s.start(m)
	case 14:
		m.wordsLost = s.upTo(long)
	case 15:
		m.wordsLate = s.upTo(long)
	case 16:
		s.store.stalled = s.upTo(2 * long)
	case 17: // one loses it before the others, and finds it after them
		began, over := s.within(time.Second), s.upTo(long)
		m.requestsLost = over.Add(s.within(long))
		time.AfterFunc(began, func() { s.store.stalled = over })
	case 13: // somebody takes it for dead, and starts another
		p.stopped = s.upTo(long)
		s.launch(m)
	}
}

// backup keeps what the store has, or sets it back to what it had, or to nothing: then all watches end.
func (s *simulation) backup() {
	switch r := s.setBack; {
	case r == nil:
	case r.IntN(8) == 0:
		s.backups = append(s.backups, s.store.clone())
	case r.IntN(15) == 0:
		s.store.simState = s.backups[r.IntN(len(s.backups))].clone()
		for _, m := range s.machines {
			m.endWatch()
		}
	}
}

// jump has a machine's clock jump, as that of a virtual machine does that was paused, restored or moved.
func (s *simulation) jump() {
	if r := s.jumps; r != nil && r.IntN(10) == 0 {
		c := s.machines[r.IntN(len(s.machines))].clock
		c.base = c.base.Add(time.Duration(r.Int64N(int64(6*time.Second))) - 3*time.Second)
		c.jumps++
	}
}

func (m *simMachine) endWatch() {
	close(m.breakWatch)
	m.breakWatch = make(chan struct{})
}

// die kills a machine's process. Mostly somebody sees that, sometimes late; and starts it again, sometimes soon.
func (s *simulation) die(m *simMachine) {
	p := m.process
	p.kill()
	if s.r.IntN(3) > 0 && s.store.names[m.name].Process == p.number { // who sees it ends what the store has of it
		l := newLink(s.store, &m.faults, split(s.r))
		record := Record{Member: m.name, Weight: m.weight, Process: p.number, Claim: p.member.claim, Epoch: s.store.epoch}
		time.AfterFunc(s.within([]time.Duration{100 * time.Millisecond, 2500 * time.Millisecond}[s.r.IntN(2)]), func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_ = End(ctx, l, record)
		})
	}
	time.AfterFunc(s.within(2*time.Second), func() { s.start(m) })
}

// heal ends all faults, and all processes that another was started beside.
func (s *simulation) heal() {
	now := time.Now()
	for _, p := range s.processes {
		if p != p.machine.process && !p.dead {
			p.kill()
		}
	}
	s.store.stalled = now
	for _, m := range s.machines {
		m.faults, m.wordFaults = faults{breakWatch: m.breakWatch}, wordFaults{}
		clear(m.suspects)
		m.process.stopped = now
		s.start(m)
	}
}

const (
	simFaults = 24 * time.Second
	// A process that is just ending resigns for a lease, starts again within two seconds, and has to renew for a lease without
	// a gap; and any of them stands still now and then.
	simSettle = 8 * time.Second
)

// run simulates, and returns what is wrong.
func (s *simulation) run() error {
	for _, m := range s.machines {
		s.start(m)
	}
	for end := time.Now().Add(simFaults); time.Now().Before(end); {
		time.Sleep(s.within(300 * time.Millisecond))
		s.happen()
		s.backup()
		s.jump()
	}
	time.Sleep(2 * time.Second) // until what is to start again has started
	s.heal()
	time.Sleep(simSettle)
	err := s.settled()
	s.over = true
	for _, p := range s.processes {
		p.cancel()
	}
	for _, p := range s.processes {
		<-p.ended
		p.gate.end()
	}
	if overlap := s.disjoint(); overlap != nil {
		return overlap
	}
	return errors.Join(s.counted(), err)
}

// simulate runs one seed in a bubble.
func simulate(t *testing.T, seed uint64, plant func(*simulation, *Member)) (s *simulation, err error) {
	t.Helper()
	if race {
		t.Skip("the simulated world has no locks, because in simulated time one thing happens at an instant: the race detector cannot know")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what happens at one instant mostly happens in the same order again
	synctest.Test(t, func(*testing.T) {
		s = newSimulation(seed, plant)
		err = s.run()
	})
	if err != nil {
		err = fmt.Errorf("seed %d: %w", seed, err)
	}
	return s, err
}
