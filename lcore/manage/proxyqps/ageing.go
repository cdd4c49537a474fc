// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"iter"
	"maps"
	"slices"
	"time"
)

const (
	// sweepsPerAge is how often a proxy QP is looked at before it is too old: the age is right to such a part.
	sweepsPerAge = 8
	// longestSweep is the longest time between two looks at the same proxy QP.
	longestSweep = 10 * time.Second
	// removeMost bounds how many proxy QPs end at a time: others wait for the port, too.
	removeMost = 128
)

// A sweep looks at all proxy QPs, some of them each tick.
type sweep struct {
	keys    []key // not yet looked at
	perTick int
}

// Tick looks at some proxy QPs, and ends those that nothing has crossed by for too long.
func (p *ProxyQPs) Tick(now time.Time) {
	p.promises.age(now)
	p.rates.age(now)
	if p.cfg.Idle == 0 {
		return
	}
	if len(p.sweep.keys) == 0 {
		p.sweep.begin(maps.Keys(p.proxyQPs), p.cfg.Idle, p.cfg.Every)
	}
	removed := 0
	for range min(p.sweep.perTick, len(p.sweep.keys)) {
		k := p.sweep.keys[len(p.sweep.keys)-1]
		p.sweep.keys = p.sweep.keys[:len(p.sweep.keys)-1]
		if !p.isOld(k, now, p.cfg.Idle) {
			continue
		}
		p.remove(k, "idle")
		p.count.ProxyQPsAged++
		if removed++; removed == removeMost {
			return // the rest is looked at in the next tick
		}
	}
}

// begin begins to look at these, all of them within an eighth of the age.
func (s *sweep) begin(keys iter.Seq[key], age, every time.Duration) {
	s.keys = slices.AppendSeq(s.keys, keys)
	ticks := max(1, int(min(age/sweepsPerAge, longestSweep)/every))
	s.perTick = (len(s.keys) + ticks - 1) / ticks
}
