// SPDX-License-Identifier: Apache-2.0

// Package bfd is Bidirectional Forwarding Detection (RFC 5880) in asynchronous mode: one session, without sockets, goroutines
// or a clock, which are its caller's.
//
//	         ┌────────────── Tick ──▶ control packet ──▶ network
//	caller ──┤
//	         └─ network ──▶ control packet ──▶ Receive ─▶ Tick again: an answer may be due
//
// Both ends are active, and send until they are Up once a second. There is no authentication: what carries the packets has
// one. There is no echo function, and no Demand mode of the session's own; the other end's is honoured.
package bfd

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gopacket/gopacket/layers"
)

// State is a session's state.
type State = layers.BFDState

// States of a session (RFC 5880 §4.1).
const (
	AdminDown = layers.BFDStateAdminDown
	Down      = layers.BFDStateDown
	Init      = layers.BFDStateInit
	Up        = layers.BFDStateUp
)

// Diagnostic is why a session's state has changed last.
type Diagnostic = layers.BFDDiagnostic

// slow is what may be between packets at least until a session is Up (RFC 5880 §6.8.3), so that ends that are not there cost
// little.
const slow = time.Second

// Config says how a session is. Times are whole microseconds, and at most math.MaxUint32 of them.
type Config struct {
	Discriminator uint32        // not 0; of no other session of this end
	MinTx         time.Duration // what is between its packets at least, when it is Up
	MinRx         time.Duration // what it wants between the other end's packets at least
	Mult          uint8         // how many of its packets may be lost in turn; not 0
	Rand          *rand.Rand    // for jitter; used only while a session's method runs
}

// Session is one end's state, in the words of RFC 5880 §6.8.1. Its methods are called by one goroutine at a time, with times
// that do not go back.
type Session struct {
	config Config
	state  State
	diag   Diagnostic
	since  time.Time // when state became so

	remote struct {
		state         State
		discriminator uint32
		demand        bool
		minTx, minRx  time.Duration
		mult          time.Duration // a factor
	}
	heard time.Time // when the last packet came that was not discarded; zero: none has since the detection time has passed

	minTx    time.Duration // bfd.DesiredMinTxInterval
	poll     poll
	final    bool      // a Poll is to be answered
	news     bool      // the other end has not been told the state
	sent     time.Time // when the last packet was made; zero: none was
	fraction float64   // of the interval, after which the next one follows
}

// poll is where a Poll Sequence is (RFC 5880 §6.5).
type poll int

const (
	noPoll  poll = iota
	pollDue      // no packet has asked yet, so that a Final bit that comes is another one's answer
	pollSent
)

// New returns a session that is Down, and sends its first packet by the next Tick.
func New(c Config, now time.Time) (*Session, error) {
	valid := func(d time.Duration) bool {
		return d > 0 && d%time.Microsecond == 0 && d/time.Microsecond <= math.MaxUint32
	}
	switch {
	case c.Discriminator == 0 || c.Mult == 0 || c.Rand == nil:
		return nil, errors.New("bfd: a session needs a discriminator and a Detect Mult that are not 0, and random numbers")
	case !valid(c.MinTx) || !valid(c.MinRx):
		return nil, fmt.Errorf("bfd: intervals of %v and %v; write whole microseconds, from 1 to %d", c.MinTx, c.MinRx, uint32(math.MaxUint32))
	}
	s := &Session{config: c, state: Down, since: now, minTx: max(slow, c.MinTx)}
	s.remote.state, s.remote.minRx = Down, time.Microsecond
	return s, nil
}

// State returns the session's state, why it became so, and when.
func (s *Session) State() (State, Diagnostic, time.Time) { return s.state, s.diag, s.since }

// Discriminator returns the session's.
func (s *Session) Discriminator() uint32 { return s.config.Discriminator }

// Remote returns the state that the other end told last: AdminDown when it was ended by somebody.
func (s *Session) Remote() State { return s.remote.state }

// Disable makes the session AdminDown for good (RFC 5880 §6.8.16). The other end is told by the next Tick; a caller that ends
// goes on for a while, because that may be lost.
func (s *Session) Disable(now time.Time) { s.become(AdminDown, layers.BFDDiagnosticAdminDown, now) }

// become changes the state, and the interval with it (RFC 5880 §6.8.3). A longer one counts at once: that has to wait for
// the end of a Poll Sequence only while the session is Up.
func (s *Session) become(state State, why Diagnostic, now time.Time) {
	if state == s.state {
		return
	}
	s.state, s.diag, s.since, s.news = state, why, now, true
	minTx := max(slow, s.config.MinTx)
	if state == Up {
		minTx = s.config.MinTx
	}
	if minTx != s.minTx {
		s.minTx, s.poll = minTx, pollDue
	}
}

// Receive takes a packet in, which stays the caller's, and returns why it was discarded; nil: it was not. Whatever it
// returns, the caller is to Tick again. Nothing is made of a packet that comes late: when the caller was stopped, it may
// give what has waited for it before it Ticks.
func (s *Session) Receive(now time.Time, packet []byte) error {
	p, err := decode(packet)
	switch {
	case err != nil:
		return err
	case p.YourDiscriminator != 0 && uint32(p.YourDiscriminator) != s.config.Discriminator:
		return ErrDiscriminator
	}
	r := &s.remote
	r.discriminator, r.state, r.demand = uint32(p.MyDiscriminator), p.State, p.Demand
	r.minTx, r.minRx = interval(p.DesiredMinTxInterval), interval(p.RequiredMinRxInterval)
	r.mult = time.Duration(p.DetectMultiplier)
	if p.Final && s.poll == pollSent {
		s.poll = noPoll
	}
	if s.state == AdminDown {
		return ErrAdminDown
	}
	s.heard = now
	s.follow(p.State, now)
	s.final = s.final || p.Poll
	return nil
}

// follow makes the transition that a state of the other end brings (RFC 5880 §6.8.6).
func (s *Session) follow(remote State, now time.Time) {
	const signalled = layers.BFDDiagnosticNeighborSignalDown
	switch s.state {
	case Down:
		switch remote {
		case Down:
			s.become(Init, s.diag, now) // why it was Down is told until it is Up
		case Init:
			s.become(Up, layers.BFDDiagnosticNone, now)
		}
	case Init:
		switch remote {
		case AdminDown:
			s.become(Down, signalled, now)
		case Init, Up:
			s.become(Up, layers.BFDDiagnosticNone, now)
		}
	case Up:
		if remote == AdminDown || remote == Down {
			s.become(Down, signalled, now)
		}
	}
}

func interval(us layers.BFDTimeInterval) time.Duration { return time.Duration(us) * time.Microsecond }
