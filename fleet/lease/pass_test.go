// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// What a member has forwarded is in one record of its, and the next one may come before the shards can be opened.
func TestForwardedStays(t *testing.T) {
	m, err := New(Config{Name: "me", Process: 9, Store: emptyStore{}, Gate: &openGate{}})
	if err != nil {
		t.Fatal(err)
	}
	m.passing.holding["a"] = &holding{leave: Leave{"a", 1, 4}}
	for _, r := range []Record{
		{Member: "a", Process: 1, Pass: 4, Forwarded: Forwarded("packet 1"), Renewals: 1},
		{Member: "a", Process: 1, Pass: 4, Renewals: 2},
		{Member: "a", Process: 1, Pass: 5, Forwarded: Forwarded("of later"), Renewals: 3},
		{Member: "a", Process: 2, Pass: 4, Forwarded: Forwarded("another "), Renewals: 1},
	} {
		m.passing.left(r)
	}
	if got := string(m.passing.holding["a"].forwarded); got != "packet 1" {
		t.Errorf("what a has forwarded is %q", got)
	}
}

// What was forwarded is told until the store has it, whatever renewal was under way before.
func TestForwardedIsTold(t *testing.T) {
	m, err := New(Config{Name: "me", Process: 9, Store: emptyStore{}, Gate: &openGate{}})
	if err != nil {
		t.Fatal(err)
	}
	before := m.record()
	m.passing.forwarded = Forwarded{}
	m.renewed(before, time.Now(), time.Now(), nil)
	if m.record().Forwarded == nil {
		t.Error("a renewal without it has it told no more")
	}
	m.renewed(m.record(), time.Now(), time.Now(), nil)
	if m.record().Forwarded != nil {
		t.Error("it is told again")
	}
}

// A member that says again that it holds has the owner wait no longer.
func TestHoldsOnce(t *testing.T) {
	m, err := New(Config{Name: "me", Process: 9, Store: emptyStore{}, Gate: &openGate{}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m.passing.count = 4
	m.passing.leaving = &leaving{missing: map[string]bool{"a": true}, until: now.Add(m.config.drainTime())}
	for _, of := range []Leave{{"me", 9, 3}, {"me", 8, 4}, {"you", 9, 4}} {
		m.noted(Note{Leave: Leave{"a", 1, 0}, Holds: []Leave{of}}, now)
	}
	if len(m.passing.leaving.missing) == 0 {
		t.Error("who holds what was left before holds what is left now")
	}
	for i := range 3 {
		m.noted(Note{Leave: Leave{"a", 1, 0}, Holds: []Leave{{"you", 9, 4}, {"me", 9, 4}}}, now.Add(time.Duration(i)*time.Millisecond))
	}
	if until := m.passing.leaving.until; !until.Equal(now) {
		t.Errorf("it waits until %v after the first", until.Sub(now))
	}
}

// A member goes on with what has passed until hosts reach it elsewhere, and does not say meanwhile that it has closed it. What was taken
// from it then is taken, though a later assignment gives it again; and an unknown one closes all at once.
func TestDrainTime(t *testing.T) {
	left := words(1)
	for _, c := range []struct {
		name    string
		later   []Event
		reached bool
		lease   time.Duration // that is left; 0: a whole one
		want    time.Duration // until it has closed it
	}{
		{name: "hosts reach it", reached: true, want: Settling(DefaultLease)},
		{name: "nobody says so", want: 2 * DefaultLease / 5},
		{name: "given again", later: []Event{{Epoch: epoch(3), Follows: epoch(2), Assignment: ofWords("me", "me")}}, want: 2 * DefaultLease / 5},
		{name: "its lease ends", lease: DefaultLease / 2, want: 3 * DefaultLease / 10},
		{name: "an unknown one", later: []Event{{Epoch: epoch(9), Follows: epoch(8), Assignment: ofWords("me", "a")}}},
	} {
		m, err := New(Config{Name: "me", Weight: 1, Process: 9, Store: emptyStore{}, Gate: &openGate{}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		m.saw(Event{Epoch: epoch(1), Assignment: ofWords("me", "me")}, began)
		m.saw(Event{Complete: true}, began)
		m.open, m.renewal.until = words(0, 1), began.Add(cmp.Or(c.lease, DefaultLease))
		m.passing.leaving = &leaving{set: left, successors: map[string]*set{"a": &left}, missing: map[string]bool{}}
		m.saw(Event{Epoch: epoch(2), Follows: epoch(1), Assignment: ofWords("me", "a")}, began)
		for _, e := range c.later {
			m.saw(e, began)
		}
		if c.want > 0 && (m.epoch != epoch(1) || m.open != words(0, 1)) {
			t.Errorf("%s: it follows %v, with %v open", c.name, m.epoch, m.open.list())
		}
		if c.reached {
			m.noted(Note{Leave: Leave{"a", 1, 0}, Here: []Leave{{"me", 9, 0}}}, began)
		}
		now := began
		for m.epoch != m.view.epoch && now.Before(began.Add(DefaultLease)) {
			now = m.pass(t.Context(), nil, now)
		}
		if both := m.open.both(&left); m.epoch != m.view.epoch || !both.empty() || now.Sub(began) != c.want {
			t.Errorf("%s: after %v, want %v, it follows %v, with %v open", c.name, now.Sub(began), c.want, m.epoch, m.open.list())
		}
	}
}

// What the newest assignment gives is opened when it has been followed, and so never while the member goes on with what has passed by it.
func TestTakesWhatItFollows(t *testing.T) {
	gate := &openGate{}
	m, err := New(Config{Name: "me", Weight: 1, Process: 9, Store: emptyStore{}, Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	now, left := time.Now(), words(1)
	m.saw(Event{Record: Record{Member: "me", Process: 9}}, now)
	m.saw(Event{Complete: true}, now)
	m.saw(Event{Epoch: epoch(1), Assignment: ofWords("me", "me")}, now)
	opens := func(want set) {
		t.Helper()
		m.renewed(m.record(), now, now, nil)
		if m.take(now); gate.open != want {
			t.Errorf("it follows %v, and open are %v", m.epoch, gate.open.list())
		}
	}
	now = now.Add(10 * m.config.silence())
	opens(words(0, 1))
	m.passing.leaving = &leaving{set: left, successors: map[string]*set{"a": &left}, missing: map[string]bool{}}
	m.saw(Event{Epoch: epoch(2), Follows: epoch(1), Assignment: ofWords("me", "a", "me")}, now)
	opens(words(0, 1))
	m.follow(now.Add(DefaultLease))
	gate.Close(left.list()) // as another gate's Left does
	opens(words(0, 2))
}

// endStore has another assignment than a record at first.
type endStore struct {
	emptyStore
	epoch Epoch
	wrote []Record
}

func (s *endStore) Renew(_ context.Context, r Record) error {
	if r.Epoch != s.epoch {
		return ErrEpoch
	}
	s.wrote = append(s.wrote, r)
	return nil
}

func (s *endStore) Watch(_ context.Context, f func(Event)) error {
	if s.epoch != (Epoch{}) {
		f(Event{Epoch: s.epoch, Assignment: &shards.Assignment{}})
	}
	f(Event{Complete: true})
	return nil
}

// A member that ends as soon as it has closed what it left tells what it forwarded, whatever the assignment is then.
func TestEndTellsForwarded(t *testing.T) {
	for n, want := range map[uint64]string{2: "packet 1", 3: "packet 1", 0: "packet 1"} {
		s := &endStore{}
		if n > 0 {
			s.epoch = epoch(n)
		}
		if err := End(t.Context(), s, Record{Member: "me", Process: 9, Epoch: epoch(2), Forwarded: Forwarded("packet 1")}); err != nil {
			t.Fatal(err)
		}
		if got := s.wrote[0]; string(got.Forwarded) != want || !got.Ended {
			t.Errorf("in epoch %d it wrote %+v", n, got)
		}
	}
}
