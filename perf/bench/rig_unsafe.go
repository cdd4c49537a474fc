// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "loops.h"
// #include "rig.h"
// #include "lcore/setup.h"
import "C"

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
)

// A lane is a worker, or a loop in its place, and the packets that go round through it.
//
//	RoCE to IB:  ring ─▶ port ─▶ worker ─▶ door ─▶ ring
//	IB to RoCE:  ring ─▶ door ─▶ worker ─▶ port ─▶ ring        nothing comes in by the port: its receive ring is idle
type lane struct {
	rig        *rig
	number     int
	pool       *dpdk.Mempool
	ring, idle *C.struct_rte_ring
	port       uint16
	door       *C.struct_null_door
	w          *lcore.Worker
}

var serial int // of names in DPDK

func name(what string) string {
	serial++
	return fmt.Sprintf("%s%d", what, serial)
}

func (r *rig) addLane() error {
	l := &lane{rig: r, number: len(r.lanes)}
	r.lanes = append(r.lanes, l)
	for _, step := range []func() error{l.makePool, l.makeRings, l.makeDoor, l.makePort, l.makeWorker, l.load} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) makePool() (err error) {
	if l.pool, err = newPool(name("bench")); err == nil {
		l.rig.onClose(l.pool.Free)
	}
	return err
}

func (l *lane) makeRings() error {
	for _, into := range []**C.struct_rte_ring{&l.ring, &l.idle} {
		c := C.CString(name("benchring"))
		ring := C.bench_ring(c, 2*inFlight)
		C.free(unsafe.Pointer(c))
		if ring == nil {
			return errors.New("bench: no memory for a ring")
		}
		*into = ring
		l.rig.onClose(func() error { C.bench_ring_free(ring); return nil })
	}
	return nil
}

func (l *lane) makePort() error {
	rx := l.ring
	if l.rig.direction == lcore.IBToRoCE {
		rx = l.idle
	}
	c := C.CString(name("bench"))
	defer C.free(unsafe.Pointer(c))
	id := C.bench_port(c, rx, l.ring, (*C.struct_rte_mempool)(l.pool.Pointer()))
	if id < 0 {
		return fmt.Errorf("bench: make a ring port: %w", syscall.Errno(-id))
	}
	l.rig.onClose(func() error { C.bench_port_close(C.uint16_t(id)); return nil })
	l.port = uint16(id)
	return nil
}

func (l *lane) makeWorker() (err error) {
	l.w, err = l.rig.bench.NewWorker(lcore.WorkerConfig{
		Port: l.port, Door: unsafe.Pointer(&l.door.door), MaxGroups: max(1, l.rig.shape.groups),
	})
	return err
}

// makeDoor says what packets look like and how they change.
func (l *lane) makeDoor() error {
	if l.door = C.null_door_new(); l.door == nil {
		return errors.New("bench: no memory for a door")
	}
	l.rig.onClose(func() error {
		C.free(unsafe.Pointer(l.door.stream.steps))
		C.null_door_free(l.door)
		return nil
	})
	s := l.rig.shape
	p := s.packet(l.number, l.rig.size)
	f, where := p.AppendTo(nil), s.layout()
	l.door.frame = C.struct_frame_layout{
		len: C.uint32_t(len(f)), from_at: C.uint32_t(where.from), to_at: C.uint32_t(where.to),
		icrc_at: C.uint32_t(len(f) - ib.ICRCLen), sum_at: C.uint32_t(where.sum),
	}
	if where.fromIP {
		l.door.frame.from_summed = 0xffff_ffff
	}
	l.door.message = C.struct_message_layout{
		len: C.uint32_t(ib.GRHLen + l.rig.size), qpn: C.uint32_t(standInQPN + l.number*s.standIns()), src_qpn: nodeQPN,
		to_group: C.bool(s.multicast()),
	}
	if s.multicast() {
		l.door.message.qpn = C.uint32_t(ib.QPMulticast)
	}
	for i, w := range s.grh(l.rig.size) {
		l.door.message.grh[i] = C.uint64_t(w)
	}
	if l.rig.direction == lcore.RoCEToIB {
		l.door.frames = l.ring
		return l.setStream(where.stream(f, uint32(s.sources()-1), uint32(s.destinations()-1)))
	}
	l.door.messages = l.ring
	to := s.standIns()
	if s.multicast() {
		to = s.groups
	}
	return l.setStream(where.stream(f, uint32(s.nodes-1), uint32(to-1)))
}

// setStream gives the steps to the door, in wire order.
func (l *lane) setStream(all []step) error {
	p := C.calloc(C.size_t(len(all)), C.sizeof_struct_step)
	if p == nil {
		return errors.New("bench: no memory for a stream")
	}
	c := unsafe.Slice((*C.struct_step)(p), len(all))
	for i, s := range all {
		c[i] = C.struct_step{
			from: C.uint32_t(bits.ReverseBytes32(s.from)), to: C.uint32_t(bits.ReverseBytes32(s.to)), icrc: C.uint32_t(s.icrc),
		}
	}
	l.door.stream = C.struct_stream{steps: (*C.struct_step)(p), n: C.uint32_t(len(all))}
	return nil
}

// load fills the ring. All packets begin at the same addresses; their first trip scatters them.
func (l *lane) load() error {
	p := l.rig.shape.packet(l.number, l.rig.size)
	data := p.AppendTo(nil)
	if l.rig.direction == lcore.IBToRoCE {
		data = append(make([]byte, ib.GRHLen), p.Payload...)
	}
	for range l.rig.shape.packets() {
		rc := C.bench_put((*C.struct_rte_mempool)(l.pool.Pointer()), l.ring, unsafe.Pointer(&data[0]), C.uint32_t(len(data)))
		if rc != 0 {
			return fmt.Errorf("bench: fill a ring: %w", syscall.Errno(-rc))
		}
	}
	return nil
}

// pause has the door give no messages, or give them again. A worker may be running.
func (l *lane) pause(on bool) { C.null_door_pause(l.door, C.bool(on)) }

// takeBack puts what other workers have handed to the lane's into its ring, and returns how many. Only while none runs.
func (l *lane) takeBack() int {
	return int(C.bench_ring_move((*C.struct_worker)(l.w.Pointer()).again, l.ring))
}

func (l *lane) empty() { C.bench_ring_empty(l.ring) }

func (l *lane) inRing() int { return int(C.bench_ring_count(l.ring)) }

// look returns the next packet of the ring and moves on to the one behind it. Only while no loop runs.
func (l *lane) look() []byte {
	b := make([]byte, lcore.DataRoom)
	n := int(C.bench_look(l.ring, unsafe.Pointer(&b[0]), C.uint32_t(len(b))))
	return b[:max(n, 0)]
}

// record has the door keep its first n sends.
func (l *lane) record(n int) error {
	if rc := C.null_door_record(l.door, C.uint32_t(n)); rc != 0 {
		return fmt.Errorf("bench: keep %d sends: %w", n, syscall.Errno(-rc))
	}
	return nil
}

// recorded returns what the door has kept, without the mbufs.
func (l *lane) recorded() []C.struct_ib_send {
	all := append([]C.struct_ib_send(nil), unsafe.Slice(l.door.record, int(l.door.record_n))...)
	for i := range all {
		all[i].mbuf = nil
	}
	return all
}
