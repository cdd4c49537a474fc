// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/config"
)

func (o *other) there(now time.Time) bool {
	return !o.answered.IsZero() && now.Sub(o.answered) < lasting
}

// names reports whether the bridge may be beside another one, as far as its own configuration goes.
func (r *Rivals) names(o *other) bool { return namesIn(r.cfg.InForce(), o.last.name, o.last.fleet) }

func namesIn(cfg *config.Config, name, fleet string) bool {
	return name != "" && slices.Contains(cfg.Beside, name) || fleet != "" && slices.Contains(cfg.Beside, fleet)
}

// allowed reports whether each names the other.
func (r *Rivals) allowed(o *other) bool { return o.last.flags&allows != 0 && r.names(o) }

// apart reports whether two that may be beside each other have nothing in common.
func (r *Rivals) apart(o *other) bool { return r.allowed(o) && o.complete && len(o.overlap) == 0 }

// isMember reports whether another one says that it is of the bridge's own fleet, which its record does not yet.
func (r *Rivals) isMember(o *other) bool {
	return r.cfg.Fleet != "" && o.last.fleet == r.cfg.Fleet && o.last.came == r.self.Fleet.Founded
}

// cameAt orders those that come at once.
func cameAt(now time.Time) uint64 { return uint64(now.UnixNano()) }

// before reports whether another one was there before the bridge.
func (r *Rivals) before(o *other) bool {
	return cmp.Or(cmp.Compare(o.last.came, r.came), cmp.Compare(o.Instance, r.cfg.Instance)) < 0
}

// looks reports whether it is not known yet who is there. It ends, whoever is listed anew.
func (r *Rivals) looks(now time.Time) bool {
	since := now.Sub(r.began)
	if !r.self.Listed && since < lookList {
		return true
	}
	for _, o := range r.all {
		if o.answered.IsZero() && now.Sub(o.found) < look && since < lookList+look {
			return true
		}
	}
	return false
}

// judge decides whether the bridge carries what it has. Who carries goes on, unless another one was there before it.
func (r *Rivals) judge(now time.Time) {
	switch {
	case r.changing:
		return
	case !r.self.Wants && r.cfg.Fleet != "" && r.free: // it may have shards to pass
		r.set(true, "", now)
		return
	case !r.self.Wants:
		r.began, r.settled = now, r.free // and when it came, if it is back
		if r.cfg.Fleet == "" {
			r.came = cameAt(now)
		}
		r.set(false, r.away(), now)
		return
	case !r.free && r.looks(now):
		return
	case r.cfg.Fleet != "":
		r.came = r.self.Fleet.Founded
	}
	first := r.rival(now)
	r.settled = true
	if first == nil {
		r.first = 0
		r.set(true, "", now)
		return
	}
	why := r.reason(first)
	if r.first != first.Instance {
		r.cfg.Log.Warn("rival_first", "note", why)
	}
	r.first = first.Instance
	r.set(false, why, now)
}

// away is why a bridge that wants nothing carries nothing: an operator has drained it. One of a fleet has not begun.
func (r *Rivals) away() string {
	if r.cfg.Fleet != "" {
		return looking
	}
	return ""
}

// rival returns the first of those because of which the bridge may not carry anything; nil: it may.
func (r *Rivals) rival(now time.Time) (first *other) {
	for _, o := range r.all {
		is := o.last.flags
		if !o.there(now) || is&(wants|carries) == 0 || r.apart(o) || r.isMember(o) {
			continue
		}
		if !r.free && is&carries != 0 && r.cfg.Fleet == "" {
			r.came = max(r.came, o.last.came+1)
		}
		if r.free && is&fresh != 0 || !r.before(o) && (r.free || is&carries == 0) {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(o.last.came, first.last.came), cmp.Compare(o.Instance, first.Instance)) < 0 {
			first = o
		}
	}
	return first
}

// set has the bridge carry what it has, or nothing. That takes time, in which others are answered.
func (r *Rivals) set(free bool, why string, now time.Time) {
	if r.free != free {
		r.changing = true
		go func() { r.changed <- r.cfg.Bar(!free) }()
		if free {
			return // Why says why it does not until it does
		}
	}
	r.publish(why, now)
}

// settle takes what became of the change.
func (r *Rivals) settle(err error) {
	r.changing = false
	if err != nil {
		r.publish("it cannot change what it carries: "+err.Error(), time.Now())
		return // it is tried again
	}
	if r.free = !r.free; r.free {
		r.publish("", time.Now())
	}
}

// publish has operators know.
func (r *Rivals) publish(why string, now time.Time) {
	report := r.others(now)
	r.mu.Lock()
	before, told := r.why, r.report
	r.why, r.report = why, report
	r.mu.Unlock()
	if r.free && why == "" && before != "" && before != looking {
		r.cfg.Log.Info("rival_gone", "note", "the bridge carries what it has")
	}
	for _, o := range report {
		if o.yields && !slices.ContainsFunc(told, func(x Other) bool { return x.Instance == o.Instance && x.yields }) {
			r.cfg.Log.Warn("rival_yields", "note", o.yielding())
		}
	}
}

// others is what operators see of them.
func (r *Rivals) others(now time.Time) (all []Other) {
	const named = 5
	for i, o := range r.all {
		if !o.there(now) || r.isMember(o) {
			continue
		}
		x := Other{Instance: i, Name: o.last.name, Fleet: o.last.fleet, Carries: o.last.flags&carries != 0, Beside: r.allowed(o)}
		if x.Beside && o.complete {
			x.claims, x.Overlap = o.claims, o.overlap.named(named)
		}
		x.yields = r.free && o.last.flags&wants != 0 && !x.Carries && !r.apart(o) && (!x.Beside || o.complete)
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Other) int { return cmp.Compare(a.Instance, b.Instance) })
	return all
}

// who names another bridge, whose names are what it says.
func (o *Other) who() string {
	s := "bridge " + strconv.Quote(o.Name)
	if o.Fleet != "" {
		s += " of fleet " + strconv.Quote(o.Fleet)
	}
	return s
}

func (o *Other) yielding() string {
	return o.who() + " is between the same two fabrics, came after this one, and carries nothing while this one is there"
}

// reason says why the bridge carries nothing, and what to do.
func (r *Rivals) reason(o *other) string {
	x := Other{Name: o.last.name, Fleet: o.last.fleet}
	is := fmt.Sprintf("%s (%v) is between the same two fabrics and came before this one", x.who(), o.GIDs[0])
	switch {
	case r.allowed(o) && !o.complete:
		return is + "; it is being asked what it carries"
	case r.allowed(o):
		return fmt.Sprintf("%s, and both carry %s: take it out of one of them", is, strings.Join(o.overlap.named(3), ", "))
	case r.names(o):
		return fmt.Sprintf("%s, and does not name this one: write [bridge] beside = [%q] there", is, cmp.Or(r.cfg.Fleet, r.cfg.Name))
	}
	if x.Name == r.cfg.Name && x.Fleet == "" {
		return is + ": every message would arrive twice. Stop one, or give each a [bridge] name of its own, and make them one fleet"
	}
	fleet := "make them one fleet"
	if o.last.fleet != "" && r.cfg.Fleet != "" {
		fleet = fmt.Sprintf("give them one [fleet] name (this one's is %q)", r.cfg.Fleet)
	}
	return fmt.Sprintf("%s: every message would arrive twice. Stop one, or %s; or, where their groups and nodes differ, write [bridge] beside = [%q] here, and [%q] there",
		is, fleet, cmp.Or(o.last.fleet, o.last.name), cmp.Or(r.cfg.Fleet, r.cfg.Name))
}

// Yields says who carries nothing because of the bridge; "": nobody. nil says "".
func (r *Rivals) Yields() string {
	for _, o := range r.Others() {
		if o.yields {
			return o.yielding()
		}
	}
	return ""
}

// Check returns why the bridge cannot change from one configuration to another: one that it is beside has something that it would have
// anew. nil knows none.
func (r *Rivals) Check(now, to *config.Config) error {
	for _, o := range r.Others() {
		if !o.Beside || !namesIn(to, o.Name, o.Fleet) {
			continue
		}
		const named = 5
		had := of(now)
		anew := slices.DeleteFunc(of(to).overlap(o.claims), func(c claim) bool { return slices.Contains(had, c) })
		if len(anew) > 0 {
			return fmt.Errorf("%s, which this one is beside, carries this, too: %s", o.who(), strings.Join(anew.named(named), ", "))
		}
	}
	return nil
}
