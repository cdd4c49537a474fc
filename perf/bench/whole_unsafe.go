// SPDX-License-Identifier: Apache-2.0

package bench

// #include "hca.h"
// #include "whole.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
)

// wholeMbufs are for what is under way, for as many buffers of the HCA, and for bursts and caches.
const wholeMbufs = 2*inFlight + 2047

// A whole is the rig of the whole way: an Ethernet ring port, a worker, and a verbs port. Without an HCA it is that of
// the path, with the same rounds.
type whole struct {
	c    *C.struct_whole
	pool *dpdk.Mempool
	hca  *hca // nil: there is none
	rig  *rig
	undo []func() error
}

// newWhole makes a rig with as many proxy QPs as the shape has. way is libmlx5, direct, or "": without an HCA.
func newWhole(s shape, d lcore.Direction, size int, way string) (*whole, error) {
	w := &whole{}
	if err := w.build(s, d, size, way); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *whole) build(s shape, d lcore.Direction, size int, way string) (err error) {
	if w.c = C.whole_new(); w.c == nil {
		return syscall.ENOMEM
	}
	w.undo = append(w.undo, func() error { C.whole_free(w.c); return nil })
	if err := w.makePool(s.data(0, d, size)); err != nil {
		return err
	}
	if way != "" {
		if w.hca, err = newHCA(w.pool, s.proxyQPs(), inFlight, way); err != nil {
			return err
		}
		w.undo = append(w.undo, w.hca.close)
		w.c.hca = w.hca.c
	}
	s.whole = w
	for i := range s.nodes {
		if w.hca == nil {
			break
		}
		if err := w.hca.meet(i); err != nil {
			return err
		}
	}
	t, err := s.newTables()
	if err != nil {
		return err
	}
	w.undo = append(w.undo, func() error { t.Close(); return nil })
	if w.rig, err = newRig(s, t, d, size); err != nil {
		return err
	}
	w.undo = append(w.undo, func() error { w.rig.close(); return nil })
	l := w.rig.lanes[0]
	w.c.worker, w.c.layout = (*C.struct_worker)(l.w.Pointer()), l.ibPort
	w.c.ring, w.c.pool = l.cRing(), (*C.struct_rte_mempool)(w.pool.Pointer())
	w.c.qkey, w.c.payload, w.c.to_ib = C.uint32_t(ib.QKeyRDMAUDP), C.uint32_t(size), d == lcore.RoCEToIB
	return nil
}

// makePool makes the mempool, all of whose mbufs are the packet's: the rig gives packets new addresses, and nothing else.
func (w *whole) makePool(packet []byte) (err error) {
	if w.pool, err = dpdk.NewMempool(name("whole"), wholeMbufs, lcore.DataRoom, privateBytes); err != nil {
		return err
	}
	w.undo = append(w.undo, w.freePool)
	if rc := C.whole_fill((*C.struct_rte_mempool)(w.pool.Pointer()), unsafe.Pointer(&packet[0]), C.uint32_t(len(packet))); rc != 0 {
		return fmt.Errorf("bench: fill a pool: %w", syscall.Errno(-rc))
	}
	return nil
}

func (w *whole) freePool() error {
	if n := w.pool.InUse(); n > 0 {
		return fmt.Errorf("bench: the whole way has lost %d mbufs", n)
	}
	return w.pool.Free()
}

func (w *whole) close() (err error) {
	for i := len(w.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, w.undo[i]())
	}
	return err
}

// port is the worker's IB port (struct ib_port).
func (w *whole) port() unsafe.Pointer {
	if w.hca == nil {
		return unsafe.Pointer(&w.c.null)
	}
	return unsafe.Pointer(C.hca_port(w.hca.c))
}

// A wholeReading is the cost of a packet in nanoseconds: the worker's, and the HCA's own work.
type wholeReading struct {
	worker, device float64
	bells          float64
}

// read takes one reading.
func (w *whole) read(cfg *Config) (r wholeReading, err error) {
	before, err := w.counts()
	if err != nil {
		return r, err
	}
	if err := w.run(cfg); err != nil {
		return r, fmt.Errorf("bench: the whole way: %w", err)
	}
	cost := &w.c.cost
	after, err := w.counts()
	ns := 1e9 / float64(lcore.TSCHz()) / float64(cost.packets)
	r = wholeReading{worker: float64(cost.worker) * ns, device: float64(cost.device) * ns}
	if n := after.posted - before.posted; n > 0 {
		r.bells = float64(after.bells-before.bells) / float64(n)
	}
	return r, err
}

// run makes rounds for a window, and again while all of them were preempted.
func (w *whole) run(cfg *Config) error {
	const patience = 20 * time.Second
	w.c.ns = C.uint64_t(cfg.Window.Nanoseconds())
	for start := time.Now(); time.Since(start) < patience; {
		if rc := C.whole_run(w.c, C.uint(cfg.Lcores[0].id)); rc != 0 {
			return syscall.Errno(-rc)
		}
		if w.c.cost.packets > 0 {
			return nil
		}
	}
	return errBusyLcore
}

// errBusyLcore says that no round was without a preemption.
var errBusyLcore = errors.New("others had the CPU all the time")

// counts are the port's; without an HCA there are none.
func (w *whole) counts() (hcaCounts, error) {
	if w.hca == nil {
		return hcaCounts{}, nil
	}
	return w.hca.count()
}
