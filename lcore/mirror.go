// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "mirror/mirror.h"
// #include "mirror/ring.h"
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

// A MirroredPacket is a copy of a packet at a mirror point.
type MirroredPacket struct {
	Time      time.Time
	Packet    uint64 // the same in all copies of one packet
	Worker    int
	Direction Direction
	Point     Point
	Drop      Drop  // the drop reason, with Dropped; DropMADServed, with a MAD ToManagement
	Side      Side  // what Data is of
	Port      uint8 // of a frame: the index of its Ethernet port
	// PortName is the name of a frame's port; filled in by package bridge; "": there is one.
	PortName string
	// IB is the descriptor of a message at the InfiniBand port; nil at the Ethernet port.
	IB *MirroredIB
	// Len is how long the frame or the payload was; Data is its beginning, up to the mirror's snap length.
	Len  int
	Data []byte
}

// MirroredIB is the descriptor of a message at the InfiniBand port. What the port does not know is zero.
type MirroredIB struct {
	Known            bool   // there was a descriptor; without one, there are only Area and payload
	QP               uint32 // the sending queue pair, by the port's number
	QPN              ib.QPN // the proxy QP's, or the local one that received
	Peer             ib.QPN // the other end's
	QKey             ib.QKey
	SGID, DGID       ib.GID // the bridge's own GID and LID are filled in by package bridge
	SLID, DLID       ib.LID
	SL               ib.SL
	PKey             ib.PKey
	Partition        uint8 // as the bridge numbers them
	GRH              bool  // it has a network header
	TClass, HopLimit uint8
	FlowLabel        uint32
	HasImm           bool
	Imm              uint32
	Solicited, FECN  bool
	Source           uint8  // the port's number for the GID that it is sent from
	Port             uint8  // of several, by which it was received
	Ports            string // their names, also of those that it is sent by; filled in by package bridge; "": there is one
	Area             []byte // the 40 bytes before a received payload; shorter when the completion was
}

// MaxMirrors is how many mirrors there may be at a time.
const MaxMirrors = C.MAX_MIRRORS

// MirrorOptions says what a mirror copies.
type MirrorOptions struct {
	Filter Filter
	Snap   int // bytes kept of a packet; 0: all
	Slots  int // packets that each worker's ring has room for; 0: what fits in ringBytes
	// Sampled: a sample is enough. Rings are small and read once a millisecond, so that the mirror costs next to nothing
	// at any rate; what does not fit is missed.
	Sampled bool
	Began   func() // called once, when every packet from then on is mirrored; may be nil
}

const (
	wholePacket = DataRoom - Headroom
	mostSnap    = 16384
	ringBytes   = 4 << 20
	leastSlots  = 64
	mostSlots   = 8192
	sampleSlots = 64
	mirrorPause = time.Millisecond     // between polls of empty rings
	mirrorDelay = 2 * time.Millisecond // packets are kept so long, to be sorted with older ones from other rings
)

func (o *MirrorOptions) fill() {
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

// mirrors are the mirrors of a datapath.
type mirrors struct {
	mu         sync.Mutex
	list       []*mirror
	management *C.struct_mirrors // for pending packets that it drops
	n          atomic.Int32      // len(list), read without the lock
	ended      bool
}

// A mirror has a ring for each worker, and one for management.
type mirror struct {
	options MirrorOptions
	mu      sync.Mutex // of what follows
	rings   []*C.struct_mirror_ring
	pending []MirroredPacket // taken from the rings, by time
	missed  uint64
}

// ErrTooManyMirrors says that there are MaxMirrors already.
var ErrTooManyMirrors = errors.New("lcore: there are four mirrors already; end one of them (captures, traces)")

// Mirror calls see for each packet that passes the filter, in order of time, until ctx ends or see returns false.
// missed is how many there was no room for, because see was too slow. The packets themselves are not delayed. It
// returns nil when the datapath is closed meanwhile.
func (dp *Datapath) Mirror(ctx context.Context, o MirrorOptions, see func(MirroredPacket) bool) (missed uint64, err error) {
	o.fill()
	w, err := dp.addMirror(o)
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
			dp.removeMirror(w)
			return w.missed, nil
		}
		if !open {
			return w.missed, nil
		}
		if len(ready) > 0 && !o.Sampled && ctx.Err() == nil {
			continue
		}
		timer.Reset(mirrorPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			dp.removeMirror(w)
			rest, _ := w.take(true)
			deliver(rest, see)
			return w.missed, nil
		}
	}
}

func deliver(mirrors []MirroredPacket, see func(MirroredPacket) bool) bool {
	for _, s := range mirrors {
		if !see(s) {
			return false
		}
	}
	return true
}

// take returns the packets that are old enough to be in order, or all, and whether there may be more.
func (m *mirror) take(all bool) (ready []MirroredPacket, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open = m.rings != nil
	cutoff := time.Now().Add(-mirrorDelay)
	if open {
		m.drain()
	}
	n := len(m.pending)
	if open && !all {
		n, _ = slices.BinarySearchFunc(m.pending, cutoff, func(s MirroredPacket, t time.Time) int { return s.Time.Compare(t) })
	}
	ready, m.pending = m.pending[:n:n], m.pending[n:]
	return ready, open
}

func (m *mirror) sort() {
	slices.SortStableFunc(m.pending, func(a, b MirroredPacket) int { return a.Time.Compare(b.Time) })
}

// endMirrors ends all mirrors, without waiting for any callback, and allows no new ones.
func (dp *Datapath) endMirrors() {
	dp.mirrors.mu.Lock()
	defer dp.mirrors.mu.Unlock()
	dp.mirrors.ended = true
	all := dp.mirrors.list
	dp.mirrors.list = nil
	dp.publish()
	for _, w := range all {
		w.close()
	}
}

// addMirror adds a mirror while workers run.
func (dp *Datapath) addMirror(o MirrorOptions) (*mirror, error) {
	g := &dp.mirrors
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended:
		return nil, errors.New("lcore: the bridge has ended; nothing passes any more")
	case len(g.list) >= MaxMirrors:
		return nil, ErrTooManyMirrors
	}
	w, err := newMirror(o, len(dp.workers)+1)
	if err != nil {
		return nil, err
	}
	g.list = append(g.list, w)
	dp.publish()
	return w, nil
}

func (dp *Datapath) removeMirror(w *mirror) {
	g := &dp.mirrors
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.list, w)
	if i < 0 {
		return // the datapath has been closed, and the mirror with it
	}
	g.list = slices.Delete(g.list, i, i+1)
	dp.publish()
	w.close()
}
