// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"causeway/fleet/shards"
)

// simClock runs at its own rate, from its own origin.
type simClock struct {
	start time.Time
	base  time.Time
	rate  float64
	jumps int // of it, by which it has run apart from the TSC, by which gates close
}

func (c *simClock) local() time.Time {
	return c.base.Add(time.Duration(float64(time.Since(c.start)) * c.rate))
}

// trueTime returns the true time at which the clock shows t.
func (c *simClock) trueTime(t time.Time) time.Time {
	return c.start.Add(time.Duration(float64(t.Sub(c.base)) / c.rate))
}

// simProcess is a start of a member: its clock, its gate, and whether it stands still or is dead.
type simProcess struct {
	*simClock
	machine  *simMachine // where it runs
	number   uint64
	member   *Member
	running  context.Context
	cancel   context.CancelFunc
	ended    chan struct{} // closed when Run has returned
	dead     bool
	killed   chan struct{}
	stopped  time.Time // it stands still before
	clockRng *rand.Rand
	gateRng  *rand.Rand
	gate     gateHistory
	jumps    int // of the clock, that the process knows of
	pass     simPass
	sim      *simulation
}

// where is as in Record.
func (p *simProcess) where() string { return strconv.FormatUint(p.number, 10) }

// stand is where a process can be preempted, stopped or killed: it passes each time that it asks the clock, the store or the
// gate something, or is answered.
func (p *simProcess) stand(r *rand.Rand) {
	if !p.dead && r.IntN(400) == 0 && !p.sim.quiet {
		time.Sleep(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
	}
	for !p.dead && time.Now().Before(p.stopped) {
		time.Sleep(time.Until(p.stopped) + time.Duration(r.Int64N(1e5)))
	}
	if p.dead {
		runtime.Goexit()
	}
}

// Now implements Clock.
func (p *simProcess) Now() time.Time {
	p.stand(p.clockRng)
	t := p.local()
	p.stand(p.clockRng)
	return t
}

// Agree implements Clock.
func (p *simProcess) Agree() bool {
	known := p.jumps
	p.jumps = p.simClock.jumps
	return known == p.jumps
}

// After implements Clock.
func (p *simProcess) After(d time.Duration) <-chan time.Time {
	return time.After(time.Duration(float64(d)/p.rate) + 1)
}

// Open implements Gate.
func (p *simProcess) Open(all []shards.Shard, forwarded Forwarded) {
	p.stand(p.gateRng)
	p.openHeld(all, forwarded)
	p.gate.set(all, true)
}

// Close implements Gate.
func (p *simProcess) Close(all []shards.Shard) {
	p.stand(p.gateRng)
	p.gate.set(all, false)
	p.stand(p.gateRng)
}

// Until implements Gate.
func (p *simProcess) Until(deadline time.Time) {
	p.stand(p.gateRng)
	p.gate.until(p.trueTime(deadline))
}

// kill ends a process at this instant.
func (p *simProcess) kill() {
	if !p.dead {
		close(p.killed)
	}
	p.dead = true
	p.gate.end()
	p.cancel()
}

// span is from one true time to another.
type span struct{ from, to time.Time }

// gateHistory is when a gate's shards were open, and when its deadline had not passed. All shards of a word of a set are alike
// in the simulation: one of each is recorded.
type gateHistory struct {
	open  [len(set{})][]span // the last may have no end yet
	valid []span
	dead  bool
}

func (g *gateHistory) set(all []shards.Shard, open bool) {
	now := time.Now()
	for _, s := range all {
		if s%64 != 0 || g.dead {
			continue
		}
		if spans := &g.open[s/64]; open {
			*spans = append(*spans, span{from: now})
		} else {
			(*spans)[len(*spans)-1].to = now
		}
	}
}

func (g *gateHistory) until(t time.Time) {
	now := time.Now()
	if n := len(g.valid); n > 0 && !now.After(g.valid[n-1].to) {
		g.valid[n-1].to = t
	} else if t.After(now) {
		g.valid = append(g.valid, span{now, t})
	}
}

// end closes all that is open.
func (g *gateHistory) end() {
	now := time.Now()
	g.dead = true
	for i := range g.open {
		if n := len(g.open[i]); n > 0 && g.open[i][n-1].to.IsZero() {
			g.open[i][n-1].to = now
		}
	}
	if n := len(g.valid); n > 0 && g.valid[n-1].to.After(now) {
		g.valid[n-1].to = now
	}
}

// forwards returns when a shard was forwarded: open, and before the deadline.
func (g *gateHistory) forwards(word int) (all []span) {
	i := 0
	for _, o := range g.open[word] {
		for i < len(g.valid) && !g.valid[i].to.After(o.from) {
			i++
		}
		for j := i; j < len(g.valid) && g.valid[j].from.Before(o.to); j++ {
			v := g.valid[j]
			if v.from.Before(o.from) {
				v.from = o.from
			}
			if v.to.After(o.to) {
				v.to = o.to
			}
			if v.from.Before(v.to) {
				all = append(all, v)
			}
		}
	}
	return all
}
