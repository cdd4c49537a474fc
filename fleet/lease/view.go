// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"causeway/fleet/shards"
)

// identity is one start of a member.
type identity struct {
	member  string
	process uint64
}

// process is what was seen of one start of a member.
type process struct {
	Record
	seen  time.Time // when its last record came
	since time.Time // when the first of those came that came without a gap
}

// assignment is one with the shards of each member.
type assignment struct {
	*shards.Assignment
	follows Epoch
	given   map[string]*set
	passes  map[string]map[string]*set // by the names of owners and successors
}

func newAssignment(a *shards.Assignment, follows Epoch) *assignment {
	sets := make([]set, len(a.Members))
	for s, o := range a.Owner {
		if o != shards.Nobody {
			sets[o].add(shards.Shard(s))
		}
	}
	given := map[string]*set{}
	for i, m := range a.Members {
		given[m.Name] = &sets[i]
	}
	passes := map[string]map[string]*set{}
	for s, passing := range a.Passing {
		if !passing {
			continue
		}
		owner, successor := a.OwnerOf(shards.Shard(s)), a.SuccessorOf(shards.Shard(s))
		if passes[owner] == nil {
			passes[owner] = map[string]*set{}
		}
		if passes[owner][successor] == nil {
			passes[owner][successor] = &set{}
		}
		passes[owner][successor].add(shards.Shard(s))
	}
	return &assignment{a, follows, given, passes}
}

// passing returns what one member is to pass to another.
func (a *assignment) passing(owner, successor string) *set {
	if s := a.passes[owner][successor]; s != nil {
		return s
	}
	return &set{}
}

// to returns what an assignment gives a member.
func (a *assignment) to(member string) *set {
	if s := a.given[member]; s != nil {
		return s
	}
	return &set{}
}

// view is what a member saw of the store, with the times of its own clock. It belongs to the member's goroutine.
type view struct {
	config    *Config
	epoch     Epoch                 // the newest
	history   map[Epoch]*assignment // those that some process may still follow, and the newest
	processes map[identity]*process
	// began is when all had come that this watch begins with. A record that another had taken the place of before is unknown.
	began    time.Time
	live     bool // it has
	assigned bool // an assignment has come since the watch began
}

func newView(c *Config) *view {
	none := &assignment{Assignment: &shards.Assignment{}}
	return &view{config: c, history: map[Epoch]*assignment{{}: none}, processes: map[identity]*process{}}
}

func (v *view) newest() *assignment { return v.history[v.epoch] }

// restarted has what comes now be from another watch: between the last one and it anything may have happened, and the store may
// have been set back, or be another one.
func (v *view) restarted() { v.live, v.assigned = false, false }

// saw takes an event in.
func (v *view) saw(e Event, now time.Time) {
	switch {
	case e.Note != nil:
		return
	case e.Complete:
		v.live, v.began = true, now
		if !v.assigned {
			v.epoch = Epoch{}
		}
		return
	case e.Assignment != nil:
		v.epoch, v.assigned = e.Epoch, true
		v.history[e.Epoch] = newAssignment(e.Assignment, e.Follows)
		v.forget(now)
		return
	}
	id := identity{e.Record.Member, e.Record.Process}
	p := v.processes[id]
	if p == nil {
		p = &process{since: now}
		v.processes[id] = p
	}
	if !p.seen.IsZero() && now.Sub(p.seen) > v.config.Lease {
		p.since = now
	}
	ended := p.Ended // what it sent before it ended may come later
	p.Record, p.seen = e.Record, now
	p.Ended = p.Ended || ended
}

// doubt has all that was seen be seen now, by a clock that may have jumped.
func (v *view) doubt(now time.Time) {
	v.began = now
	for _, p := range v.processes {
		p.seen, p.since = now, now
	}
}

// there are the members of which a process has not ended or fallen silent.
func (v *view) there(now time.Time) map[string]bool {
	names := map[string]bool{}
	for id, p := range v.processes {
		if !p.Ended && !v.silent(p, now) {
			names[id.member] = true
		}
	}
	return names
}

// silent reports whether a process's lease has run out for certain, if no renewal of it was committed after those seen.
func (v *view) silent(p *process, now time.Time) bool {
	return now.Sub(p.seen) > v.config.silence()
}

// nextSilence returns when the next process falls silent if it is not seen until then; zero: none can.
func (v *view) nextSilence(now time.Time) (next time.Time) {
	for _, p := range v.processes {
		if p.Ended || v.silent(p, now) {
			continue
		}
		if t := p.seen.Add(v.config.silence() + 1); next.IsZero() || t.Before(next) {
			next = t
		}
	}
	return next
}

// forget drops the processes that were silent for long, and the assignments that nobody follows any more.
func (v *view) forget(now time.Time) {
	oldest := v.epoch.Number
	maps.DeleteFunc(v.processes, func(_ identity, p *process) bool {
		if now.Sub(p.seen) > 10*v.config.silence() {
			return true
		}
		if !p.Ended && !v.silent(p, now) {
			oldest = min(oldest, p.Epoch.Number)
		}
		return false
	})
	maps.DeleteFunc(v.history, func(e Epoch, _ *assignment) bool { return e.Number > 0 && e.Number < oldest })
}

// alive returns the members that a plan is to have, by name: those of which some process renewed lately and that
// nobody suspects. One that the newest assignment does not have must have renewed for one lease without a gap, so
// that one that comes and goes does not take shards along each time. Unanimous: all of them would go on by promises.
func (v *view) alive(now time.Time) (all []shards.Member, unanimous bool) {
	newest := v.newest()
	var found []*process
	for _, p := range v.processes {
		switch {
		case p.Ended || v.silent(p, now):
			continue
		case now.Sub(p.seen) > v.config.quiet() && v.config.Suspect(p.Member):
			p.since = now
			continue
		}
		if _, has := newest.given[p.Member]; has || now.Sub(p.since) >= v.config.Lease {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *process) int { return cmp.Or(cmp.Compare(a.Member, b.Member), b.seen.Compare(a.seen)) })
	unanimous = len(found) > 0
	for _, p := range found {
		unanimous = unanimous && p.Unanimous
		if n := len(all); n == 0 || all[n-1].Name != p.Member { // of two processes, the one seen last counts
			all = append(all, shards.Member{Name: p.Member, Weight: p.Weight})
		}
	}
	return all, unanimous
}
