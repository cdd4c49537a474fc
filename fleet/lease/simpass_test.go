// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/fleet/shards"
)

// errLostCount is what the one who has a shard now must not do: send what another has sent already, or what it cannot know of.
var errLostCount = errors.New("what was forwarded of a shard is not known for all that is kept of it")

// simLeft is what a process has noted of shards that it left.
type simLeft struct {
	began, closed time.Time
	all           []shards.Shard
}

// simPass is a process's part in shards that pass.
type simPass struct {
	leaving simLeft
	held    map[shards.Shard]time.Time // since when it keeps what comes of these
	passed  int                        // shards that it opened with what it kept
	unable  bool                       // it can hold nothing
	stayed  int                        // times that it was told so of what it left
	lossy   int                        // shards that it closed though their successors had not said that they hold them
	here    map[shards.Shard]bool      // of held those that hosts reach here
	lost    int                        // of those it has dropped
	early   int                        // shards that it closed while hosts reached them here
	wrong   error
}

// Leave implements Gate.
func (p *simProcess) Leave(all []shards.Shard) bool {
	p.stand(p.gateRng)
	p.pass.leaving = simLeft{began: time.Now(), all: all}
	return true
}

// Stay implements Gate.
func (p *simProcess) Stay(all []shards.Shard, _ []string) {
	p.stand(p.gateRng)
	p.pass.stayed++
	p.pass.leaving.all = slices.DeleteFunc(slices.Clone(p.pass.leaving.all), func(s shards.Shard) bool { return slices.Contains(all, s) })
	p.stand(p.gateRng)
}

// Left implements Gate.
func (p *simProcess) Left(late []string) Forwarded {
	l := p.pass.leaving
	if len(late) > 0 {
		p.pass.lossy += len(l.all)
	}
	for _, s := range l.all {
		if len(late) == 0 && p.sim.reached[s] == p {
			p.pass.early++
		}
	}
	p.Close(l.all)
	l.closed = time.Now()
	p.sim.lefts = append(p.sim.lefts, l)
	return binary.LittleEndian.AppendUint64(nil, uint64(len(p.sim.lefts)-1))
}

// Hold implements Gate.
func (p *simProcess) Hold(all []shards.Shard) bool {
	p.stand(p.gateRng)
	if p.pass.unable || p.gateRng.IntN(50) == 0 && !p.sim.quiet {
		return false
	}
	for _, s := range all {
		p.pass.held[s] = time.Now()
	}
	return true
}

// Attract implements Gate.
func (p *simProcess) Attract(all []shards.Shard) {
	p.stand(p.gateRng)
	for _, s := range all {
		if p.pass.held[s].IsZero() {
			p.pass.wrong = fmt.Errorf("%w: hosts are to reach %v at %s/%d, which does not hold it", errLostCount, s, p.machine.name, p.number)
		}
		p.pass.here[s], p.sim.reached[s] = true, p
	}
}

// Drop implements Gate.
func (p *simProcess) Drop(all []shards.Shard) {
	p.stand(p.gateRng)
	for _, s := range all {
		if p.pass.here[s] {
			p.pass.lost++
		}
		delete(p.pass.held, s)
		delete(p.pass.here, s)
	}
}

// openHeld checks that all that comes from when a shard was held was noted by who forwarded it until then.
func (p *simProcess) openHeld(all []shards.Shard, forwarded Forwarded) {
	if forwarded != nil {
		const late = DefaultLease / 50 * 99 / 100 // by the true time, of a clock that drifts
		l := p.sim.lefts[binary.LittleEndian.Uint64(forwarded)]
		for _, s := range all {
			since, holds := p.pass.held[s]
			if !holds || since.Sub(l.began) < late || !slices.Contains(l.all, s) {
				p.pass.wrong = fmt.Errorf("%w: %s/%d holds %v since %v, another left it from %v to %v", errLostCount, p.machine.name, p.number, s,
					p.sim.since(since), p.sim.since(l.began), p.sim.since(l.closed))
			}
		}
		p.pass.passed += len(all)
	}
	for _, s := range all {
		delete(p.pass.held, s)
		delete(p.pass.here, s)
		p.sim.reached[s] = p
	}
}

// counted returns what is wrong with shards that passed.
func (s *simulation) counted() error {
	for _, p := range s.processes {
		if p.pass.wrong != nil {
			return p.pass.wrong
		}
	}
	return nil
}
