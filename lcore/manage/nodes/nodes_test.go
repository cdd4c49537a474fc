// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

func gid(n uint64) ib.GID { return ib.GIDFromGUID(0xfe80<<48, ib.GUID(n)) }

func addr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, n}) }

func node(n byte, lid ib.LID) nodes.Node {
	return nodes.Node{IP4: addr(n), GID: gid(uint64(n)), LID: lid}
}

// entries are Tables with room for some nodes, which record the calls.
type entries struct {
	all  map[ib.GID]tables.Node
	room int
	did  []string
}

func (e *entries) Put(n tables.Node) (uint32, error) {
	if _, there := e.all[n.GID]; !there && len(e.all) >= e.room {
		return 0, errors.New("full")
	}
	e.all[n.GID] = n
	e.did = append(e.did, fmt.Sprintf("put %v", n.IP4))
	return 0, nil
}

func (e *entries) Delete(ip netip.Addr) error {
	for g, n := range e.all {
		if n.IP4 == ip {
			delete(e.all, g)
		}
	}
	e.did = append(e.did, fmt.Sprintf("delete %v", ip))
	return nil
}

func (e *entries) FindGID(g ib.GID) (tables.Node, uint32, bool) {
	n, ok := e.all[g]
	return n, 0, ok
}

func (e *entries) MarkLIDs(g ib.GID, s tables.LIDState) {
	if n, ok := e.all[g]; ok {
		n.LIDs = s
		e.all[g] = n
	}
}

// subnet is Paths that knows some LIDs.
type subnet map[ib.GID]ib.LID

func (s subnet) Path(_ context.Context, g ib.GID, _ ib.PKey) (ibside.Path, error) {
	if s[g] == 0 {
		return ibside.Path{}, errors.New("no path")
	}
	return ibside.Path{LID: s[g], SL: 1}, nil
}

func (s subnet) Own() ibside.Own { return ibside.Own{GIDs: []ib.GID{gid(0xa)}} }

// all is what a subnet tells once a minute.
var all = ibside.Renewals{Paths: true}

// run runs a test with Nodes on a fake clock. turn runs the loop for a time.
func run(t *testing.T, s nodes.Paths, e *entries, configured []nodes.Node, test func(n *nodes.Nodes, turn func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		in := inbox.New(256, errors.New("ended"))
		a := ask.New(in)
		ctx, stop := context.WithCancel(context.Background())
		a.Start(ctx)
		n := nodes.New(configured, nodes.Deps{
			Tables: e, Paths: s, MTU: 4096, Ask: a, Log: ratelog.New(slog.New(slog.NewTextHandler(io.Discard, nil))), Changed: func() {},
			Reclaim: func() int { return 0 },
			Readdress: func(added, removed []netip.Addr) {
				e.did = append(e.did, fmt.Sprint("added ", added, " removed ", removed))
			},
		})
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		test(n, func(d time.Duration) {
			for range d / (10 * time.Millisecond) {
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				in.DoPending()
				n.Tick(time.Now())
			}
		})
		stop()
		a.Wait()
	})
}

// TestPaths checks that a node with a LID is in the tables at once, another one when its path is known, and that
// changes of the path are followed.
func TestPaths(t *testing.T) {
	s, e := subnet{}, &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, s, e, []nodes.Node{node(1, 11), node(2, 0)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		if len(e.all) != 1 || n.Waiting() != 1 || !n.Has(addr(2)) || n.GID(addr(2)) != gid(2) || n.Has(addr(3)) {
			t.Errorf("at first %v, %d wait", e.all, n.Waiting())
		}
		turn(5 * time.Second)
		s[gid(2)] = 22
		n.Renew(time.Now(), all) // queries at once, not after the back-off
		turn(100 * time.Millisecond)
		if e.all[gid(2)].LID != 22 || n.Waiting() != 0 {
			t.Errorf("resolved %+v, %d wait", e.all[gid(2)], n.Waiting())
		}
		s[gid(2)] = 23
		n.Renew(time.Now(), all)
		turn(100 * time.Millisecond)
		delete(s, gid(2)) // the node keeps its old path
		n.Renew(time.Now(), all)
		turn(20 * time.Second)
		if e.all[gid(2)].LID != 23 || e.all[gid(1)].LID != 11 {
			t.Errorf("moved %v", e.all)
		}
	})
}

// TestSet checks that nodes are removed first, that others are told of the addresses before nodes are added, and that a
// node that changes stays in the tables.
func TestSet(t *testing.T) {
	e := &entries{all: map[ib.GID]tables.Node{}, room: 8}
	run(t, subnet{}, e, []nodes.Node{node(1, 11), node(2, 12)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		e.did = nil
		n.Set([]nodes.Node{node(2, 22), node(3, 13)})
		want := []string{"delete 10.9.0.1", "added [10.9.0.3] removed [10.9.0.1]", "put 10.9.0.2", "put 10.9.0.3"}
		if !slices.Equal(e.did, want) || e.all[gid(2)].LID != 22 {
			t.Errorf("did %q, want %q", e.did, want)
		}
	})
}

// TestRoom checks that a node for which the tables have no room waits, and is added when there is room.
func TestRoom(t *testing.T) {
	e := &entries{all: map[ib.GID]tables.Node{}, room: 1}
	run(t, subnet{}, e, []nodes.Node{node(1, 11)}, func(n *nodes.Nodes, turn func(time.Duration)) {
		n.Set([]nodes.Node{node(1, 11), node(2, 12)})
		turn(2 * time.Second)
		if n.Waiting() != 1 || len(e.all) != 1 {
			t.Errorf("%d wait, %v", n.Waiting(), e.all)
		}
		e.room = 2
		turn(2 * time.Second)
		if n.Waiting() != 0 || len(e.all) != 2 {
			t.Errorf("%d wait, %v", n.Waiting(), e.all)
		}
	})
}
