// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// ofWords has shard 0 to 63 owned by the first name, 64 to 127 by the second, and so on; "" is nobody.
func ofWords(names ...string) *shards.Assignment {
	a := &shards.Assignment{}
	index := map[string]int8{"": shards.Nobody}
	for _, name := range names {
		if _, ok := index[name]; !ok {
			index[name] = int8(len(a.Members))
			a.Members = append(a.Members, shards.Member{Name: name, Weight: 1})
		}
	}
	for s := range a.Owner {
		a.Owner[s], a.Successor[s] = shards.Nobody, shards.Nobody
		if s/64 < len(names) {
			a.Owner[s] = index[names[s/64]]
		}
	}
	return a
}

// epoch is that of a store which was never set back.
func epoch(n uint64) Epoch { return Epoch{n, n} }

func words(list ...int) (s set) {
	for _, w := range list {
		s[w] = ^uint64(0)
	}
	return s
}

// Who may still forward what the newest assignment, of epoch 3, gives "me". In epoch 2 word 0 was a's and word 1 b's.
func TestBlocked(t *testing.T) {
	c := Config{Name: "me", Weight: 1, Store: emptyStore{}, Gate: &openGate{}}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	wait := c.silence()
	a2 := Record{Member: "a", Process: 1, Epoch: epoch(2), Renewals: 7}
	with := func(r Record, change func(*Record)) Record { change(&r); return r }
	for _, x := range []struct {
		name    string
		records []Record // before epoch 3
		after   []Record
		later   time.Duration
		want    set
	}{
		{"nobody was there", nil, nil, 0, set{}},
		{"a follows the one before", []Record{a2}, nil, 0, words(0)},
		{"a follows the one before, for as long as a lease lasts", []Record{a2}, nil, wait, words(0)},
		{"a is silent", []Record{a2}, nil, wait + 1, set{}},
		{"a follows the newest", []Record{a2}, []Record{with(a2, func(r *Record) { r.Epoch = epoch(3) })}, 0, set{}},
		{"a ended", []Record{a2}, []Record{with(a2, func(r *Record) { r.Ended, r.Epoch = true, epoch(3) })}, 0, set{}},
		{"a ended, and what it sent before comes late", []Record{with(a2, func(r *Record) { r.Ended = true }), a2}, nil, 0, set{}},
		{"another process of a ended", []Record{a2}, []Record{{Member: "a", Process: 2, Epoch: epoch(3), Ended: true}}, 0, words(0)},
		{"a follows an assignment that is not known", []Record{with(a2, func(r *Record) { r.Epoch = epoch(1) })}, nil, 0, everything},
		{"a follows another assignment of the newest's number", []Record{a2}, []Record{with(a2, func(r *Record) { r.Epoch = Epoch{3, 99} })}, 0, everything},
		{"a follows none", []Record{with(a2, func(r *Record) { r.Epoch = epoch(0) })}, nil, 0, set{}},
		{"both", []Record{a2, {Member: "b", Process: 1, Epoch: epoch(2)}}, nil, 0, words(0, 1)},
		{"this process", []Record{{Member: "me", Process: 9, Epoch: epoch(2)}}, nil, 0, set{}},
		{"another process of this member", nil, []Record{{Member: "me", Process: 8, Epoch: epoch(3)}}, 0, everything},
	} {
		t.Run(x.name, func(t *testing.T) {
			v, now := newView(&c), time.Now()
			v.saw(Event{Epoch: epoch(2), Follows: epoch(2 - 1), Assignment: ofWords("a", "b", "me")}, now)
			v.saw(Event{Complete: true}, now)
			now = now.Add(10 * wait)
			for _, r := range x.records {
				v.saw(Event{Record: r}, now)
			}
			v.saw(Event{Epoch: epoch(3), Follows: epoch(3 - 1), Assignment: ofWords("me", "me", "me", "a", "b")}, now)
			for _, r := range x.after {
				v.saw(Event{Record: r}, now)
			}
			got, again := v.blocked(identity{"me", 9}, now.Add(x.later))
			if got != x.want {
				t.Errorf("blocked: %v; want %v", got.list(), x.want.list())
			}
			if blocked := got != (set{}); blocked == again.IsZero() {
				t.Errorf("ask again at %v", again)
			}
		})
	}
}

// A watch that begins knows nothing of the processes whose records others took the place of: all is blocked for a while.
func TestBlockedByTheUnknown(t *testing.T) {
	c := Config{Name: "me", Weight: 1, Store: emptyStore{}, Gate: &openGate{}}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	v, now, me := newView(&c), time.Now(), identity{"me", 9}
	if got, _ := v.blocked(me, now); got != everything {
		t.Error("something is free before the first event")
	}
	for range 2 { // the second time after a watch that broke
		v.restarted()
		v.saw(Event{Epoch: epoch(3), Follows: epoch(3 - 1), Assignment: ofWords("me")}, now)
		v.saw(Event{Record: Record{Member: "a", Process: 1, Epoch: epoch(3), Ended: true}}, now)
		v.saw(Event{Complete: true}, now)
		got, again := v.blocked(me, now)
		if got != everything || !again.Equal(now.Add(c.silence()+1)) {
			t.Errorf("%d shards blocked, until %v", len(got.list()), again.Sub(now))
		}
		now = again
		if got, _ := v.blocked(me, now); !got.empty() {
			t.Error("blocked for longer than a lease lasts")
		}
	}
}

// emptyStore accepts everything.
type emptyStore struct{}

func (emptyStore) Watch(ctx context.Context, _ func(Event)) error { <-ctx.Done(); return ctx.Err() }
func (emptyStore) Renew(context.Context, Record) error            { return nil }
func (emptyStore) Tell(context.Context, Note) error               { return nil }
func (emptyStore) Propose(context.Context, Proposal) error        { return nil }

// openGate has the shards that are open.
type openGate struct{ open set }

func (g *openGate) Open(all []shards.Shard, _ Forwarded) {
	for _, s := range all {
		g.open.add(s)
	}
}

func (g *openGate) Close(all []shards.Shard) {
	var closed set
	for _, s := range all {
		closed.add(s)
	}
	g.open = g.open.minus(&closed)
}

func (*openGate) Until(time.Time)               {}
func (*openGate) Leave([]shards.Shard) bool     { return false }
func (*openGate) Stay([]shards.Shard, []string) {}
func (*openGate) Left([]string) Forwarded       { return nil }
func (*openGate) Hold([]shards.Shard) bool      { return true }
func (*openGate) Attract([]shards.Shard)        {}
func (*openGate) Drop([]shards.Shard)           {}

// A member whose lease is of the newest epoch opens what it is given; another epoch closes what that one does not give, and
// one with unknown ones before it closes all, because one of these may have given it to somebody.
func TestFollow(t *testing.T) {
	gate := &openGate{}
	m, err := New(Config{Name: "me", Weight: 1, Process: 9, Store: emptyStore{}, Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m.saw(Event{Record: Record{Member: "me", Process: 9}}, now)
	m.saw(Event{Complete: true}, now)
	step := func(n uint64, a *shards.Assignment, closed, opened set) {
		t.Helper()
		m.saw(Event{Epoch: epoch(n), Follows: epoch(n - 1), Assignment: a}, now)
		if gate.open != closed {
			t.Errorf("epoch %d: open are %v", n, gate.open.list())
		}
		now = now.Add(10 * m.config.silence())
		m.take(now)
		if gate.open != closed {
			t.Errorf("epoch %d: without a lease of it, %v was opened", n, gate.open.list())
		}
		m.renewed(m.record(), now, now, errors.New("lost"))
		m.take(now)
		m.renewed(m.record(), now, now, nil)
		m.take(now)
		if gate.open != opened {
			t.Errorf("epoch %d: with a lease of it, open are %v", n, gate.open.list())
		}
	}
	step(1, ofWords("me", "me", "a"), set{}, words(0, 1))
	step(2, ofWords("me", "a", "me"), words(0), words(0, 2))
	step(2, ofWords("me", "a", "me"), words(0, 2), words(0, 2))
	step(4, ofWords("me", "a", "me", "me"), set{}, words(0, 2, 3))
	m.view.restarted()
	m.saw(Event{Complete: true}, now)
	if m.epoch != (Epoch{}) || !gate.open.empty() {
		t.Errorf("the store has lost all, and the member follows %+v, with %v open", m.epoch, gate.open.list())
	}
	m.claim = 3
	m.saw(Event{Record: Record{Member: "me", Process: 9, Claim: 3, Epoch: epoch(4)}}, now)
	if m.replaced || !m.started {
		t.Error("its own record is taken for another's")
	}
	m.saw(Event{Record: Record{Member: "me", Process: 7, Claim: 1, Epoch: epoch(4)}}, now)
	if m.replaced || m.started || m.claim != 3 {
		t.Error("a record from before it had its name, of a store that was set back, is taken for another process's")
	}
	m.started = true
	m.saw(Event{Record: Record{Member: "me", Process: 10, Claim: 4, Epoch: epoch(4)}}, now)
	if !m.replaced {
		t.Error("another process has the name, unnoticed")
	}
}

// Whoever waits for a silence has waited until a lease has run out by the slowest clock, while its own is the fastest, with all
// drifts that there may be; and for a worker's last burst.
func TestSilenceOutlastsLeases(t *testing.T) {
	for _, drift := range []float64{0, DefaultDrift, 0.01, 0.1} {
		c := Config{Name: "a", Store: emptyStore{}, Gate: &openGate{}, Drift: drift}
		if err := c.complete(); err != nil {
			t.Fatal(err)
		}
		lasts := time.Duration(float64(c.Lease) * (1 + c.Drift) / (1 - c.Drift))
		if rest := c.silence() - lasts; rest < c.Lease/200 || rest > c.Lease/20 {
			t.Errorf("with a drift of %v the silence is %v longer than a lease", c.Drift, rest)
		}
	}
}
