// SPDX-License-Identifier: Apache-2.0

package lease

import "time"

// mayForward returns what a process may forward at most, if it has not fallen silent: what the assignment of its last
// record gives it. Before it sent that record it closed all else, and it opens a shard only after a renewal with the
// assignment that gives it; all renewals with other assignments than the newest have been seen, because the store has
// refused such since the newest was committed.
func (v *view) mayForward(p *process) *set {
	if a := v.history[p.Epoch]; a != nil {
		return a.to(p.Member)
	}
	return &everything
}

// blocked returns the shards that processes other than own may still forward though the newest assignment gives them to
// own, and when to ask again, which is zero if only an event can change that.
func (v *view) blocked(own identity, now time.Time) (out set, again time.Time) {
	wait := func(from time.Time, s *set) {
		if s.empty() {
			return
		}
		out.unite(s)
		if t := from.Add(v.config.silence() + 1); again.IsZero() || t.Before(again) {
			again = t
		}
	}
	if !v.live {
		return everything, again
	}
	if now.Sub(v.began) <= v.config.silence() {
		wait(v.began, &everything)
	}
	for id, p := range v.processes {
		switch {
		case id == own || p.Ended || v.silent(p, now):
		case id.member == own.member:
			wait(p.seen, &everything) // both would forward the same shards by the same assignment
		case p.Epoch != v.epoch:
			wait(p.seen, v.mayForward(p))
		}
	}
	return out, again
}
