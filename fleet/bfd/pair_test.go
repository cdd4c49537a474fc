// SPDX-License-Identifier: Apache-2.0

package bfd

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
)

const (
	fast  = 50 * time.Millisecond
	delay = 3 * time.Millisecond
	lost  = 3 * fast // the detection time of Up sessions
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func session(t testing.TB, c Config, now time.Time) *Session {
	t.Helper()
	s, err := New(c, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wire is a packet that is on its way to an end.
type wire struct {
	to   int
	at   time.Time
	data []byte
}

// pair is two sessions and what is between them, at a time of its own.
type pair struct {
	t     *testing.T
	now   time.Time
	ends  [2]*Session
	again [2]time.Time
	wires []wire
	drop  func(from int) bool
	saw   func(from int, p *layers.BFD, gap time.Duration) // what was sent, and how long after the one before; nil: nobody looks
	last  [2]time.Time
}

func newPair(t *testing.T, seed uint64, mult uint8) *pair {
	p := &pair{t: t, now: time.Unix(0, 0), drop: func(int) bool { return false }}
	for i := range p.ends {
		p.ends[i] = session(t, Config{uint32(i + 1), fast, fast, mult, random(seed + uint64(i))}, p.now)
		p.again[i] = p.now
	}
	return p
}

func (p *pair) tick(end int) {
	packet, again := p.ends[end].Tick(p.now)
	p.again[end] = again
	if packet == nil {
		return
	}
	decoded, err := decode(packet)
	if err != nil {
		p.t.Fatalf("end %d sends %x: %v", end, packet, err)
	}
	if p.saw != nil {
		p.saw(end, &decoded, p.now.Sub(p.last[end]))
	}
	p.last[end] = p.now
	if !p.drop(end) {
		p.wires = append(p.wires, wire{1 - end, p.now.Add(delay), packet})
	}
}

// run lets time pass, or less of it, until done.
func (p *pair) run(d time.Duration, done func() bool) bool {
	for end := p.now.Add(d); ; {
		if done != nil && done() {
			return true
		}
		next, i := end, -1
		for e, t := range p.again {
			if !t.IsZero() && t.Before(next) {
				next, i = t, e
			}
		}
		if len(p.wires) > 0 && !p.wires[0].at.After(next) {
			w := p.wires[0]
			p.wires, p.now = p.wires[1:], w.at
			if err := p.ends[w.to].Receive(p.now, w.data); err != nil && p.ends[w.to].state != AdminDown {
				p.t.Fatalf("end %d: %v", w.to, err)
			}
			p.tick(w.to)
			continue
		}
		p.now = next
		if i < 0 {
			return false
		}
		p.tick(i)
	}
}

func (p *pair) both(s State) func() bool {
	return func() bool { return p.ends[0].state == s && p.ends[1].state == s }
}

func (p *pair) up() {
	p.t.Helper()
	if !p.run(10*time.Second, p.both(Up)) {
		p.t.Fatalf("after 10 s the sessions are %v and %v", p.ends[0].state, p.ends[1].state)
	}
}

// TestUp: both ends come up within three messages, at the fast interval by one Poll Sequence each.
func TestUp(t *testing.T) {
	for _, mult := range []uint8{1, 3} {
		p := newPair(t, 1, mult)
		polls, finals := [2]int{}, [2]int{}
		p.saw = func(from int, b *layers.BFD, _ time.Duration) {
			if b.Poll && b.Final {
				t.Errorf("mult %d: a packet has Poll and Final", mult)
			}
			if b.State != Up && b.DesiredMinTxInterval < 1e6 {
				t.Errorf("mult %d: Desired Min TX is %d us while %v", mult, b.DesiredMinTxInterval, b.State)
			}
			if b.Poll {
				polls[from]++
			}
			if b.Final {
				finals[from]++
			}
		}
		p.up()
		if took := p.now.Sub(time.Unix(0, 0)); took > 4*delay {
			t.Errorf("mult %d: up after %v", mult, took)
		}
		p.run(10*time.Second, nil)
		for i, s := range p.ends {
			if s.poll != noPoll || polls[i] == 0 || finals[i] == 0 || polls[i] > 2 {
				t.Errorf("mult %d: end %d sent %d Polls and %d Finals; is a Poll Sequence under way? %v", mult, i, polls[i], finals[i], s.poll != noPoll)
			}
			if state, why, since := s.State(); state != Up || why != layers.BFDDiagnosticNone || since.After(time.Unix(1, 0)) || s.Remote() != Up {
				t.Errorf("mult %d: end %d is %v, %v, since %v", mult, i, state, why, since)
			}
		}
	}
}

// TestJitter: what is between periodic packets is 75 to 100 % of an interval, and at most 90 % with a Detect Mult of 1; it is
// the larger of what one end wants and the other takes.
func TestJitter(t *testing.T) {
	for _, c := range []struct {
		mult  uint8
		takes time.Duration
		most  float64
	}{{3, fast, 1}, {1, fast, 0.9}, {3, 4 * fast, 1}} {
		p := newPair(t, 2, c.mult)
		p.ends[1].config.MinRx = c.takes
		p.up()
		p.run(time.Second, nil)
		least, most := time.Hour, time.Duration(0)
		p.saw = func(from int, b *layers.BFD, gap time.Duration) {
			if from == 0 && !b.Final {
				least, most = min(least, gap), max(most, gap)
			}
		}
		p.run(100*time.Second, nil)
		part := func(d time.Duration) float64 { return float64(d) / float64(c.takes) }
		if part(least) < 0.75 || part(least) > 0.76 || part(most) > c.most || part(most) < c.most-0.01 {
			t.Errorf("mult %d, takes %v: packets are %v to %v apart", c.mult, c.takes, least, most)
		}
		if !p.both(Up)() {
			t.Errorf("mult %d, takes %v: down", c.mult, c.takes)
		}
	}
}

// TestOneWay: when one direction is lost, the end that hears nothing is down after the detection time, and the other one as
// soon as it is told. When it is back, so are they.
func TestOneWay(t *testing.T) {
	for seed := range uint64(50) {
		p := newPair(t, seed, 3)
		p.up()
		p.run(time.Second+time.Duration(seed)*7*time.Millisecond, nil)
		broken := p.now
		p.drop = func(from int) bool { return from == 0 }
		gone := func() bool { return p.ends[0].state != Up && p.ends[1].state != Up }
		if !p.run(time.Second, gone) || p.now.Sub(broken) > lost+2*delay || p.now.Sub(broken) < lost-fast {
			t.Fatalf("seed %d: %v and %v after %v", seed, p.ends[0].state, p.ends[1].state, p.now.Sub(broken))
		}
		why := fmt.Sprint(p.ends[0].diag, ", ", p.ends[1].diag)
		if why != "Neighbor Signaled Session Down, Control Detection Time Expired" {
			t.Errorf("seed %d: %s", seed, why)
		}
		if p.run(20*time.Second, func() bool { return p.ends[0].state == Up || p.ends[1].state == Up }) {
			t.Fatalf("seed %d: up one way", seed)
		}
		p.drop = func(int) bool { return false }
		if !p.run(1100*time.Millisecond, p.both(Up)) {
			t.Fatalf("seed %d: not up again: %v and %v", seed, p.ends[0].state, p.ends[1].state)
		}
	}
}

// TestLossy: with a tenth lost at random the sessions come up, go down only when three packets in turn are lost, and are up
// nearly always.
func TestLossy(t *testing.T) {
	for seed := range uint64(10) {
		p := newPair(t, seed, 3)
		r, run, longest := random(seed+100), [2]int{}, 0
		p.drop = func(from int) bool {
			if r.IntN(10) > 0 {
				run[from] = 0
				return false
			}
			run[from]++
			longest = max(longest, run[from])
			return true
		}
		p.up()
		var down time.Duration
		for range 1000 {
			if !p.both(Up)() {
				down += 100 * time.Millisecond
			}
			p.run(100*time.Millisecond, nil)
		}
		if down > 15*time.Second || longest < 3 && down > 0 {
			t.Errorf("seed %d: down for %v of 100 s; at most %d in turn were lost", seed, down, longest)
		}
	}
}

// TestNewProcess: an end that starts anew, with another discriminator, comes up with the other, who still has the old one's.
func TestNewProcess(t *testing.T) {
	p := newPair(t, 3, 3)
	p.up()
	p.run(time.Second, nil)
	p.ends[0] = session(t, Config{77, fast, fast, 3, random(9)}, p.now)
	p.again[0] = p.now
	p.wires = nil // what was for the old one
	heard := false
	p.drop = func(from int) bool { // discarded by its discriminator, as Receive would
		heard = heard || p.ends[1].remote.discriminator != 1
		return from == 1 && !heard
	}
	if !p.run(5*time.Second, func() bool { return p.both(Up)() && p.ends[1].remote.discriminator == 77 }) {
		t.Errorf("%v and %v", p.ends[0].state, p.ends[1].state)
	}
}

// TestDisable: the other end is down at once, knows that it was somebody's wish, and both stay so.
func TestDisable(t *testing.T) {
	p := newPair(t, 4, 3)
	p.up()
	p.run(time.Second, nil)
	p.ends[0].Disable(p.now)
	p.tick(0)
	if !p.run(delay, func() bool { return p.ends[1].state == Down }) || p.ends[1].Remote() != AdminDown || p.ends[1].diag != layers.BFDDiagnosticNeighborSignalDown {
		t.Errorf("the other end is %v, %v", p.ends[1].state, p.ends[1].diag)
	}
	p.run(10*time.Second, nil)
	if p.ends[0].state != AdminDown || p.ends[0].diag != layers.BFDDiagnosticAdminDown || p.ends[1].state != Down {
		t.Errorf("later %v, %v and %v", p.ends[0].state, p.ends[0].diag, p.ends[1].state)
	}
}
