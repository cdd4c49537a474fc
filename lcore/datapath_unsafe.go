// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_errno.h>
// #include <rte_cycles.h>
// #include "../dpdk/near.h"
// #include "forwarded.h"
// #include "icrc.h"
// #include "police.h"
// #include "lease.h"
// #include "setup.h"
// static int setup_errno(void) { return rte_errno; }
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	_ "causeway/lcore/pgm"   // workers call its C
	_ "causeway/lcore/probe" // the same
)

// NewDatapath makes a datapath over the tables (from tables.Pointer), which must outlive it, and chooses the ICRC
// version. The mempools of both ports must have DataRoom bytes for each mbuf.
func NewDatapath(cfg DatapathConfig, tables unsafe.Pointer) (*Datapath, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	C.icrc_init()
	node := C.near_lcore(C.uint(cfg.Lcore))
	c := (*C.struct_datapath)(C.near_zmalloc(nil, C.sizeof_struct_datapath, node))
	if c == nil {
		return nil, errors.New("lcore: no memory for a datapath")
	}
	c.tables = (*C.struct_tables)(tables)
	c.police = (*C.struct_police)(C.near_zmalloc(nil, C.size_t(c.tables.max_groups)*C.DIRECTIONS*C.sizeof_struct_police, node))
	if c.police == nil {
		C.rte_free(unsafe.Pointer(c))
		return nil, errors.New("lcore: no memory for the rates of groups; raise [workers] memory_mib")
	}
	cfg.fill(c)
	C.datapath_prepare(c)
	if cfg.VirtualMAC != [6]byte{} {
		forwarded := (*C.uint64_t)(C.near_zmalloc(nil, C.FORWARDED_SLOTS*C.sizeof_uint64_t, node))
		if forwarded == nil {
			C.rte_free(unsafe.Pointer(c.police))
			C.rte_free(unsafe.Pointer(c))
			return nil, errors.New("lcore: no memory for a fleet's member; raise [workers] memory_mib")
		}
		C.lease_join(c, mac48(cfg.VirtualMAC), forwarded)
	}
	b := &Datapath{c: c, node: node}
	b.ports.begin(1 + len(cfg.MoreMACs))
	for i, s := range cfg.segments() {
		number := uint8(i)
		if cfg.Numbers != nil {
			number = cfg.Numbers[i]
		}
		b.AddSegment(number, &s)
	}
	err := b.openPunts()
	if err == nil {
		err = b.SetPolicy(cfg.Policy)
	}
	if err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// free frees what NewDatapath has made.
func (dp *Datapath) free() {
	dp.closePunts()
	dp.admission.free(dp)
	C.rte_free(unsafe.Pointer(dp.c.lease.forwarded))
	C.rte_free(unsafe.Pointer(dp.c.police))
	C.rte_free(unsafe.Pointer(dp.c))
	dp.c = nil
}

// WorkerConfig is the configuration of one worker.
type WorkerConfig struct {
	Port      uint16         // the Ethernet port's id
	MorePorts []uint16       // those of further ports, as many as DatapathConfig.MoreMACs
	Queue     uint16         // of receive and transmit
	IBPort    unsafe.Pointer // struct ib_port, the worker's own
	MaxGroups int            // group ids are below this
	PGM       unsafe.Pointer // struct pgm, the worker's own (pgm.Tracker.Pointer); nil: PGM is not tracked
	PuntRing  int            // packets that wait for management at most; 0: PuntRing
	Lcore     uint           // that it will run on: its memory is on that NUMA node; 0: anywhere
}

// PuntRing is how many packets wait for management at most. The first messages of a program with two hundred queue
// pairs come at once, and wait for proxy QPs; one host has half of it.
const PuntRing = 4095 // a power of two, less the place that a ring needs itself

// NewWorker makes the next worker. All workers must be made before one starts.
func (dp *Datapath) NewWorker(cfg WorkerConfig) (*Worker, error) {
	id := len(dp.workers)
	if id >= C.MAX_WORKERS {
		return nil, fmt.Errorf("lcore: worker %d is one too many; %d lcores can work", id, C.MAX_WORKERS)
	}
	c := C.worker_new(dp.c, (*C.struct_ib_port)(cfg.IBPort), C.uint16_t(id), C.uint16_t(cfg.Port),
		C.uint16_t(cfg.Queue), C.uint(cfg.MaxGroups), C.uint(cmp.Or(cfg.PuntRing, PuntRing)),
		C.near_lcore(C.uint(cfg.Lcore)))
	if c == nil {
		return nil, fmt.Errorf("lcore: make worker %d: %w; raise [workers] memory_mib",
			id, syscall.Errno(C.setup_errno()))
	}
	setPorts(c, &cfg)
	c.pgm = (*C.struct_pgm)(cfg.PGM)
	w := &Worker{c: c, datapath: dp}
	if err := w.openWakes(); err != nil {
		var left C.uint
		C.worker_free(c, &left)
		return nil, err
	}
	dp.workers = append(dp.workers, w)
	return w, nil
}

// Close frees the datapath and its workers, which must have stopped. It returns the final counters, in which
// RoCE packets that were still on a ring count as dropped by shutdown.
func (dp *Datapath) Close() Counters {
	dp.endMirrors()
	var left uint64
	for _, w := range dp.workers {
		left += uint64(C.worker_empty(w.c))
	}
	final := dp.Counters()
	if dp.c.ports > C.ONLY_PORT {
		final.Ports, final.GonePorts = dp.PortCounters(), dp.gonePorts()
	}
	if left > 0 {
		final.Direction[RoCEToIB].Drops[C.DROP_shutdown] += left
	}
	for _, w := range dp.workers {
		var none C.uint
		w.closeWakes()
		C.worker_free(w.c, &none)
	}
	dp.free()
	dp.workers = nil
	return final
}

// TSCHz returns the cycles of the time-stamp counter in a second.
func TSCHz() uint64 { return uint64(C.rte_get_tsc_hz()) }

// Police limits the group with this id to so many packets a second in each direction; 0: no limit. The flag
// GROUP_POLICED of its entry must be set. It may be called while workers run.
func (dp *Datapath) Police(id int, rate uint64) {
	for d := range C.DIRECTIONS {
		p := (*C.struct_police)(unsafe.Add(unsafe.Pointer(dp.c.police), (id*C.DIRECTIONS+d)*C.sizeof_struct_police))
		C.police_set(p, C.uint64_t(rate), C.rte_get_tsc_hz())
	}
}

// Pointer returns the struct worker, for C.
func (w *Worker) Pointer() unsafe.Pointer { return unsafe.Pointer(w.c) }

// Group returns this worker's counters of the group with this id.
func (w *Worker) Group(id int) GroupCounters {
	g := (*C.struct_group_counters)(unsafe.Add(unsafe.Pointer(w.c.groups), id*C.sizeof_struct_group_counters))
	var out GroupCounters
	for d := range out.Packets {
		out.Packets[d] = uint64(g.packets[d])
		out.Bytes[d] = uint64(g.bytes[d])
	}
	return out
}
