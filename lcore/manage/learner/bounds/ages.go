// SPDX-License-Identifier: Apache-2.0

package bounds

import (
	"maps"
	"slices"
	"time"
)

// evictAge is how long a node must have been unused to make room for another.
const evictAge = time.Minute

// sweepTime is the time in which all nodes are looked at.
const sweepTime = 10 * time.Second

// A Step is what a node's age asks for.
type Step int

// The steps.
const (
	Keep    Step = iota
	Confirm      // ask whether it is still there
	Remove
)

// An age is when a node was last used, and known to be there.
type age struct {
	used, confirmed, asked time.Time
}

func (a *age) last() time.Time {
	if a.confirmed.After(a.used) {
		return a.confirmed
	}
	return a.used
}

// Ages are those of nodes. The zero value has none.
type Ages[K comparable] struct {
	Idle  time.Duration // a node that nothing crosses from or to, and that does not answer, goes after so long
	nodes map[K]*age
	sweep []K // to be looked at
}

// Len returns how many nodes there are.
func (a *Ages[K]) Len() int { return len(a.nodes) }

// Has reports whether there is a node.
func (a *Ages[K]) Has(k K) bool { return a.nodes[k] != nil }

// Add adds a node, or confirms that it is there.
func (a *Ages[K]) Add(k K, now time.Time) {
	if x := a.nodes[k]; x != nil {
		x.confirmed = now
		return
	}
	if a.nodes == nil {
		a.nodes = map[K]*age{}
	}
	a.nodes[k] = &age{used: now, confirmed: now}
}

// Drop removes a node.
func (a *Ages[K]) Drop(k K) { delete(a.nodes, k) }

// Due returns nodes to be looked at now; each comes every ten seconds, if Due is called that often.
func (a *Ages[K]) Due(every time.Duration) []K {
	if len(a.sweep) == 0 {
		for k := range a.nodes {
			a.sweep = append(a.sweep, k)
		}
	}
	turns := int(sweepTime / every)
	n := min(len(a.sweep), (len(a.nodes)+turns-1)/turns)
	due := a.sweep[len(a.sweep)-n:]
	a.sweep = a.sweep[:len(a.sweep)-n]
	return due
}

// Look says what to do about a node.
func (a *Ages[K]) Look(k K, used bool, now time.Time) Step {
	x := a.nodes[k]
	if x == nil {
		return Keep
	}
	if used {
		x.used = now
	}
	silent := now.Sub(x.last())
	switch {
	case silent >= a.Idle:
		return Remove
	case silent >= a.Idle/2 && now.Sub(x.asked) >= a.Idle/8:
		x.asked = now
		return Confirm
	}
	return Keep
}

// Oldest returns the node that has been unused for longest, if that is long enough to make room for another; anyAge:
// however short that is.
func (a *Ages[K]) Oldest(now time.Time, anyAge bool) (oldest K, found bool) {
	var since time.Time
	for k, x := range a.nodes {
		if (anyAge || now.Sub(x.used) >= evictAge) && (!found || x.used.Before(since)) {
			oldest, since, found = k, x.used, true
		}
	}
	return oldest, found
}

// All returns all nodes.
func (a *Ages[K]) All() []K { return slices.Collect(maps.Keys(a.nodes)) }
