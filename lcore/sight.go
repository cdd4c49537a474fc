// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "sight/ring.h"
import "C"

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

// A Sight is a copy of a packet at a point of its way.
type Sight struct {
	Time      time.Time
	Packet    uint64 // the same in all sights of one packet
	Worker    int
	Direction Direction
	Point     Point
	Drop      Drop // why it died, with Dropped; the service, with ToManagement
	Door      Door // what Data is of
	// IB is what comes with a message of the InfiniBand door; nil at the other.
	IB *SightIB
	// Len is how long the frame or the payload was; Data is its beginning, up to the watch's snap length.
	Len  int
	Data []byte
}

// SightIB is what a message of the InfiniBand door is accompanied by. What a door does not tell is zero.
type SightIB struct {
	Known            bool   // there was a descriptor: without one, only Area and payload are there
	QP               uint32 // the sending queue pair, by the door's number
	QPN              ib.QPN // the stand-in's, or the local one that received
	Peer             ib.QPN // the other end's
	QKey             ib.QKey
	SGID, DGID       ib.GID // a bridge's own GID and LID are filled in by who knows them
	SLID, DLID       ib.LID
	SL               ib.SL
	PKey             ib.PKey
	PKeyIndex        uint16 // of a send
	GRH              bool   // it has a network header
	TClass, HopLimit uint8
	FlowLabel        uint32
	HasImm           bool
	Imm              uint32
	Solicited, FECN  bool
	Source           uint8  // which of the port's GIDs it is sent from, by the door's number
	Area             []byte // the 40 bytes before a received payload; shorter when the completion was
}

// MaxWatchers is how many may watch at once.
const MaxWatchers = C.MAX_WATCHERS

// A Watch is what a watcher asks for.
type Watch struct {
	Filter Filter
	Snap   int // bytes kept of a packet; 0: all
	Slots  int // sights that each worker has room for; 0: what fits ringBytes
	// Sampled: an idea is enough. Workers have room for few sights and are looked at each millisecond, so that it costs next to
	// nothing however much passes; missed is the rest.
	Sampled bool
	Began   func() // called once when everything from then on is seen; may be nil
}

const (
	wholePacket = DataRoom - Headroom
	mostSnap    = 16384
	ringBytes   = 4 << 20
	leastSlots  = 64
	mostSlots   = 8192
	sampleSlots = 64
	watchPause  = time.Millisecond     // between looks at empty rings
	watchHold   = 2 * time.Millisecond // a sight is held back so long, for others' that are older
)

func (o *Watch) fill() {
	if o.Snap <= 0 {
		o.Snap = wholePacket
	}
	o.Snap = min(o.Snap, mostSnap)
	if o.Sampled {
		o.Slots = sampleSlots
	}
	if o.Slots <= 0 {
		o.Slots = min(max(ringBytes/o.Snap, leastSlots), mostSlots)
	}
	o.Slots = 1 << bits.Len(uint(o.Slots-1)) // as the ring has it
}

// watching is who watches a bench.
type watching struct {
	mu         sync.Mutex
	list       []*watcher
	management *C.struct_sights // what becomes of held frames there
	n          atomic.Int32     // len(list), for those who only want to know that it is 0
	ended      bool
}

// A watcher has a ring a worker, and one for management.
type watcher struct {
	options Watch
	mu      sync.Mutex // of what follows
	rings   []*C.struct_sight_ring
	pending []Sight // taken from the rings, by time
	missed  uint64
}

// ErrWatched says that there are as many watchers as there may be.
var ErrWatched = errors.New("lcore: four are watching already; end one of them (captures, traces)")

// Watch calls see for each sight that the filter passes, in order of time, until ctx ends or see returns false. missed
// is how many there was no room for, because see was too slow. What passes through the bridge does not notice. It returns
// nil when the bench is closed meanwhile.
func (b *Bench) Watch(ctx context.Context, o Watch, see func(Sight) bool) (missed uint64, err error) {
	o.fill()
	w, err := b.attach(o)
	if err != nil {
		return 0, err
	}
	if o.Began != nil {
		o.Began()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		ready, open := w.take(false)
		if !deliver(ready, see) {
			b.detach(w)
			return w.missed, nil
		}
		if !open {
			return w.missed, nil
		}
		if len(ready) > 0 && !o.Sampled && ctx.Err() == nil {
			continue
		}
		timer.Reset(watchPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			b.detach(w)
			rest, _ := w.take(true)
			deliver(rest, see)
			return w.missed, nil
		}
	}
}

func deliver(sights []Sight, see func(Sight) bool) bool {
	for _, s := range sights {
		if !see(s) {
			return false
		}
	}
	return true
}

// take returns what has been seen and is old enough, and whether there may be more. all: whatever its age.
func (w *watcher) take(all bool) (ready []Sight, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open = w.rings != nil
	cutoff := time.Now().Add(-watchHold)
	if open {
		w.drain()
	}
	n := len(w.pending)
	if open && !all {
		n, _ = slices.BinarySearchFunc(w.pending, cutoff, func(s Sight, t time.Time) int { return s.Time.Compare(t) })
	}
	ready, w.pending = w.pending[:n:n], w.pending[n:]
	return ready, open
}

func (w *watcher) sort() {
	slices.SortStableFunc(w.pending, func(a, b Sight) int { return a.Time.Compare(b.Time) })
}

// unwatch ends all watches, without waiting for anybody's see, and lets nobody watch any more.
func (b *Bench) unwatch() {
	b.watching.mu.Lock()
	defer b.watching.mu.Unlock()
	b.watching.ended = true
	all := b.watching.list
	b.watching.list = nil
	b.publish()
	for _, w := range all {
		w.close()
	}
}

// attach adds a watcher, under the eyes of workers.
func (b *Bench) attach(o Watch) (*watcher, error) {
	g := &b.watching
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended:
		return nil, errors.New("lcore: the bridge has ended; nothing passes any more")
	case len(g.list) >= MaxWatchers:
		return nil, ErrWatched
	}
	w, err := newWatcher(o, len(b.workers)+1)
	if err != nil {
		return nil, err
	}
	g.list = append(g.list, w)
	b.publish()
	return w, nil
}

func (b *Bench) detach(w *watcher) {
	g := &b.watching
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.list, w)
	if i < 0 {
		return // the bench has ended, and the watch with it
	}
	g.list = slices.Delete(g.list, i, i+1)
	b.publish()
	w.close()
}
