// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_cycles.h>
// #include <rte_mbuf.h>
// #include <stdlib.h>
// #include "setup.h"
// #include "mirror/mirror.h"
// #include "mirror/number.h"
// #include "mirror/ring.h"
// static void mirrors_add(struct mirrors *s, struct mirror_filter f, struct mirror_ring *r)
// {
//	s->mirror[s->n].filter = f;
//	s->mirror[s->n++].ring = r;
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
	_ "causeway/lcore/mirror" // workers call its C
)

func newMirror(o MirrorOptions, rings int) (*mirror, error) {
	if rc := C.mirror_prepare(); rc != 0 {
		return nil, fmt.Errorf("lcore: no room in packets for their number: %w", syscall.Errno(-rc))
	}
	w := &mirror{options: o}
	for range rings {
		r := C.mirror_ring_new(C.uint32_t(o.Slots), C.uint32_t(o.Snap))
		if r == nil {
			w.free()
			return nil, errors.New("lcore: no memory for a mirror; ask for shorter packets (snap)")
		}
		w.rings = append(w.rings, r)
	}
	return w, nil
}

func (m *mirror) free() {
	for _, r := range m.rings {
		C.mirror_ring_free(r)
	}
	m.rings = nil
}

// close reads the rings for the last time and frees them. No worker may use them any more.
func (m *mirror) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drain()
	for _, r := range m.rings {
		m.missed += uint64(C.mirror_ring_missed(r))
	}
	m.free()
}

// mirrorsFor returns the list of mirrors for worker i, or for management when i is the number of workers; nil: there
// are none.
func (dp *Datapath) mirrorsFor(i int) *C.struct_mirrors {
	if len(dp.mirrors.list) == 0 {
		return nil
	}
	s := (*C.struct_mirrors)(C.calloc(1, C.sizeof_struct_mirrors)) // never nil: Go's calloc ends the program first
	s.datapath = dp.c
	for _, w := range dp.mirrors.list {
		C.mirrors_add(s, w.options.Filter.c(), w.rings[i])
	}
	return s
}

// publish gives every worker and management the new list of mirrors, and waits until no worker uses the old one.
func (dp *Datapath) publish() {
	dp.mirrors.n.Store(int32(len(dp.mirrors.list)))
	old := []*C.struct_mirrors{dp.mirrors.management}
	dp.mirrors.management = dp.mirrorsFor(len(dp.workers))
	for i, w := range dp.workers {
		old = append(old, C.mirror_exchange(w.c, dp.mirrorsFor(i)))
	}
	if len(dp.workers) > 0 {
		any := dp.workers[0].c
		for token := C.mirror_token(any); !bool(C.mirror_passed(any, token)); {
			time.Sleep(50 * time.Microsecond)
		}
	}
	for _, s := range old {
		C.free(unsafe.Pointer(s))
	}
}

func (f *Filter) c() C.struct_mirror_filter {
	c := C.struct_mirror_filter{ports: C.MIRROR_ROCE | C.MIRROR_IB, directions: 3, points: 0xff, drop: C.uint8_t(f.Drop), qpn: C.uint32_t(f.QPN)}
	if f.Direction != BothWays {
		c.directions = 1 << (f.Direction - 1)
	}
	if f.Side != AnySide {
		c.ports = C.uint8_t(f.Side)
	}
	if f.Point != 0 {
		c.points = 1 << f.Point
	}
	if f.AnyDrop {
		c.points &= 1 << Dropped
	}
	c.by_qpn = f.QPN != 0
	c.by_vlan, c.vlan = C.bool(f.ByVLAN), C.uint16_t(f.VLAN)
	c.by_port, c.eth_port = C.bool(f.ByPort), C.uint8_t(f.Port)
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

// mirrorPuntedDrop mirrors a pending packet that management drops.
func (dp *Datapath) mirrorPuntedDrop(m *C.struct_rte_mbuf, worker int, d Drop) {
	if dp.mirrors.n.Load() == 0 {
		return
	}
	dp.mirrors.mu.Lock()
	defer dp.mirrors.mu.Unlock()
	if s := dp.mirrors.management; s != nil {
		C.mirror_punted_drop(s, C.uint16_t(worker), uint32(d), m)
	}
}

// drain moves the packets in the rings to pending.
func (m *mirror) drain() {
	now, tsc, hz := time.Now(), uint64(C.rte_rdtsc()), float64(TSCHz())
	for _, r := range m.rings {
		for range m.options.Slots { // bounded: a worker may fill a ring faster than this reads it
			s := C.mirror_ring_peek(r)
			if s == nil {
				break
			}
			seen := mirroredOf(s)
			seen.Time = now.Add(-time.Duration(float64(int64(tsc-uint64(s.tsc))) / hz * 1e9))
			m.pending = append(m.pending, seen)
			C.mirror_ring_pop(r)
		}
	}
	m.sort()
}

// mirroredOf copies a slot.
func mirroredOf(c *C.struct_mirrored_packet) MirroredPacket {
	s := MirroredPacket{
		Packet: uint64(c.packet), Worker: int(c.worker), Direction: Direction(c.direction), Point: Point(c.point), Drop: Drop(c.drop),
		Side: RoCESide, Len: int(c.len), Data: C.GoBytes(unsafe.Add(unsafe.Pointer(c), C.sizeof_struct_mirrored_packet), C.int(c.kept)),
	}
	if c.form == C.MIRROR_FRAME {
		s.Port = uint8(c.port)
		return s
	}
	s.Side, s.IB = IBSide, mirroredIBOf(&c.ib)
	if c.form == C.MIRROR_SEND {
		s.IB.DGID, s.IB.DLID = ib.GID(C.GoBytes(unsafe.Pointer(&c.ib.dgid[0]), 16)), ib.LID(c.ib.lid)
		s.IB.GRH = c.ib.flags&C.IB_SEND_GRH != 0
		s.IB.FECN, s.IB.Solicited, s.IB.HasImm = c.ib.flags&C.IB_SEND_FECN != 0, c.ib.flags&C.IB_SEND_SOLICITED != 0, c.ib.flags&C.IB_SEND_IMM != 0
		return s
	}
	s.IB.SLID, s.IB.GRH = ib.LID(c.ib.lid), c.ib.flags&C.IB_RECV_GRH != 0
	s.IB.FECN, s.IB.Solicited, s.IB.HasImm = c.ib.flags&C.IB_RECV_FECN != 0, c.ib.flags&C.IB_RECV_SOLICITED != 0, c.ib.flags&C.IB_RECV_IMM != 0
	s.IB.Port = uint8(c.ib.flags >> C.IB_RECV_PORT_SHIFT & 3)
	n := min(len(s.Data), C.IB_GRH_LEN)
	s.IB.Area, s.Data = s.Data[:n:n], s.Data[n:]
	s.Len -= min(s.Len, C.IB_GRH_LEN)
	s.IB.readArea()
	return s
}

func mirroredIBOf(c *C.struct_mirror_ib) *MirroredIB {
	return &MirroredIB{
		Known: bool(c.known), QP: uint32(c.qp), QPN: ib.QPN(c.qpn), Peer: ib.QPN(c.peer), QKey: ib.QKey(c.qkey), SL: ib.SL(c.sl),
		Partition: uint8(c.partition), TClass: uint8(c.tclass), HopLimit: uint8(c.hop_limit), FlowLabel: uint32(c.flow_label),
		Imm: uint32(c.imm), Source: uint8(c.source),
	}
}

// readArea reads the network header that came with a message.
func (s *MirroredIB) readArea() {
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
