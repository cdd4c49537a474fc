// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "loops.h"
// #include "parts.h"
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"causeway/lcore"
	"causeway/tables"
)

// Advise asks the kernel for transparent huge pages under DPDK's memory, so that DPDK's hash is not at a disadvantage
// without reserved hugepages. It must be called before anything is allocated.
func Advise() { C.parts_advise() }

// partLoops makes loops that work on the same.
func partLoops(p *C.struct_parts, runs ...unsafe.Pointer) (loops []loop, free func(), err error) {
	var all []*cLoop
	free = func() {
		for _, l := range all {
			C.loop_free(l.c)
		}
	}
	for _, run := range runs {
		l, err := newLoop(run)
		if err != nil {
			free()
			return nil, nil, err
		}
		l.c.parts = p
		all, loops = append(all, l), append(loops, l)
	}
	return loops, free, nil
}

func newParts() (*C.struct_parts, error) {
	p := (*C.struct_parts)(C.calloc(1, C.sizeof_struct_parts))
	if p == nil {
		return nil, syscall.ENOMEM
	}
	return p, nil
}

// asReceived copies a packet to where its IP header lies in an mbuf: behind 14 bytes of Ethernet, which begin a cache
// line. Elsewhere the same loads cross other lines, and the ICRC of 4 KiB takes up to a seventh longer.
func asReceived(packet []byte) (at *C.uint8_t, free func()) {
	const line, ethernet = 64, 14
	p := C.aligned_alloc(line, C.size_t((ethernet+len(packet)+line-1)&^(line-1)))
	copy(unsafe.Slice((*byte)(unsafe.Add(p, ethernet)), len(packet)), packet)
	return (*C.uint8_t)(unsafe.Add(p, ethernet)), func() { C.free(p) }
}

// icrcRows compares the ICRC with DPDK's CRC, on packets in the first-level cache.
func icrcRows(cfg *Config) (rows []Row, err error) {
	theirs := C.GoString(C.parts_use_avx512())
	lcore.ICRCVersion() // chooses the version
	p, err := newParts()
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(p))
	s := square(1)
	for _, size := range []int{256, 1024, 4096} {
		cfg.progress("ICRC, %d B", size)
		packet := s.packet(0, size)
		b := packet.Network()
		frame, free := asReceived(b)
		p.packet, p.len = frame, C.uint32_t(len(b)-4)
		ns, err := comparePart(cfg, p, C.icrc_ours, C.icrc_dpdk)
		free()
		if err != nil {
			return nil, err
		}
		row := ratio("ICRC by "+lcore.ICRCVersion(), "rte_net_crc "+theirs, ns[0], ns[1])
		row.Payload, row.section = size, parts
		if theirs == "AVX-512" {
			row.Limit = limit(icrcLimit)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// tableRow compares the look-up of nodes with DPDK's hash, with the same keys and entries.
func tableRow(cfg *Config, t *tables.Tables, entries int) (Row, error) {
	cfg.progress("look-up, %s entries", count(entries))
	p, err := newParts()
	if err != nil {
		return Row{}, err
	}
	defer C.free(unsafe.Pointer(p))
	p.nodes, p.base, p.entries = &(*C.struct_tables)(t.Pointer()).nodes, node4, C.uint32_t(entries)
	defer C.parts_free(p)
	if rc := C.parts_hash(p); rc != 0 {
		return Row{}, fmt.Errorf("bench: fill rte_hash with %d keys: %w", entries, syscall.Errno(-rc))
	}
	ns, err := comparePart(cfg, p, C.table_ours, C.table_dpdk, C.table_fetches)
	if err != nil {
		return Row{}, err
	}
	row := ratio("look-up, bursts of 64", "rte_hash bulk", ns[0], ns[1])
	row.Entries, row.section = entries, parts
	row.setFloor("2 fetches", ns[0], ns[2])
	if most, ok := tableLimits[entries]; ok {
		row.Limit = limit(most)
	}
	return row, nil
}

func comparePart(cfg *Config, p *C.struct_parts, runs ...unsafe.Pointer) ([]readings, error) {
	loops, free, err := partLoops(p, runs...)
	if err != nil {
		return nil, err
	}
	defer free()
	return cfg.calm([]int{1}, loops...)
}
