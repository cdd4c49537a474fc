// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"fmt"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// judge chooses the active member of each destination.
//
// One is left at once when its port is down or does not reach the destination. It is left for losses, of its port or of
// the group, and for a preferred one, but not sooner than the hold-down after the last change. That its subnet manager
// is silent moves nothing that flows: it only counts when another is chosen anyway.
type judge struct {
	*state
	health    [maxPorts]health
	preferred int // a member; -1: none
	moves     map[move]int
	switches  uint64
}

const (
	tick = 5 * time.Millisecond // a port that is down is left so soon; guards end so exactly
	// So long after a change nothing is taken from the new member, unless what tells copies is known: the old one may have
	// brought what the new one has yet to bring.
	guard = 10 * time.Millisecond
	// A member that a group was lost by is avoided for so many hold-downs, even if it is preferred.
	avoidFor = 10
)

// Why a destination changes its member.
const (
	whyDown      = "port_down"
	whyNoWay     = "unreached"
	whyLosses    = "losses"
	whyGroup     = "group_losses"
	whyPreferred = "preferred"
	whyAnswered  = "answered"
)

type move struct {
	from, to int
	why      string
}

// health is what is known of a member.
type health struct {
	down  string        // why it carries nothing; "": it does
	left  chan struct{} // closed when it goes down; nil while it is
	dead  error         // its device is gone
	since time.Time
	loss  float64 // share of messages that the port lost
	lossy bool
	sm    time.Time // when its subnet administrator last answered; zero: never

	asks          bool
	silent        bool
	lost, carried uint64
}

func newJudge(s *state) *judge {
	j := &judge{state: s, preferred: -1, moves: map[move]int{}}
	for i, m := range s.cfg.Members {
		j.health[i] = health{down: m.Port.Info().Down, since: time.Now(), sm: time.Now()}
		if j.up(i) {
			j.health[i].left = make(chan struct{})
		}
	}
	return j
}

// run judges until ctx ends. each is called once a second.
func (j *judge) run(ctx context.Context, each func(now time.Time)) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case now := <-t.C:
			j.turn(n, now)
			if n%int(time.Second/tick) == 0 {
				each(now)
				j.measure(now)
			}
		case <-ctx.Done():
			return
		}
	}
}

// turn looks at all members and destinations.
func (j *judge) turn(n int, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed := j.lookAtPorts(now)
	listening := n%heardEvery == 0
	for _, d := range j.byGID {
		if !d.opens.IsZero() && !now.Before(d.opens) {
			d.opens = time.Time{}
			j.choose(d)
		}
		if listening {
			j.listen(d, n%(heardEvery*longEvery) == 0)
		}
		if changed || listening {
			j.placeAt(d, now)
		}
	}
	j.say()
}

// lookAtPorts reads the ports' states. The caller holds the lock.
func (j *judge) lookAtPorts(now time.Time) (changed bool) {
	for i, m := range j.cfg.Members {
		h := &j.health[i]
		down := m.Port.Info().Down
		if h.dead != nil {
			down = h.dead.Error()
		}
		if (down == "") == (h.down == "") {
			continue
		}
		h.down, h.since, changed = down, now, true
		if down != "" {
			close(h.left)
			h.left = nil
			j.cfg.Log.Warn("ib_path_down", "port", m.Name, "fabric", m.Fabric, "note", down)
		} else {
			h.left = make(chan struct{})
			j.cfg.Log.Info("ib_path_up", "port", m.Name, "fabric", m.Fabric)
		}
	}
	return changed
}

// whileUp returns a context that ends when a member goes down.
func (j *judge) whileUp(ctx context.Context, member int) (context.Context, context.CancelFunc) {
	j.mu.Lock()
	left := j.health[member].left
	j.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-left:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (j *judge) up(member int) bool { return j.health[member].down == "" }

// settle ends the time in which the first ways are found, and the first member of the file among them is chosen. The
// caller holds the lock.
func (d *destination) settle() { d.settled = d.settled || d.current >= 0 }

// place chooses a member for a destination whose ways have changed. The caller holds the lock.
func (j *judge) place(d *destination) {
	j.placeAt(d, time.Now())
	j.choose(d)
	j.say()
}

func (j *judge) placeAt(d *destination, now time.Time) {
	to, why := j.best(d, now)
	if to != d.current {
		j.moveTo(d, to, why, now)
	} else if d.rule.Mode == Both {
		j.choose(d) // members that are down are left out
	}
}

// best returns the member that a destination should use, and why if it is another one.
func (j *judge) best(d *destination, now time.Time) (member int, why string) {
	current := d.current
	switch {
	case !d.settled:
		return j.candidate(d, -1), whyNoWay
	case current < 0 || !d.has(current):
		return j.candidate(d, current), whyNoWay
	case !j.up(current):
		if to := j.candidate(d, current); to >= 0 && j.up(to) {
			return to, whyDown
		}
		return current, ""
	case !d.changed.IsZero() && now.Sub(d.changed) < j.cfg.HoldDown:
		return current, ""
	}
	if j.health[current].lossy {
		if to := j.candidate(d, current); to >= 0 && j.up(to) && !j.health[to].lossy {
			return to, whyLosses
		}
	}
	if d.view.group && d.rule.Mode == Active {
		if to := j.missing(d); to >= 0 {
			d.listening.avoid[current] = now.Add(avoidFor * j.cfg.HoldDown)
			return to, whyGroup
		}
	}
	if p := j.preferred; p >= 0 && p != current && j.mayReturn(d, p, now) {
		return p, whyPreferred
	}
	return current, ""
}

// mayReturn reports whether a preferred member is good again for a destination.
func (j *judge) mayReturn(d *destination, member int, now time.Time) bool {
	h := &j.health[member]
	return d.has(member) && j.up(member) && !h.lossy && !h.silent && !h.sm.Before(h.since) && now.Sub(h.since) >= j.cfg.HoldDown && now.After(d.listening.avoid[member])
}

// candidate returns the best member but one; -1: none reaches the destination.
func (j *judge) candidate(d *destination, but int) int {
	best, rank := -1, -1
	for i := range j.cfg.Members {
		if i == but || !d.has(i) {
			continue
		}
		r := 0
		for k, good := range []bool{i == j.preferred, !j.health[i].silent, !j.health[i].lossy, j.up(i)} {
			if good {
				r |= 1 << k
			}
		}
		if r > rank {
			best, rank = i, r
		}
	}
	return best
}

// moveTo changes the active member. The caller holds the lock.
func (j *judge) moveTo(d *destination, to int, why string, now time.Time) {
	from := d.current
	d.current = to
	if from >= 0 && d.settled {
		d.changed = now
		if d.view.group && d.rule.Mode == Active && d.rule.Tell == TellNothing {
			d.opens = now.Add(guard)
		}
		if to >= 0 {
			d.listening.moved(to)
			j.switches++
			j.moves[move{from, to, why}]++
		}
	}
	j.choose(d)
}

// choose tells workers which members a destination uses. The caller holds the lock.
func (j *judge) choose(d *destination) {
	var c choice
	if d.current >= 0 {
		c.send = bit(d.current)
		if d.opens.IsZero() {
			c.take = bit(d.current)
		}
	}
	if d.view.group {
		c.tell = d.rule.Tell
		if d.rule.Mode == Both {
			c.send, c.take = j.both(d)
		}
	}
	if c != d.chosen {
		d.chosen = c
		j.tables.choose(d.number, c)
	}
}

// both sends by all that are up, and takes from all: what one that is down still has is not lost.
func (j *judge) both(d *destination) (send, take uint8) {
	for i := range j.cfg.Members {
		if d.has(i) {
			take |= bit(i)
			if j.up(i) {
				send |= bit(i)
			}
		}
	}
	return send, take
}

// say logs changes, one line for all destinations that made the same one. The caller holds the lock.
func (j *judge) say() {
	for m, n := range j.moves {
		j.cfg.Log.Warn("ib_path_switched", "from", j.cfg.Members[m.from].Name, "to", j.cfg.Members[m.to].Name, "why", m.why, "destinations", n)
	}
	clear(j.moves)
}

// Prefer makes a member the preferred one, and all destinations that it reaches use it at once; "": none is preferred,
// and nothing changes.
func (j *judge) Prefer(name string) error {
	member := slices.IndexFunc(j.cfg.Members, func(m Member) bool { return m.Name == name })
	if member < 0 && name != "" {
		names := make([]string, len(j.cfg.Members))
		for i, m := range j.cfg.Members {
			names[i] = m.Name
		}
		return fmt.Errorf("multipath: there is no port %q; the ports are %q", name, names)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if member >= 0 && !j.up(member) {
		return fmt.Errorf("multipath: port %s is down: %s", name, j.health[member].down)
	}
	j.preferred = member
	for _, d := range j.byGID {
		if member >= 0 && d.current >= 0 && d.current != member && d.has(member) {
			d.listening.avoid[member] = time.Time{}
			j.moveTo(d, member, whyPreferred, time.Now())
		}
	}
	j.say()
	return nil
}

// Gone says that a member's device is lost. It returns whether another one is left.
func (j *judge) Gone(name string, err error) (others bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, m := range j.cfg.Members {
		if m.Name == name {
			j.health[i].dead = err
		}
		others = others || j.health[i].dead == nil
	}
	return others
}

// answeredBy has a node's messages go by the member that a service has answered by: its queue pair is of that fabric. was is
// the member that they went by when it was asked. If they go by another one than either now, a preference or a loss has
// overtaken the answer, which is of no use by another fabric: then it returns false.
func (j *judge) answeredBy(gid ib.GID, member, was int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.byGID[gid]
	switch {
	case d == nil || d.current == member || !d.has(member):
		return true
	case d.current != was:
		return false
	}
	j.moveTo(d, member, whyAnswered, time.Now())
	j.say()
	return true
}
