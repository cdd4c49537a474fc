// SPDX-License-Identifier: Apache-2.0

package right

import (
	"context"
	"testing"
	"time"

	"causeway/fleet/shares"
)

// What a member has carried is in one record of its, and the next one may come before the shares can be opened.
func TestCarriedStays(t *testing.T) {
	m, err := New(Config{Name: "me", Process: 9, Store: emptyStore{}, Gate: &openGate{}})
	if err != nil {
		t.Fatal(err)
	}
	m.view.epoch = epoch(2)
	m.passing.holding["a"] = &holding{process: 1}
	for _, r := range []Record{
		{Member: "a", Process: 1, Epoch: epoch(2), Carried: Carried("carried "), Renewals: 1},
		{Member: "a", Process: 1, Epoch: epoch(2), Renewals: 2},
		{Member: "a", Process: 2, Epoch: epoch(2), Carried: Carried("another "), Renewals: 1},
	} {
		m.left(r)
	}
	if got := string(m.passing.holding["a"].carried); got != "carried " {
		t.Errorf("what a has carried is %q", got)
	}
}

// A member that says again that it holds has the owner wait no longer.
func TestHoldsOnce(t *testing.T) {
	m, err := New(Config{Name: "me", Process: 9, Store: emptyStore{}, Gate: &openGate{}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m.view.epoch = epoch(2)
	m.passing.leaving = &leaving{epoch: epoch(2), heirs: map[string]bool{"a": true}, until: now.Add(m.config.lingering())}
	for i := range 3 {
		m.noted(Note{Member: "a", Process: 1, Epoch: epoch(2), Holds: []string{"me"}}, now.Add(time.Duration(i)*time.Millisecond))
	}
	if want := now.Add(m.config.settling()); !m.passing.leaving.until.Equal(want) {
		t.Errorf("it waits until %v after the first", m.passing.leaving.until.Sub(now))
	}
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
		f(Event{Epoch: s.epoch, Assignment: &shares.Assignment{}})
	}
	f(Event{Complete: true})
	return nil
}

// A member that ends as soon as it has closed what it left tells what it carried, of that assignment alone.
func TestEndTellsCarried(t *testing.T) {
	for n, want := range map[uint64]string{2: "carried ", 3: "", 0: ""} {
		s := &endStore{}
		if n > 0 {
			s.epoch = epoch(n)
		}
		if err := End(t.Context(), s, Record{Member: "me", Process: 9, Epoch: epoch(2), Carried: Carried("carried ")}); err != nil {
			t.Fatal(err)
		}
		if got := s.wrote[0]; string(got.Carried) != want || !got.Ended {
			t.Errorf("in epoch %d it wrote %+v", n, got)
		}
	}
}
