// SPDX-License-Identifier: Apache-2.0

package bridges

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// subnet is a list of bridges that a test changes.
type subnet struct {
	mu        sync.Mutex
	announced []ibside.Bridge
	all       []ibside.Bridge
	err       error
}

func (s *subnet) Announce(_ context.Context, b ibside.Bridge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = append(s.announced, b)
	return s.err
}

func (s *subnet) Bridges(context.Context) ([]ibside.Bridge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all), s.err
}

func (s *subnet) set(err error, all ...ibside.Bridge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.all = err, all
}

// dropped is what tables and workers are to drop.
type dropped struct {
	bridges []tables.Bridge
	macs    [][6]byte
}

func (d *dropped) SetBridges(all []tables.Bridge) error { d.bridges = all; return nil }

func (d *dropped) setMACs(all [][6]byte) error { d.macs = all; return nil }

var (
	ownGID, gidA, gidB = ib.GID{15: 9}, ib.GID{15: 1}, ib.GID{15: 2}
	ownMAC             = frame.MAC{2, 5: 9}
	macA, macB         = [6]byte{2, 5: 1}, [6]byte{2, 5: 2}
)

type rig struct {
	*List
	subnet  *subnet
	dropped dropped
	macs    []frame.MAC
	fleet   ibside.Fleet
	inbox   *inbox.Inbox
	now     time.Time
}

func newRig(t *testing.T) *rig {
	r := &rig{subnet: &subnet{}, inbox: inbox.New(16, errors.New("ended")), now: time.Now(), macs: []frame.MAC{ownMAC}}
	asker := ask.New(r.inbox)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); asker.Wait() })
	asker.Start(ctx)
	r.List = New(Deps{
		Port: r.subnet, Own: func() ibside.Own { return ibside.Own{GIDs: []ib.GID{ownGID}} }, Instance: 7,
		MACs: func() []frame.MAC { return r.macs }, Fleet: func() ibside.Fleet { return r.fleet }, Tables: &r.dropped, SetMACs: r.dropped.setMACs, Ask: asker,
		Log: ratelog.New(slog.New(slog.DiscardHandler)),
	})
	r.PortsCame(r.now.Add(-time.Hour))
	return r
}

// turn reads the list once.
func (r *rig) turn() {
	r.now = r.now.Add(Every)
	r.Tick(r.now)
	(<-r.inbox.C())()
}

func TestOthers(t *testing.T) {
	r := newRig(t)
	mine, second := ibside.Bridge{Instance: 7, GID: ib.GID{15: 8}}, ibside.Bridge{GID: ownGID}
	a := ibside.Bridge{Instance: 1, GID: gidA, LID: 4, MACs: [][6]byte{macA, ownMAC, {}, {1}}}
	more := a
	more.MACs = [][6]byte{macB}
	for _, step := range []struct {
		name    string
		err     error
		all     []ibside.Bridge
		gids    []ib.GID
		macs    [][6]byte
		bridges int
	}{
		{"alone", nil, []ibside.Bridge{mine, second}, nil, nil, 0},
		{"another, by two records", nil, []ibside.Bridge{mine, a, more}, []ib.GID{gidA}, [][6]byte{macA, macB}, 1},
		{"no answer", errors.New("no answer"), nil, []ib.GID{gidA}, [][6]byte{macA, macB}, 1},
		{"its second port", nil, []ibside.Bridge{{Instance: 1, GID: gidB}, a}, []ib.GID{gidA, gidB}, [][6]byte{macA}, 1},
		{"two others", nil, []ibside.Bridge{{Instance: 2, GID: gidB}, a}, []ib.GID{gidA, gidB}, [][6]byte{macA}, 2},
		{"one has gone", nil, []ibside.Bridge{a}, []ib.GID{gidA, gidB}, [][6]byte{macA}, 2},
		{"the other, too", nil, nil, []ib.GID{gidA, gidB}, [][6]byte{macA}, 2},
	} {
		r.subnet.set(step.err, step.all...)
		r.turn()
		var gids []ib.GID
		for _, b := range r.dropped.bridges {
			gids = append(gids, b.GID)
		}
		if !slices.Equal(gids, step.gids) || !slices.Equal(r.dropped.macs, step.macs) || len(r.All()) != step.bridges {
			t.Errorf("%s: GIDs %v, MACs %v, bridges %v", step.name, gids, r.dropped.macs, r.All())
		}
	}
}

// TestHidden: a record that somebody writes with a bridge's GID does not hide the bridge.
func TestHidden(t *testing.T) {
	r := newRig(t)
	a := ibside.Bridge{Instance: 5, GID: gidA, MACs: [][6]byte{macA}}
	for _, forged := range []uint64{1, 99} {
		r.subnet.set(nil, ibside.Bridge{Instance: forged, GID: gidA}, a)
		r.turn()
		is := slices.ContainsFunc(r.All(), func(b Bridge) bool { return b.Instance == 5 && slices.Equal(b.GIDs, []ib.GID{gidA}) })
		if !is || len(r.dropped.bridges) != 1 || !slices.Equal(r.dropped.macs, [][6]byte{macA}) {
			t.Errorf("beside %d: %+v, %+v", forged, r.All(), r.dropped)
		}
	}
}

// TestFleets: what a bridge says of its fleet is known, and what it says later, too.
func TestFleets(t *testing.T) {
	r := newRig(t)
	for _, of := range []ibside.Fleet{{}, {Name: 5, Founded: 6}, {Name: 5, Founded: 7}, {}} {
		r.subnet.set(nil, ibside.Bridge{Instance: 1, GID: gidA, Fleet: of})
		r.turn()
		if all := r.All(); len(all) != 1 || all[0].Fleet != of {
			t.Errorf("%+v: %+v", of, all)
		}
	}
}

// A bridge that is not listed any more counts for some time, without its LID.
func TestKept(t *testing.T) {
	r := newRig(t)
	r.subnet.set(nil, ibside.Bridge{Instance: 1, GID: gidA, LID: 4, MACs: [][6]byte{macA}})
	r.turn()
	r.subnet.set(nil)
	for end := r.now.Add(Keep - Every); r.now.Before(end); {
		r.turn()
		if b := r.dropped.bridges; len(b) != 1 || b[0] != (tables.Bridge{GID: gidA}) {
			t.Fatalf("%v before it is gone: %v", end.Sub(r.now), b)
		}
	}
	r.turn()
	if len(r.dropped.bridges) != 0 || len(r.dropped.macs) != 0 || len(r.All()) != 0 {
		t.Errorf("after %v: %v, %v", Keep, r.dropped, r.All())
	}
}

func TestAnnounced(t *testing.T) {
	r := newRig(t)
	r.subnet.set(errors.New("no answer"))
	r.turn()
	r.subnet.set(nil)
	r.turn()
	r.turn()
	r.macs = append(r.macs, frame.MAC{2, 5: 10})
	r.turn()
	r.fleet = ibside.Fleet{Name: 5, Founded: 6}
	r.turn()
	r.turn()
	one, two := [][6]byte{ownMAC}, [][6]byte{ownMAC, {2, 5: 10}}
	want := []ibside.Bridge{{Instance: 7, MACs: one}, {Instance: 7, MACs: one}, {Instance: 7, MACs: two}, {Instance: 7, MACs: two, Fleet: r.fleet}}
	if !slices.EqualFunc(r.subnet.announced, want, same) {
		t.Errorf("announced %v, want %v", r.subnet.announced, want)
	}
	r.Tick(r.now.Add(Every / 2))
	if r.asking {
		t.Error("the list is read too often")
	}
	r.PortsCame(r.now)
	r.now = r.now.Add(everyAtNews - Every)
	r.turn()
	if r.Tick(r.now.Add(everyAtNews / 2)); r.asking {
		t.Error("the list is read too often when a port has come")
	}
	(*List)(nil).Tick(r.now)
}
