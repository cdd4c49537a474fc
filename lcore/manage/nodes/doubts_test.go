// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"errors"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/nodes"
	"causeway/tables"
)

// TestDoubts checks how often a path is asked for that the subnet does not stand by, and that none is that it does.
func TestDoubts(t *testing.T) {
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 8}
	s.path = ibside.Path{LID: 8, Unconfirmed: true}
	run(t, s, e, []nodes.Node{node(1, 0), node(2, 22)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		asked := func(when string, of, want int) {
			t.Helper()
			s.set(func() {
				if got := s.asked[gid(uint64(of))]; got != want {
					t.Errorf("%s: node %d was asked for %d times, want %d", when, of, got, want)
				}
				clear(s.asked)
			})
		}
		turn(500 * time.Millisecond)
		asked("at first", 1, 1)
		turn(4 * time.Second) // after 1 s and 3 s
		asked("in some seconds", 1, 2)
		turn(58 * time.Second) // after 7 s, 15 s, 31 s
		asked("in a minute", 1, 3)
		turn(10 * time.Minute)
		asked("in ten minutes", 1, 10)
		s.set(func() { s.path = ibside.Path{LID: 9, Unconfirmed: true} })
		n.Renew(time.Now(), all)
		turn(1500 * time.Millisecond)
		asked("another LID, after which it begins anew", 1, 2)
		s.set(func() { s.path = ibside.Path{LID: 10} })
		turn(5 * time.Second)
		asked("then one that it stands by", 1, 1)
		turn(time.Hour)
		asked("from then on", 1, 0)
		if e.all[gid(1)].LID != 10 {
			t.Errorf("the node is at %+v", e.all[gid(1)])
		}
		s.set(func() { s.err = errors.New("no answer") })
		n.Renew(time.Now(), all)
		turn(20 * time.Second)
		s.set(func() { s.err, s.path = nil, ibside.Path{LID: 11} })
		turn(20 * time.Second) // it had lasted for as long
		if e.all[gid(1)].LID != 11 {
			t.Errorf("after a time without answers, the node is at %+v", e.all[gid(1)])
		}
		asked("a configured LID", 2, 0)
	})
}

// TestRejectedPath checks that a node whose path the tables reject is where the next answer says, and that it waits no
// more.
func TestRejectedPath(t *testing.T) {
	s, e := newTeller(), &entries{all: map[ib.GID]tables.Node{}, room: 0}
	run(t, s, e, []nodes.Node{node(1, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		turn(2 * time.Second)
		if n.Waiting() != 1 || len(e.all) != 0 {
			t.Errorf("%d wait, %v", n.Waiting(), e.all)
		}
		s.set(func() { s.path = ibside.Path{LID: 12} })
		n.Renew(time.Now(), all)
		turn(100 * time.Millisecond)
		e.room = 1
		turn(2 * time.Second)
		if n.Waiting() != 0 || e.all[gid(1)].LID != 12 {
			t.Errorf("%d wait, the node is at %+v", n.Waiting(), e.all[gid(1)])
		}
	})
}
