// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"causeway/fleet/bfd"
)

// introduction is after how long a member that is known should be heard: it may have told etcd before it listens.
const introduction = 5 * time.Second

// Lost returns why this member is believed to have lost a fabric; "": it is not. Any goroutine may call it.
//
// It is lost when no other member is Up on it for this one, since a time t, though one was, or should be; and when a member,
// the witness, that is Up over another fabric, has said later than t+patience that a third one is Up on it for the witness.
//
// Of two members none is lost, because there is no third one.
//
// Never are all lost. Suppose that they are, at one time, and let X be the one whose t is the latest, by a clock of all. Its
// witness Y had said after t+patience of X that somebody is Up on the fabric for Y. That was said at most a message's delay
// before X heard it, and so, if a delay is less than patience, after X's t. So Y has a later t than X, which cannot be.
// (Y may have lost the fabric since, which only makes its t later still.)
//
// When a fabric is dead for all, nobody is lost for a moment either: the last messages come at one time, but sessions may have
// missed messages before, and so go down up to a detection time after one another, and not more. After its own last session
// went down, a member waits for that, and an interval for the delay of messages. What a witness has said then it said after
// its own went down, and it said: none. What it said before counts as long as it is Up, but not for that.
//
// When members are divided into parts of at least two that do not hear each other, each hears one, and nobody is lost: no
// part is the right one.
func (p *Peers) Lost(f Fabric) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, silent := p.silent(f)
	if !silent {
		return ""
	}
	patience := p.detection() + p.config.Interval
	var witnesses []string
	for name, x := range p.members {
		for g, s := range x.sessions {
			if Fabric(g) != f && s != nil && s.up && s.others[f] > 0 && s.said.Sub(since) > patience {
				witnesses = append(witnesses, fmt.Sprintf("%s, which is heard on %v,", name, Fabric(g)))
			}
		}
	}
	if len(witnesses) == 0 {
		return ""
	}
	slices.Sort(witnesses)
	return fmt.Sprintf("no other member is heard on %v, where %s hears others", f, strings.Join(witnesses, " and "))
}

// silent returns since when no member is Up on a fabric of those that were, or should be; false: one is, or there are none.
func (p *Peers) silent(f Fabric) (since time.Time, silent bool) {
	wasUp := false
	for _, x := range p.members {
		s, past := x.sessions[f], x.past[f]
		if s == nil {
			continue
		}
		expected := past.known.Add(introduction)
		switch {
		case s.up:
			return since, false
		case past.up && (!wasUp || past.down.After(since)):
			since, wasUp, silent = past.down, true, true
		case !wasUp && (!silent || expected.Before(since)):
			since, silent = expected, true
		}
	}
	return since, silent
}

// Down reports whether all of a member's sessions that were Up, with the process that it has now, are Down, on every fabric.
// So it is for a member that has ended in order. It is for all members at once where this one hears nobody, as when it has
// lost all fabrics itself: what is made of it has to stand that. Any goroutine may call it.
func (p *Peers) Down(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.members[name]
	if x == nil {
		return false
	}
	was, is := false, false
	for _, s := range x.sessions {
		if s != nil {
			was, is = was || s.wasUp, is || s.up
		}
	}
	return was && !is
}

// Session is what an operator sees of one.
type Session struct {
	Member     string
	Process    uint64
	Way        string
	State      bfd.State
	Remote     bfd.State // as the other end has said last
	Diagnostic bfd.Diagnostic
	Since      time.Time        // when State became so
	Sent       uint64           // messages
	Received   uint64           // that were taken
	Counter    uint64           // of the last message that was taken
	Others     map[string]uint8 // how many members that are not this one the other has Up, by fabrics, as it said last
}

// Sessions returns all sessions, by member and fabric. Any goroutine may call it.
func (p *Peers) Sessions() (all []Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, x := range p.members {
		for i, s := range x.sessions {
			if s == nil {
				continue
			}
			o := Session{Member: name, Process: x.Process, Way: Fabric(i).String(), Remote: s.Remote(), Sent: s.sent, Received: s.received,
				Counter: p.counts[x.Process][i], Others: map[string]uint8{}}
			o.State, o.Diagnostic, o.Since = s.State()
			for f, n := range s.others {
				o.Others[Fabric(f).String()] = n
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Way, b.Way)) })
	return all
}

// Addresses returns where members are on a fabric, by their names, the own one among them. Any goroutine may call it.
func (p *Peers) Addresses(on Fabric) map[string]Address {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]Address{p.config.Name: p.own.Addresses[on.String()]}
	for name, x := range p.members {
		all[name] = x.Addresses[on.String()]
	}
	maps.DeleteFunc(all, func(_ string, a Address) bool { return a == "" })
	return all
}
