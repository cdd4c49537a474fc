// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "loops.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/tables"
)

// A rig is one worker between rings, and beside it a port for the floors.
//
//	rings[0] ─▶ worker ─▶ door ─▶ rings[0]      RoCE to IB
//	rings[1] ◀─ worker ◀─ door ◀─ rings[1]      IB to RoCE
//	rings[2] ─▶ floor ──────────▶ rings[2]
type rig struct {
	direction lcore.Direction
	pool      *dpdk.Mempool
	rings     [3]*C.struct_rte_ring
	door      *C.struct_null_door
	bench     *lcore.Bench
	worker    *lcore.Worker
	floors    *C.struct_floor
	undo      []func() error
}

var serial int // of names in DPDK

func (r *rig) onClose(f func() error) { r.undo = append(r.undo, f) }

func newRig(d lcore.Direction, size int) (*rig, error) {
	r := &rig{direction: d}
	for _, step := range []func() error{r.makePool, r.makeRings, r.makeDoor, r.makeWorker, func() error { return r.load(size) }} {
		if err := step(); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *rig) makePool() (err error) {
	if r.pool, err = newPool(); err == nil {
		r.onClose(r.pool.Free)
	}
	return err
}

func cName(what string) *C.char {
	serial++
	return C.CString(fmt.Sprintf("%s%d", what, serial))
}

func (r *rig) makeRings() error {
	for i := range r.rings {
		name := cName("benchring")
		ring := C.bench_ring(name, 2*inFlight)
		C.free(unsafe.Pointer(name))
		if ring == nil {
			return errors.New("bench: no memory for a ring")
		}
		r.rings[i] = ring
		r.onClose(func() error { C.bench_ring_free(ring); return nil })
	}
	return nil
}

func (r *rig) makeDoor() error {
	r.door = C.null_door_new()
	r.floors = C.floor_new(0)
	if r.door == nil || r.floors == nil {
		return errors.New("bench: no memory for a door")
	}
	r.onClose(func() error {
		C.null_door_free(r.door)
		C.free(unsafe.Pointer(r.floors))
		return nil
	})
	r.door.frames = r.rings[0]
	r.door.messages = r.rings[1]
	return nil
}

func (r *rig) makePort(rx, tx *C.struct_rte_ring) (uint16, error) {
	name := cName("bench")
	defer C.free(unsafe.Pointer(name))
	id := C.bench_port(name, rx, tx, (*C.struct_rte_mempool)(r.pool.Pointer()))
	if id < 0 {
		return 0, fmt.Errorf("bench: make a ring port: %w", syscall.Errno(-id))
	}
	r.onClose(func() error { C.bench_port_close(C.uint16_t(id)); return nil })
	return uint16(id), nil
}

func (r *rig) makeWorker() error {
	t, err := tables.New(tables.Config{MaxHosts: peers, MaxStandIns: peers, MaxNodes: peers, MaxGroups: 1, MaxReaders: 1})
	if err != nil {
		return err
	}
	r.onClose(func() error { t.Close(); return nil })
	if err := fill(t); err != nil {
		return err
	}
	port, err := r.makePort(r.rings[0], r.rings[1])
	if err != nil {
		return err
	}
	floorPort, err := r.makePort(r.rings[2], r.rings[2])
	if err != nil {
		return err
	}
	r.floors.port = C.uint16_t(floorPort)
	if r.bench, err = lcore.NewBench(benchConfig(), t.Pointer()); err != nil {
		return err
	}
	r.onClose(func() error { r.bench.Close(); return nil })
	r.worker, err = r.bench.NewWorker(lcore.WorkerConfig{Port: port, Door: unsafe.Pointer(&r.door.door), MaxGroups: 1})
	return err
}

// load fills the rings: the one of the direction with what comes in there, the floor's with frames.
func (r *rig) load(size int) error {
	f := frameOf(0, 0, size)
	r.door.frame_off = lcore.Headroom
	r.door.frame_len = C.uint32_t(len(f))
	message := make([]byte, 40+size)
	copy(message[40:], payload(size))
	r.door.message_len = C.uint32_t(len(message))
	for i := range inFlight {
		peer := i * 389 % peers // neighbours in the ring are no neighbours on the shelves
		if err := r.put(r.rings[2], frameOf(peer, peer, size), 0); err != nil {
			return err
		}
		var err error
		if r.direction == lcore.RoCEToIB {
			err = r.put(r.rings[0], frameOf(peer, (peer+511)%peers, size), 0)
		} else {
			err = r.put(r.rings[1], message, peer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) put(ring *C.struct_rte_ring, data []byte, peer int) error {
	private := C.struct_null_message{
		qpn: C.uint32_t(firstQPN + peer), src_qpn: C.uint32_t(nodeQPN), slid: C.uint16_t(firstLID + (peer+511)%peers),
	}
	rc := C.bench_put((*C.struct_rte_mempool)(r.pool.Pointer()), ring, unsafe.Pointer(&data[0]), C.uint32_t(len(data)), &private)
	if rc != 0 {
		return fmt.Errorf("bench: fill a ring: %w", syscall.Errno(-rc))
	}
	return nil
}

// floor measures receive and send alone, or with a read of every byte.
func (r *rig) floor(cfg Config, touch bool) (float64, error) {
	if rc := C.floor_start(r.floors, C.bool(touch), C.uint(cfg.Lcore)); rc != 0 {
		return 0, fmt.Errorf("bench: start on lcore %d: %w", cfg.Lcore, syscall.Errno(-rc))
	}
	defer C.floor_stop(r.floors, C.uint(cfg.Lcore))
	return nsPerPacket(cfg.Window, func() uint64 { return uint64(r.floors.packets) })
}
