// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_cycles.h>
// #include <rte_mbuf.h>
// #include <stdlib.h>
// #include "setup.h"
// #include "sight/ring.h"
// static void watch_add(struct sights *s, struct sight_filter f, struct sight_ring *r)
// {
//	s->watcher[s->n].filter = f;
//	s->watcher[s->n++].ring = r;
// }
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"causeway/ibside/ib"
	_ "causeway/lcore/sight" // whose C the workers call
)

func newWatcher(o Watch, rings int) (*watcher, error) {
	if rc := C.sight_prepare(); rc != 0 {
		return nil, fmt.Errorf("lcore: no room in packets for their number: %w", syscall.Errno(-rc))
	}
	w := &watcher{options: o}
	for range rings {
		r := C.sight_ring_new(C.uint32_t(o.Slots), C.uint32_t(o.Snap))
		if r == nil {
			w.free()
			return nil, errors.New("lcore: no memory to watch with; ask for shorter packets (snap)")
		}
		w.rings = append(w.rings, r)
	}
	return w, nil
}

func (w *watcher) free() {
	for _, r := range w.rings {
		C.sight_ring_free(r)
	}
	w.rings = nil
}

// close reads the rings for the last time and frees them. No worker knows them any more.
func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	for _, r := range w.rings {
		w.missed += uint64(C.sight_ring_missed(r))
	}
	w.free()
}

// sightsFor makes what worker i, or management, is to know of all watchers; nil: there are none.
func (b *Bench) sightsFor(i int) *C.struct_sights {
	if len(b.watching.list) == 0 {
		return nil
	}
	s := (*C.struct_sights)(C.calloc(1, C.sizeof_struct_sights)) // never nil: Go's calloc ends the program first
	s.tables = b.c.tables
	for _, w := range b.watching.list {
		C.watch_add(s, w.options.Filter.c(), w.rings[i])
	}
	return s
}

// publish has everybody see for those who are in the list, and waits until no worker sees for who was before.
func (b *Bench) publish() {
	b.watching.n.Store(int32(len(b.watching.list)))
	old := []*C.struct_sights{b.watching.management}
	b.watching.management = b.sightsFor(len(b.workers))
	for i, w := range b.workers {
		old = append(old, C.sight_exchange(w.c, b.sightsFor(i)))
	}
	if len(b.workers) > 0 {
		any := b.workers[0].c
		for token := C.sight_token(any); !bool(C.sight_passed(any, token)); {
			time.Sleep(50 * time.Microsecond)
		}
	}
	for _, s := range old {
		C.free(unsafe.Pointer(s))
	}
}

func (f *Filter) c() C.struct_sight_filter {
	c := C.struct_sight_filter{doors: C.SIGHT_ROCE | C.SIGHT_IB, directions: 3, points: 0xff, drop: C.uint8_t(f.Drop), qpn: C.uint32_t(f.QPN)}
	if f.Direction != BothWays {
		c.directions = 1 << (f.Direction - 1)
	}
	if f.Door != AnyDoor {
		c.doors = C.uint8_t(f.Door)
	}
	if f.Point != 0 {
		c.points = 1 << f.Point
	}
	if f.AnyDrop {
		c.points &= 1 << Dropped
	}
	c.by_qpn = f.QPN != 0
	c.by_host, c.host = filterAddress(f.Host)
	c.by_group, c.group = filterAddress(f.Group)
	return c
}

func filterAddress(a netip.Addr) (set C.bool, out [16]C.uint8_t) {
	if !a.IsValid() {
		return false, out
	}
	return true, mapped(a)
}

// sawRefused shows a held frame that management drops.
func (b *Bench) sawRefused(m *C.struct_rte_mbuf, worker int, d Drop) {
	if b.watching.n.Load() == 0 {
		return
	}
	b.watching.mu.Lock()
	defer b.watching.mu.Unlock()
	if s := b.watching.management; s != nil {
		C.sight_refused(s, C.uint16_t(worker), uint32(d), m)
	}
}

// drain moves what lies in the rings to pending.
func (w *watcher) drain() {
	now, tsc, hz := time.Now(), uint64(C.rte_rdtsc()), float64(TSCHz())
	for _, r := range w.rings {
		for range w.options.Slots { // no more than there were: a worker may be faster than this
			s := C.sight_ring_peek(r)
			if s == nil {
				break
			}
			seen := sightOf(s)
			seen.Time = now.Add(-time.Duration(float64(int64(tsc-uint64(s.tsc))) / hz * 1e9))
			w.pending = append(w.pending, seen)
			C.sight_ring_pop(r)
		}
	}
	w.sort()
}

// sightOf copies a slot.
func sightOf(c *C.struct_sight) Sight {
	s := Sight{
		Packet: uint64(c.packet), Worker: int(c.worker), Direction: Direction(c.direction), Point: Point(c.point), Drop: Drop(c.drop),
		Door: RoCEDoor, Len: int(c.len), Data: C.GoBytes(unsafe.Add(unsafe.Pointer(c), C.sizeof_struct_sight), C.int(c.kept)),
	}
	if c.form == C.SIGHT_FRAME {
		return s
	}
	s.Door, s.IB = IBDoor, sightIBOf(&c.ib)
	if c.form == C.SIGHT_SEND {
		s.IB.DGID, s.IB.DLID = ib.GID(C.GoBytes(unsafe.Pointer(&c.ib.dgid[0]), 16)), ib.LID(c.ib.lid)
		s.IB.GRH = c.ib.flags&C.IB_SEND_GRH != 0
		s.IB.FECN, s.IB.Solicited, s.IB.HasImm = c.ib.flags&C.IB_SEND_FECN != 0, c.ib.flags&C.IB_SEND_SOLICITED != 0, c.ib.flags&C.IB_SEND_IMM != 0
		return s
	}
	s.IB.SLID, s.IB.GRH = ib.LID(c.ib.lid), c.ib.flags&C.IB_RECV_GRH != 0
	s.IB.FECN, s.IB.Solicited, s.IB.HasImm = c.ib.flags&C.IB_RECV_FECN != 0, c.ib.flags&C.IB_RECV_SOLICITED != 0, c.ib.flags&C.IB_RECV_IMM != 0
	n := min(len(s.Data), C.IB_GRH_LEN)
	s.IB.Area, s.Data = s.Data[:n:n], s.Data[n:]
	s.Len -= min(s.Len, C.IB_GRH_LEN)
	s.IB.readArea()
	return s
}

func sightIBOf(c *C.struct_sight_ib) *SightIB {
	return &SightIB{
		Known: bool(c.known), QP: uint32(c.qp), QPN: ib.QPN(c.qpn), Peer: ib.QPN(c.peer), QKey: ib.QKey(c.qkey), SL: ib.SL(c.sl),
		PKeyIndex: uint16(c.pkey_index), TClass: uint8(c.tclass), HopLimit: uint8(c.hop_limit), FlowLabel: uint32(c.flow_label),
		Imm: uint32(c.imm), Source: uint8(c.source),
	}
}

// readArea reads the network header that came with a message.
func (s *SightIB) readArea() {
	g, ok := ib.AsGRH(s.Area)
	switch {
	case !ok || !s.GRH:
	case g.IPVer() == 6:
		s.SGID, s.DGID, s.TClass, s.HopLimit, s.FlowLabel = g.SGID(), g.DGID(), g.TClass(), g.HopLimit(), g.FlowLabel()
	case s.Area[20]>>4 == 4: // a RoCE device's
		s.SGID = ib.GIDFromAddr(netip.AddrFrom4([4]byte(s.Area[32:36])))
		s.DGID = ib.GIDFromAddr(netip.AddrFrom4([4]byte(s.Area[36:40])))
		s.TClass, s.HopLimit = s.Area[21], s.Area[28]
	}
}
