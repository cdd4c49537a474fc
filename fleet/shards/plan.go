// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
)

// Plan assigns all shards to members, which must pass Check. Whom a shard suits best is found by weighted rendezvous (Wang
// and Ravishankar; with weights, Schindelhauer and Schomaker); nobody gets more than his part, rounded up. What can stay as
// it was in the assignment before stays, and else what was to be: when a member goes only its shards move, and one that comes takes its part of
// each other's. Pins go before parts. Before may be nil.
func Plan(members []Member, before *Assignment) *Assignment { return plan(members, before, nil) }

// plan is Plan with shards that stay where they are before all others.
func plan(members []Member, before *Assignment, stay map[Shard]bool) *Assignment {
	members = slices.SortedFunc(slices.Values(members), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	p, a := newPlanner(members), &Assignment{Members: members}
	if before != nil {
		a.Pins = before.Pins
	}
	for s := range stay {
		p.fixed[s] = true
	}
	p.assign(before, &a.Owner)
	a.Successor = p.successors(a)
	return a
}

// classes are kinds of shards that are divided each for itself.
var classes = [][2]int{{0, Hosts}, {Hosts, Count}}

// planner has what a plan for certain members needs.
type planner struct {
	members []Member
	score   []*[Count]float64 // of each member for each shard: the higher, the better it suits
	fixed   *[Count]bool      // shards that stay with whom they are
}

func newPlanner(members []Member) *planner {
	p := &planner{members, make([]*[Count]float64, len(members)), new([Count]bool)}
	for i, m := range members {
		p.score[i] = scores(m)
	}
	return p
}

// scores are a member's for all shards: its weight divided by an exponentially distributed number made of its name and the
// shard.
func scores(m Member) *[Count]float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.Name)) // a hash takes everything
	name, all := h.Sum64(), new([Count]float64)
	for s := range all {
		uniform := (float64(mixed(name+uint64(s)*golden)>>11) + 0.5) / (1 << 53)
		all[s] = m.Weight / -math.Log(uniform)
	}
	return all
}

// mixed has all bits of a number depend on all others (SplitMix64's finalizer).
func mixed(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// assign fills in the owners.
func (p *planner) assign(before *Assignment, owner *[Count]int8) {
	index := map[string]int8{}
	for i, m := range p.members {
		if m.Weight > 0 {
			index[m.Name] = int8(i)
		}
	}
	for s := range owner {
		owner[s] = Nobody
		if before != nil {
			for _, name := range []string{before.MeantFor(Shard(s)), before.OwnerOf(Shard(s))} { // it need not pass
				if i, ok := index[name]; ok {
					owner[s] = i
				}
			}
			if i, ok := index[before.Pins[Shard(s)]]; ok {
				owner[s], p.fixed[s] = i, true
			}
		}
	}
	for _, class := range classes {
		p.divide(owner, class[0], class[1])
	}
}

// divide assigns the shards from first to end that have no owner, and then moves as few as bring each member up to its
// part, rounded down.
func (p *planner) divide(owner *[Count]int8, first, end int) {
	held := make([]int, len(p.members))
	for s := first; s < end; s++ {
		if o := owner[s]; o != Nobody {
			held[o]++
		}
	}
	parts := p.parts(end-first, held)
	for i := range p.members {
		for held[i] > parts[i].most {
			s := p.worst(owner, first, end, int8(i))
			if s < 0 {
				break // all are pinned
			}
			owner[s] = Nobody
			held[i]--
		}
	}
	for s := first; s < end; s++ {
		if owner[s] == Nobody {
			owner[s] = p.best(s, func(i int) bool { return held[i] < parts[i].target })
			held[owner[s]]++
		}
	}
	for i := range p.members {
		for held[i] < parts[i].least {
			s := p.given(owner, first, end, int8(i), func(from int8) bool { return held[from] > parts[from].least })
			if s < 0 {
				break // what others have beyond their parts is pinned
			}
			held[owner[s]]--
			held[i]++
			owner[s] = int8(i)
		}
	}
}

// part is how many shards of a class a member may own, and should.
type part struct{ least, target, most int }

// parts rounds the members' parts so that the targets are all there is. Who owns more than its part rounded down may
// rather keep that than another gets it.
func (p *planner) parts(all int, held []int) []part {
	total, left := 0.0, all
	for _, m := range p.members {
		total += m.Weight
	}
	parts, order := make([]part, len(p.members)), make([]int, 0, len(p.members))
	exact := func(i int) float64 { return float64(all) * p.members[i].Weight / total }
	for i, m := range p.members {
		least := int(math.Floor(exact(i)))
		parts[i] = part{least, least, int(math.Ceil(exact(i)))}
		left -= least
		if m.Weight > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(min(1, max(0, held[b]-parts[b].least)), min(1, max(0, held[a]-parts[a].least))),
			cmp.Compare(exact(b)-float64(parts[b].least), exact(a)-float64(parts[a].least)))
	})
	for k := range left {
		i := order[k%len(order)]
		parts[i].target++
		parts[i].most = max(parts[i].most, parts[i].target)
	}
	return parts
}

// best returns whom a shard suits best of those who may have it; all who have a weight if none may.
func (p *planner) best(s int, may func(member int) bool) int8 {
	best, other := Nobody, Nobody
	for i := range p.members {
		x := p.score[i][s]
		if x > 0 && (other == Nobody || x > p.score[other][s]) {
			other = i
		}
		if x > 0 && may(i) && (best == Nobody || x > p.score[best][s]) {
			best = i
		}
	}
	if best == Nobody {
		best = other
	}
	return int8(best)
}

// worst returns the shard of a member's that suits it least; -1: it has none that may go.
func (p *planner) worst(owner *[Count]int8, first, end int, member int8) int {
	worst := -1
	for s := first; s < end; s++ {
		if owner[s] == member && !p.fixed[s] && (worst < 0 || p.score[member][s] < p.score[member][worst]) {
			worst = s
		}
	}
	return worst
}

// given returns the shard that a member gets from one of those who may give: the one that suits it best beside its owner; -1: none.
func (p *planner) given(owner *[Count]int8, first, end int, to int8, may func(from int8) bool) int {
	found, most := -1, 0.0
	for s := first; s < end; s++ {
		if o := owner[s]; o != to && !p.fixed[s] && may(o) {
			if x := p.score[to][s] / p.score[o][s]; found < 0 || x > most {
				found, most = s, x
			}
		}
	}
	return found
}

// successors are who would own each shard if its owner went.
func (p *planner) successors(a *Assignment) (successor [Count]int8) {
	for s := range successor {
		successor[s] = Nobody
	}
	for gone, m := range p.members {
		rest := p.without(gone)
		if m.Weight == 0 || Check(rest.members) != nil {
			continue
		}
		var next [Count]int8
		rest.assign(a, &next)
		for s := range successor {
			if a.Owner[s] == int8(gone) {
				successor[s] = next[s]
			}
		}
	}
	return successor
}

// without returns a planner that gives one member nothing.
func (p *planner) without(member int) *planner {
	rest := &planner{slices.Clone(p.members), slices.Clone(p.score), new([Count]bool)}
	rest.members[member].Weight = 0
	rest.score[member] = new([Count]float64)
	return rest
}
