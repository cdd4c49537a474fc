// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"log/slog"
	"math"
	"time"

	"causeway/fleet/bfd"
)

// member is another one, as it was told last.
type member struct {
	Record
	sessions [Fabrics]*session // nil: one of the two is not on that fabric
	past     [Fabrics]past
}

// past is what was of a member of this name on a fabric, whichever process it had.
type past struct {
	known time.Time // since when
	up    bool      // it has been
	down  time.Time // when it ceased to be last
}

// session is one with a process, on a fabric.
type session struct {
	*bfd.Session
	up       bool // as it was logged
	wasUp    bool
	others   [Fabrics]uint8 // how many other members the process has Up, as it said last
	said     time.Time      // when
	sent     uint64         // messages
	received uint64
}

// know takes in the records of all members. A process that is another than before has sessions of its own.
func (p *Peers) know(all map[string]Record, now time.Time) {
	for name, x := range p.members {
		if r, there := all[name]; !there || r.Process != x.Process {
			p.forget(name, x, now)
		}
	}
	for name, r := range all {
		if name == p.config.Name {
			continue
		}
		x := p.members[name]
		if x == nil {
			x = &member{}
			p.members[name] = x
		}
		x.Record = r
		p.names[r.Process] = name
		for f := range Fabric(Fabrics) {
			if p.config.Ways[f] != nil && x.address(f) != "" && x.sessions[f] == nil {
				p.begin(x, f, now)
			}
		}
	}
	if _, there := all[p.config.Name]; !there {
		p.move()
	}
}

// forget ends the sessions with a process. What was of its member stays.
func (p *Peers) forget(name string, x *member, now time.Time) {
	for f, s := range x.sessions {
		if s != nil && s.up {
			p.down(name, Fabric(f), x, slog.LevelInfo, "the process has ended", now)
		}
	}
	delete(p.names, x.Process)
	p.members[name] = &member{past: x.past}
}

func (x *member) address(f Fabric) Address { return x.Addresses[f.String()] }

// begin makes a session. Its discriminator is no other one's.
func (p *Peers) begin(x *member, f Fabric, now time.Time) {
	taken := map[uint32]bool{0: true}
	for _, other := range p.members {
		for _, s := range other.sessions {
			if s != nil {
				taken[s.Discriminator()] = true
			}
		}
	}
	discriminator := p.random.Uint32()
	for taken[discriminator] {
		discriminator = p.random.Uint32()
	}
	s, err := bfd.New(p.session(discriminator), now)
	if err != nil {
		panic(err) // New has tried
	}
	x.sessions[f] = &session{Session: s}
	if x.past[f].known.IsZero() {
		x.past[f].known = now
	}
}

// take takes a message in.
func (p *Peers) take(m *message, now time.Time) {
	name, known := p.names[m.from]
	if !known || p.members[name].sessions[m.fabric] == nil {
		p.drop(unknownSender)
		return
	}
	counts := p.counts[m.from]
	if m.count <= counts[m.fabric] {
		p.drop(replayed)
		return
	}
	counts[m.fabric] = m.count
	p.counts[m.from] = counts
	x := p.members[name]
	s := x.sessions[m.fabric]
	if err := s.Receive(now, m.control); err != nil {
		p.drop(badBFD)
		return
	}
	s.received++
	s.others, s.said = m.up, now
	p.changed(name, x, m.fabric, now)
	if len(m.word) > 0 {
		p.later = append(p.later, func() { p.config.Heard(name, m.from, m.word) })
	}
}

// tick sends what is due, and returns when to do so again; zero: when something comes.
func (p *Peers) tick(now time.Time) (again time.Time) {
	for name, x := range p.members {
		for f, s := range x.sessions {
			if s == nil {
				continue
			}
			packet, next := s.Tick(now)
			p.changed(name, x, Fabric(f), now)
			if packet != nil {
				p.say(x, Fabric(f), packet, nil)
			}
			if !next.IsZero() && (again.IsZero() || next.Before(again)) {
				again = next
			}
		}
	}
	return again
}

// speak sends a word to all.
func (p *Peers) speak(word []byte, now time.Time) {
	for _, x := range p.members {
		for f, s := range x.sessions {
			if s != nil {
				p.say(x, Fabric(f), s.Packet(now), word)
			}
		}
	}
}

// say sends a message.
func (p *Peers) say(x *member, f Fabric, packet, word []byte) {
	to := x.address(f)
	if to == "" {
		return // it is not reached there any more; the session goes down by itself
	}
	p.sent[f]++
	m := &message{control: packet, fabric: f, from: p.config.Process, to: x.Process, count: p.sent[f], word: word}
	for _, other := range p.members {
		for g, s := range other.sessions {
			if other != x && s != nil && s.up && m.up[g] < math.MaxUint8 {
				m.up[g]++
			}
		}
	}
	x.sessions[f].sent++
	data := p.identity.Load().seal(m)
	p.later = append(p.later, func() {
		if err := p.config.Ways[f].Say(to, data); err != nil {
			p.drop(unsent)
		}
	})
}

// changed logs that a session has come up or gone down. A member that ended in order has gone by somebody's wish.
func (p *Peers) changed(name string, x *member, f Fabric, now time.Time) {
	s := x.sessions[f]
	state, why, _ := s.State()
	switch up := state == bfd.Up; {
	case up && !s.up:
		s.up, s.wasUp, x.past[f].up = true, true, true
		p.later = append(p.later, func() { p.config.Log.Info("fleet_peer_up", "member", name, "fabric", f.String()) })
	case !up && s.up && s.Remote() == bfd.AdminDown:
		p.down(name, f, x, slog.LevelInfo, "the member has ended in order", now)
	case !up && s.up:
		p.down(name, f, x, slog.LevelWarn, why.String(), now)
	}
}

// down notes that a session is not up any more.
func (p *Peers) down(name string, f Fabric, x *member, level slog.Level, why string, now time.Time) {
	x.sessions[f].up, x.past[f].down = false, now
	p.later = append(p.later, func() {
		p.config.Log.Log(context.Background(), level, "fleet_peer_down", "member", name, "fabric", f.String(), "diagnostic", why)
	})
}
