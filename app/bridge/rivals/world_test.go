// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/config"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/bridges"
)

// world has bridges on both fabrics, or on one. Messages take 1 ms.
type world struct {
	mu  sync.Mutex
	all []*station
	lag time.Duration // after which those that are there have read of one that comes

	extra    func() bridges.Bridge // nil: no other record
	overhear func(data []byte)     // what comes over Ethernet; nil: nobody does
}

// station is a bridge of the world.
type station struct {
	w        *world
	number   int
	at       time.Time // when it came
	r        *Rivals
	cfg      *config.Config
	fleet    ibside.Fleet
	record   ibside.Fleet // what is listed of it
	away     bool
	ethernet bool          // it is on the others' Ethernet
	dead     bool          // it is listed, and says nothing
	slow     time.Duration // how long it takes to leave, or to take up, what it carries
	carries  bool
	log      strings.Builder
	end      context.CancelFunc
}

func gidOf(n int) ib.GID    { return ib.GID{0xfe, 0x80, 15: byte(n)} }
func macOf(n int) frame.MAC { return frame.MAC{2, 5: byte(n)} }

// parsed is a configuration with groups and nodes of some last bytes.
func parsed(t *testing.T, name string, beside []string, groups, nodes []int) *config.Config {
	t.Helper()
	text := fmt.Sprintf("[bridge]\nname = %q\n", name)
	if beside != nil {
		text += fmt.Sprintf("beside = [\"%s\"]\n", strings.Join(beside, `", "`))
	}
	text += "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n[policy]\nallow = [\"10.9.0.0/24\"]\n"
	for _, n := range groups {
		text += fmt.Sprintf("[[group]]\nip = \"239.0.%d.%d\"\nmgid = \"rdmacm\"\n", n>>8, n&0xff)
	}
	for _, n := range nodes {
		text += fmt.Sprintf("[[host]]\nip = \"10.9.0.%d\"\nside = \"ib\"\ngid = \"fe80::%x\"\n", n, 0x100+n)
	}
	cfg, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// come starts a bridge, as with makes it. It is listed from now on.
func (w *world) come(t *testing.T, cfg *config.Config, fleet string, founded uint64, with ...func(*station)) *station {
	w.mu.Lock()
	n := len(w.all) + 1
	s := &station{w: w, number: n, cfg: cfg, ethernet: true, at: time.Now()}
	if fleet != "" {
		s.fleet = ibside.Fleet{Name: uint64(len(fleet)), Founded: founded}
	}
	s.record = s.fleet
	for _, f := range with {
		f(s)
	}
	w.mu.Unlock()
	s.r = New(Config{
		Name: cfg.Name, Instance: uint64(n), Fleet: fleet, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		InForce: func() *config.Config { return s.locked().cfg },
		Self: func() Self {
			x := s.locked()
			return Self{Fleet: x.fleet, Wants: !x.away, Carries: !x.away, Listed: true, MACs: []frame.MAC{macOf(n)}}
		},
		Others: func() []bridges.Bridge { return w.others(n) },
		Ask:    func(to ib.GID, data []byte) error { w.deliver(s, int(to[15]), false, data); return nil },
		Answer: func(to frame.MAC, data []byte) error { w.deliver(s, int(to[5]), true, data); return nil },
		Bar: func(on bool) error {
			time.Sleep(s.slow)
			s.change(func() { s.carries = !on })
			return nil
		},
	})
	ctx, end := context.WithCancel(t.Context())
	s.end = end
	w.mu.Lock()
	w.all = append(w.all, s)
	w.mu.Unlock()
	go s.r.Run(ctx)
	return s
}

type view struct {
	cfg   *config.Config
	fleet ibside.Fleet
	away  bool
}

func (s *station) locked() view {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return view{s.cfg, s.fleet, s.away}
}

func (s *station) change(f func()) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	f()
}

func (w *world) others(but int) (all []bridges.Bridge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all {
		late := s.at.After(w.all[but-1].at) && time.Since(s.at) < w.lag
		if s.number != but && !late {
			all = append(all, bridges.Bridge{Instance: uint64(s.number), GIDs: []ib.GID{gidOf(s.number)}, MACs: []frame.MAC{macOf(s.number)}, Fleet: s.record})
		}
	}
	if w.extra != nil {
		all = append(all, w.extra())
	}
	return all
}

func (w *world) deliver(from *station, to int, ethernet bool, data []byte) {
	data = slices.Clone(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	if to < 1 || to > len(w.all) {
		return
	}
	s := w.all[to-1]
	if ethernet && w.overhear != nil {
		w.overhear(data)
	}
	if from.dead || s.dead || ethernet && from.ethernet != s.ethernet {
		return
	}
	time.AfterFunc(time.Millisecond, func() { s.r.Received(ethernet, data) })
}

// carrying lists who carries.
func (w *world) carrying() (all []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all {
		if s.carries && !s.dead {
			all = append(all, s.number)
		}
	}
	return all
}

// after lets time pass, in which never more than so many carry at once.
func (w *world) after(t *testing.T, d time.Duration, most int, what string, want ...int) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c := w.carrying(); len(c) > most {
			t.Fatalf("%s: %v carry at once", what, c)
		}
	}
	if got := w.carrying(); !slices.Equal(got, want) {
		t.Errorf("%s: %v carry, want %v", what, got, want)
	}
}

// in runs a test in simulated time.
func in(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &world{}) })
}
