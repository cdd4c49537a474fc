// SPDX-License-Identifier: Apache-2.0

package bench

// #include "loops.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// A loop runs on an lcore and counts what it has done.
type loop interface {
	start(lcore uint) error
	stop()
	done() uint64
}

// cLoop is a loop of loops.h.
type cLoop struct {
	c     *C.struct_loop
	run   unsafe.Pointer // int (*)(void *)
	lcore uint
}

func newLoop(run unsafe.Pointer) (*cLoop, error) {
	c := C.loop_new()
	if c == nil {
		return nil, errors.New("bench: no memory for a loop")
	}
	return &cLoop{c: c, run: run}, nil
}

func (l *cLoop) start(lcore uint) error {
	l.lcore = lcore
	if rc := C.loop_start(l.c, (*[0]byte)(l.run), C.uint(lcore)); rc != 0 {
		return fmt.Errorf("bench: start on lcore %d: %w", lcore, syscall.Errno(-rc))
	}
	return nil
}

func (l *cLoop) stop()        { C.loop_stop(l.c, C.uint(l.lcore)) }
func (l *cLoop) done() uint64 { return uint64(l.c.done) }

// reading says whether a floor also reads every byte, and how.
type reading C.enum_reading

const (
	readNothing reading = C.READ_NOTHING
	readWords   reading = C.READ_WORDS // 8 bytes at a time, in plain C: the gates were set over this one
	readWide    reading = C.READ_WIDE  // 64 bytes at a time, twice as fast from 1 KiB up: only if canReadWide
)

func canReadWide() bool { return bool(C.can_read_wide()) }

// floor is the lane's floor.
func (l *lane) floor(read reading) (loop, error) {
	run := unsafe.Pointer(C.floor_roce_to_ib)
	if l.rig.direction == lcore.IBToRoCE {
		run = C.floor_ib_to_roce
	}
	f, err := l.newLoop(run)
	if err == nil {
		f.c.reading = C.enum_reading(read)
	}
	return f, err
}

// peer is the bare C loop in the worker's place.
func (l *lane) peer() (loop, error) {
	run := unsafe.Pointer(C.peer_roce_to_ib)
	if l.rig.direction == lcore.IBToRoCE {
		run = C.peer_ib_to_roce
	}
	return l.newLoop(run)
}

// newLoop makes a loop that uses the lane's ports.
func (l *lane) newLoop(run unsafe.Pointer) (*cLoop, error) {
	f, err := newLoop(run)
	if err != nil {
		return nil, err
	}
	l.rig.onClose(func() error { C.loop_free(f.c); return nil })
	f.c.port, f.c.ib_port = C.uint16_t(l.port), l.ibPort
	f.c.tables = (*C.struct_tables)(l.rig.tables.Pointer())
	f.c.mac = mac48(bridgeMAC)
	f.c.pkey = C.uint16_t(ib.PKeyDefault)
	return f, nil
}

// An Lcore is where loops run.
type Lcore struct {
	id  uint
	tid int // thread id
}

// NewLcore looks up an EAL worker lcore, which must be idle.
func NewLcore(id uint) (Lcore, error) {
	tid := C.lcore_thread(C.uint(id))
	if tid < 0 {
		return Lcore{}, fmt.Errorf("bench: lcore %d: %w", id, syscall.Errno(-tid))
	}
	return Lcore{id, int(tid)}, nil
}

// cpuTime is the CPU time that the lcore's thread has used, in nanoseconds.
func (l Lcore) cpuTime() uint64 { return uint64(C.thread_cpu_ns(C.int(l.tid))) }
