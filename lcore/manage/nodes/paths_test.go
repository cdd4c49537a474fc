// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/nodes"
	"causeway/tables"
)

// teller is Paths that answers when a test wants it to.
type teller struct {
	subnet
	mu    sync.Mutex
	path  ibside.Path
	err   error
	takes time.Duration
	asked map[ib.GID]int
}

func newTeller() *teller {
	return &teller{path: ibside.Path{LID: 8, LMC: 2}, takes: 5 * time.Millisecond, asked: map[ib.GID]int{}}
}

// set changes what is answered from now on.
func (s *teller) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Path answers what was true when it was asked.
func (s *teller) Path(ctx context.Context, g ib.GID, _ ib.PKey) (ibside.Path, error) {
	s.mu.Lock()
	s.asked[g]++
	path, err, takes := s.path, s.err, s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return path, ctx.Err()
	}
	return path, err
}

// TestPathOfNode checks that each part of a path reaches the node's entry, also when it changes.
func TestPathOfNode(t *testing.T) {
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, s, e, []nodes.Node{node(1, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		for i, c := range []struct {
			path ibside.Path
			want tables.Node
		}{
			{ibside.Path{LID: 8, LMC: 2, SL: 1}, tables.Node{LID: 8, LMC: 2, SL: 1, MTU: 4096}},
			{ibside.Path{LID: 8, LMC: 2, SL: 1, MTU: ib.MTU2048}, tables.Node{LID: 8, LMC: 2, SL: 1, MTU: 2048}},
			{ibside.Path{LID: 8, LMC: 2, SL: 1, MTU: ib.MTU4096, Rate: 3}, tables.Node{LID: 8, LMC: 2, SL: 1, MTU: 4096, Rate: 3}},
			{ibside.Path{LID: 8, LMC: 1, SL: 1}, tables.Node{LID: 8, LMC: 1, SL: 1, MTU: 4096}},
			{ibside.Path{LID: 3, HopLimit: 64, GRH: true}, tables.Node{LID: 3, MTU: 4096, HopLimit: 64, GRH: true}},
			{ibside.Path{LID: 3, HopLimit: 1}, tables.Node{LID: 3, MTU: 4096, HopLimit: 1}},
		} {
			s.set(func() { s.path = c.path })
			n.Renew(time.Now(), all)
			turn(100 * time.Millisecond)
			c.want.IP4, c.want.GID = addr(1), gid(1)
			if e.all[gid(1)] != c.want {
				t.Errorf("%d: %+v, want %+v", i, e.all[gid(1)], c.want)
			}
		}
	})
}

// TestConfiguredLID checks the path to a node whose LID is configured: another subnet is behind a router.
func TestConfiguredLID(t *testing.T) {
	near, far := node(1, 11), node(2, 12)
	far.GID = ib.GIDFromGUID(0xfec0<<48|7, 2)
	e := &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, subnet{}, e, []nodes.Node{near, far}, func(*nodes.Nodes, func(time.Duration)) {
		if x := e.all[near.GID]; x.HopLimit != 1 || x.GRH || x.MTU != 4096 {
			t.Errorf("in this subnet: %+v", x)
		}
		if x := e.all[far.GID]; x.HopLimit != 0xff || !x.GRH {
			t.Errorf("in another subnet: %+v", x)
		}
	})
}

// TestStaleLIDs checks that after an event LIDs name nobody until an answer comes to a question from after it, and that
// questions are few.
func TestStaleLIDs(t *testing.T) {
	event := ibside.Renewals{Paths: true, LIDs: true}
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, s, e, []nodes.Node{node(1, 0), node(2, 0), node(3, 33)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		expect := func(when string, one, two tables.LIDState) {
			t.Helper()
			got := fmt.Sprint(e.all[gid(1)].LIDs, e.all[gid(2)].LIDs, e.all[gid(3)].LIDs)
			if want := fmt.Sprint(one, two, tables.LIDsKnown); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		const known, stale, lost = tables.LIDsKnown, tables.LIDsStale, tables.LIDsLost
		s.set(func() { s.takes = time.Second })
		turn(time.Second)
		n.Renew(time.Now(), all)
		turn(500 * time.Millisecond)
		n.Renew(time.Now(), event)
		turn(700 * time.Millisecond)
		expect("answers to questions from before an event", stale, stale)
		turn(time.Second)
		expect("answers to questions from after it", known, known)
		s.set(func() { clear(s.asked) })
		n.Renew(time.Now(), event)
		expect("at once", stale, stale)
		for range 20 {
			n.Renew(time.Now(), event)
			turn(10 * time.Millisecond)
		}
		turn(900 * time.Millisecond)
		expect("with the first answer", stale, stale)
		turn(1200 * time.Millisecond)
		expect("with the second", known, known)
		s.set(func() {
			if s.asked[gid(1)] != 2 {
				t.Errorf("asked %d times in 21 events", s.asked[gid(1)])
			}
		})
		n.Renew(time.Now(), ibside.Renewals{Paths: true, Ports: []ib.GID{gid(2), gid(9)}})
		expect("one port came or went", known, stale)
		turn(1500 * time.Millisecond)
		expect("it is known again", known, known)
		s.set(func() { s.err = errors.New("no answer") })
		n.Renew(time.Now(), all)
		turn(time.Minute)
		expect("no event, and no answer", known, known)
		n.Renew(time.Now(), event)
		turn(time.Minute)
		expect("no answer after an event", stale, stale)
		s.set(func() { s.err = ibside.ErrNoPath })
		n.Renew(time.Now(), all)
		turn(1100 * time.Millisecond)
		expect("no such node", lost, lost)
		s.set(func() { s.err = nil })
		n.Renew(time.Now(), event)
		turn(10 * time.Second)
		expect("it came back", known, known)
	})
}

// TestStaleBeforeKnown checks that the first answer about a node names nobody by its LIDs either, if an event came since the
// question.
func TestStaleBeforeKnown(t *testing.T) {
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	s.takes = time.Second
	run(t, s, e, []nodes.Node{node(1, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		turn(500 * time.Millisecond)
		n.Renew(time.Now(), ibside.Renewals{Paths: true, LIDs: true})
		turn(700 * time.Millisecond)
		if x, there := e.all[gid(1)]; !there || x.LIDs != tables.LIDsStale {
			t.Errorf("with the first answer: %+v, there %t", x, there)
		}
		turn(time.Second)
		if x := e.all[gid(1)]; x.LIDs != tables.LIDsKnown {
			t.Errorf("with the second: %+v", x)
		}
	})
}

// TestKnownAtOnce checks that a node that comes up after it was looked for in vain is known by its LIDs with the first
// answer: that is one to a question from after the event.
func TestKnownAtOnce(t *testing.T) {
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	s.err = ibside.ErrNoPath
	run(t, s, e, []nodes.Node{node(1, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		turn(30 * time.Second)
		s.set(func() { s.err, s.takes = nil, time.Second })
		n.Renew(time.Now(), ibside.Renewals{Paths: true, Ports: []ib.GID{gid(1)}})
		turn(1100 * time.Millisecond)
		if x, there := e.all[gid(1)]; !there || x.LIDs != tables.LIDsKnown {
			t.Errorf("with the first answer: %+v, there %t", x, there)
		}
	})
}

// TestKnownWithNextTry checks the same of a node that went and came back before the question about its going was asked a second
// time.
func TestKnownWithNextTry(t *testing.T) {
	event := ibside.Renewals{Paths: true, Ports: []ib.GID{gid(1)}}
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, s, e, []nodes.Node{node(1, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		turn(time.Second)
		s.set(func() { s.err = ibside.ErrNoPath; clear(s.asked) })
		n.Renew(time.Now(), event)
		turn(20 * time.Millisecond)
		s.set(func() { s.err, s.takes, s.path.LID = nil, time.Second, 9 })
		n.Renew(time.Now(), event)
		turn(1200 * time.Millisecond)
		if x := e.all[gid(1)]; x.LID != 9 || x.LIDs != tables.LIDsKnown {
			t.Errorf("with the first answer since it is back: %+v", x)
		}
		turn(10 * time.Second)
		s.set(func() {
			if s.asked[gid(1)] != 2 {
				t.Errorf("asked %d times", s.asked[gid(1)])
			}
		})
	})
}

// TestLostIsBack checks that a node that the subnet had no more is counted, and asked for at once when a notice says that its port
// is back, wherever the last question's back-off is.
func TestLostIsBack(t *testing.T) {
	event := ibside.Renewals{Paths: true, Ports: []ib.GID{gid(1)}}
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, s, e, []nodes.Node{node(1, 0), node(2, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		lost := func(when string, want int) {
			t.Helper()
			if got := n.Lost(); got != want {
				t.Errorf("%s: %d lost, want %d", when, got, want)
			}
		}
		turn(time.Second)
		lost("at first", 0)
		for _, away := range []time.Duration{20 * time.Millisecond, 2 * time.Second, 20 * time.Second, 5 * time.Minute} {
			s.set(func() { s.err = ibside.ErrNoPath })
			n.Renew(time.Now(), event)
			turn(away)
			lost("it has gone", 2) // the answer is the same for both
			s.set(func() { s.err = nil })
			n.Renew(time.Now(), event)
			turn(time.Second)
			if x := e.all[gid(1)]; x.LIDs != tables.LIDsKnown {
				t.Errorf("away for %v, back for a second: %+v", away, x)
			}
			lost("it is back", 0)
			turn(time.Minute)
		}
		s.set(func() { s.err = ibside.ErrNoPath })
		n.Renew(time.Now(), event)
		turn(time.Second)
		n.Set(nil)
		lost("it is no node any more", 0)
	})
}
