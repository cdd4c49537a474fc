// SPDX-License-Identifier: Apache-2.0

package bfd

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
)

var start = time.Unix(1000, 0)

// told is a packet of the other end, whose session is 9.
func told(state State, change func(*layers.BFD)) []byte {
	p := &layers.BFD{Version: 1, State: state, DetectMultiplier: 3, MyDiscriminator: 9, YourDiscriminator: 7,
		DesiredMinTxInterval: 50_000, RequiredMinRxInterval: 50_000}
	if change != nil {
		change(p)
	}
	return encode(p)
}

// inState returns session 7 in a state, with its first packets sent.
func inState(t testing.TB, state State) *Session {
	t.Helper()
	s := session(t, Config{7, fast, fast, 3, random(1)}, start)
	s.Tick(start)
	switch state {
	case AdminDown:
		s.Disable(start)
	case Init:
		s.remote.discriminator = 9
		s.follow(Down, start)
	case Up:
		s.remote.discriminator = 9
		s.follow(Init, start)
	}
	if s.Tick(start); s.state != state {
		t.Fatalf("%v and not %v", s.state, state)
	}
	return s
}

// TestTransitions is RFC 5880 §6.2's machine, as §6.8.6 has it: what a state becomes by each that the other end tells, and by
// silence.
func TestTransitions(t *testing.T) {
	states := []State{AdminDown, Down, Init, Up}
	const silence = State(4)
	for from, becomes := range map[State][5]State{ //      told AdminDown, Down, Init, Up; silence
		AdminDown: {AdminDown, AdminDown, AdminDown, AdminDown, AdminDown},
		Down:      {Down, Init, Up, Down, Down},
		Init:      {Down, Init, Up, Up, Down},
		Up:        {Down, Down, Up, Up, Down},
	} {
		for _, by := range append(states, silence) {
			s := inState(t, from)
			now := start.Add(time.Millisecond)
			if by == silence {
				s.heard, s.remote.mult = start, 3
				now = start.Add(lost)
				s.Tick(now.Add(-1))
			} else if err := s.Receive(now, told(by, nil)); err != nil && from != AdminDown {
				t.Errorf("%v, told %v: %v", from, by, err)
			}
			packet, _ := s.Tick(now)
			if s.state != becomes[by] {
				t.Errorf("%v by %v is %v and not %v", from, by, s.state, becomes[by])
			}
			if changed := s.state != from; changed != (packet != nil) || changed != s.since.Equal(now) {
				t.Errorf("%v by %v is %v since %v; it is told at once: %v", from, by, s.state, s.since, packet != nil)
			}
		}
	}
}

// checks are packets that are discarded, each by one check of RFC 5880 §6.8.6, in its order.
var checks = []struct {
	name   string
	packet []byte
	want   error
}{
	{"version 0", told(Down, func(p *layers.BFD) { p.Version = 0 }), ErrVersion},
	{"version 2", told(Down, func(p *layers.BFD) { p.Version = 2 }), ErrVersion},
	{"nothing", nil, ErrLength},
	{"a byte less", told(Down, nil)[:Len-1], ErrLength},
	{"a Length of 23", set(told(Down, nil), 3, Len-1), ErrLength},
	{"a Length beyond the data", set(told(Down, nil), 3, Len+1), ErrLength},
	{"authentication without a section", set(told(Down, nil), 1, 0x44), ErrAuthentic},
	{"authentication", set(set(append(told(Down, nil), 1, 4, 1, 'x'), 1, 0x44), 3, Len+4), ErrAuthentic},
	{"authentication that is cut", set(set(append(told(Down, nil), 2, 24, 1), 1, 0x44), 3, Len+3), ErrAuthentic},
	{"Detect Mult 0", told(Down, func(p *layers.BFD) { p.DetectMultiplier = 0 }), ErrMult},
	{"Multipoint", told(Down, func(p *layers.BFD) { p.Multipoint = true }), ErrMultipoint},
	{"no discriminator", told(Down, func(p *layers.BFD) { p.MyDiscriminator = 0 }), ErrDiscriminator},
	{"another session's", told(Down, func(p *layers.BFD) { p.YourDiscriminator = 8 }), ErrDiscriminator},
	{"Init for nobody", told(Init, func(p *layers.BFD) { p.YourDiscriminator = 0 }), ErrDiscriminator},
	{"Up for nobody", told(Up, func(p *layers.BFD) { p.YourDiscriminator = 0 }), ErrDiscriminator},
}

func set(b []byte, at int, to byte) []byte {
	b[at] = to
	return b
}

// TestChecks: what is discarded changes nothing, and is not heard.
func TestChecks(t *testing.T) {
	for _, c := range checks {
		for _, state := range []State{Down, Init, Up} {
			s := inState(t, state)
			before := *s
			if err := s.Receive(start, c.packet); !errors.Is(err, c.want) {
				t.Errorf("%s, while %v: %v", c.name, state, err)
			}
			if *s != before {
				t.Errorf("%s, while %v: %+v\nwas %+v", c.name, state, *s, before)
			}
		}
	}
	s := inState(t, AdminDown)
	if err := s.Receive(start, told(Init, func(p *layers.BFD) { p.Poll = true })); !errors.Is(err, ErrAdminDown) || s.final || !s.heard.IsZero() {
		t.Errorf("administratively down: %v, %+v", err, s)
	}
}

// TestTaken are packets that must not be discarded.
func TestTaken(t *testing.T) {
	for name, packet := range map[string][]byte{
		"Down for nobody":      told(Down, func(p *layers.BFD) { p.YourDiscriminator = 0 }),
		"AdminDown for nobody": told(AdminDown, func(p *layers.BFD) { p.YourDiscriminator = 0 }),
		"bytes behind it":      append(told(Down, nil), 1, 2, 3),
		"other bits":           told(Down, func(p *layers.BFD) { p.ControlPlaneIndependent, p.Diagnostic = true, 31 }),
		"intervals of 0":       told(Down, func(p *layers.BFD) { p.DesiredMinTxInterval, p.RequiredMinRxInterval = 0, 0 }),
	} {
		s := inState(t, Down)
		if err := s.Receive(start, packet); err != nil || s.remote.discriminator != 9 || s.heard != start {
			t.Errorf("%s: %v, %+v", name, err, s.remote)
		}
	}
}

// TestSilence: after the detection time the other end's discriminator is forgotten in any state, and not before.
func TestSilence(t *testing.T) {
	for _, state := range []State{Down, Init, Up} {
		s := inState(t, state)
		keep := map[State]State{Down: Up, Init: Down, Up: Up}[state] // which change nothing
		if err := s.Receive(start, told(keep, func(p *layers.BFD) { p.DetectMultiplier, p.DesiredMinTxInterval = 5, 70_000 })); err != nil || s.state != state {
			t.Fatalf("%v: %v, %v", state, s.state, err)
		}
		silence := 5 * 70 * time.Millisecond
		if s.Tick(start.Add(silence - 1)); s.state != state || s.remote.discriminator != 9 {
			t.Errorf("%v: %+v", state, s)
		}
		if s.Tick(start.Add(silence)); s.state != Down || s.remote.discriminator != 0 || state != Down && s.diag != layers.BFDDiagnosticTimeExpired {
			t.Errorf("%v: %+v", state, s)
		}
	}
}

// TestPollIsAnswered at once, with the Final bit alone, though the session polls itself, and even where nothing periodic is
// to be sent.
func TestPollIsAnswered(t *testing.T) {
	s := inState(t, Up) // its first packet as such has the Poll bit
	if err := s.Receive(start, told(Up, func(p *layers.BFD) { p.Poll, p.RequiredMinRxInterval = true, 0 })); err != nil {
		t.Fatal(err)
	}
	packet, again := s.Tick(start)
	p, err := decode(packet)
	if err != nil || !p.Final || p.Poll || p.YourDiscriminator != 9 || again != start.Add(lost) {
		t.Errorf("%+v, %v; again %v", p, err, again.Sub(start))
	}
	if packet, _ := s.Tick(start.Add(lost - 1)); packet != nil {
		t.Errorf("an end that wants no packets gets %x", packet)
	}
}

// hear has a session take a packet.
func hear(t *testing.T, s *Session, packet []byte) {
	t.Helper()
	if err := s.Receive(start, packet); err != nil {
		t.Fatalf("%x: %v", packet, err)
	}
}

// TestFinal: a Final bit ends a Poll Sequence, but not one that no packet has begun.
func TestFinal(t *testing.T) {
	s := inState(t, Init)
	final := func(p *layers.BFD) { p.Final = true }
	hear(t, s, told(Up, final)) // Up by that, so that a Poll Sequence is due
	if hear(t, s, told(Up, final)); s.poll != pollDue {
		t.Errorf("%v", s.poll)
	}
	if p, err := decode(s.Packet(start)); err != nil || !p.Poll {
		t.Errorf("%+v, %v", p, err)
	}
	hear(t, s, told(Up, final))
	if p, err := decode(s.Packet(start)); err != nil || p.Poll || s.poll != noPoll {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestDemand: an end in Demand mode gets what is periodic only while it is asked, or not Up.
func TestDemand(t *testing.T) {
	s := inState(t, Up)
	demand := func(p *layers.BFD) { p.Demand = true }
	sends := func() bool {
		s.heard = start
		packet, _ := s.Tick(s.sent.Add(fast))
		return packet != nil
	}
	var got []bool
	hear(t, s, told(Up, demand))
	got = append(got, sends())
	hear(t, s, told(Up, func(p *layers.BFD) { p.Demand, p.Final = true, true }))
	got = append(got, sends())
	hear(t, s, told(Init, demand))
	got = append(got, sends())
	hear(t, s, told(Up, nil))
	got = append(got, sends())
	if want := []bool{true, false, true, true}; !slices.Equal(got, want) {
		t.Errorf("sends: %v; want %v", got, want)
	}
}

// TestConfigs: what cannot be told, or negotiated, is rejected.
func TestConfigs(t *testing.T) {
	for i, c := range []Config{
		{0, fast, fast, 3, random(1)}, {1, fast, fast, 0, random(1)}, {1, fast, fast, 3, nil}, {1, 0, fast, 3, random(1)}, {1, fast, 0, 3, random(1)},
		{1, -fast, fast, 3, random(1)}, {1, time.Nanosecond, fast, 3, random(1)}, {1, fast, 2 * time.Hour, 3, random(1)},
	} {
		if s, err := New(c, start); err == nil {
			t.Errorf("%d: %+v", i, s)
		}
	}
}

// FuzzReceive: whatever comes, nothing panics, time goes on, and what is sent is right. A session is up only by packets that
// name it, and never by one that is discarded.
func FuzzReceive(f *testing.F) {
	for _, c := range checks {
		f.Add(byte(Up), uint16(10), c.packet, told(Init, nil))
	}
	f.Add(byte(Down), uint16(1), told(Down, nil), told(Init, func(p *layers.BFD) { p.Poll = true }))
	f.Add(byte(Init), uint16(1), told(Up, nil), told(Up, func(p *layers.BFD) { p.Final, p.Demand = true, true }))
	f.Fuzz(func(t *testing.T, state byte, ms uint16, first, second []byte) {
		s := inState(t, State(state%4))
		now := start
		for _, packet := range [][]byte{first, second, first} {
			now = now.Add(time.Duration(ms) * time.Millisecond)
			was := s.state
			err := s.Receive(now, packet)
			if err != nil && s.state != was {
				t.Fatalf("%v made it %v: %x", err, s.state, packet)
			}
			sent, again := s.Tick(now)
			if !again.IsZero() && !again.After(now) {
				t.Fatalf("again after %v", again.Sub(now))
			}
			if sent == nil {
				continue
			}
			if p, err := decode(sent); err != nil || len(sent) != Len || p.Poll && p.Final || p.Demand || p.State != s.state || p.MyDiscriminator != 7 {
				t.Fatalf("sends %x: %v", sent, err)
			}
		}
	})
}
