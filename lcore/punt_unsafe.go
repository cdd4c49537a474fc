// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_mbuf.h>
// #include "setup.h"
// static unsigned kind_of(const struct rte_mbuf *m) { return m->hash.usr & ((1 << PUNT_PARTITION_SHIFT) - 1); }
// static unsigned partition_of_punted(const struct rte_mbuf *m) { return m->hash.usr >> PUNT_PARTITION_SHIFT & 0xff; }
// static void *frame_of(struct rte_mbuf *m) { return rte_pktmbuf_mtod(m, void *); }
// static void frame_free(struct rte_mbuf *m) { rte_pktmbuf_free(m); }
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"causeway/ibside/ib"
	"causeway/tables"
)

// A PendingPacket is a good RoCE packet whose (host, QPN) has no proxy QP yet, or whose host is known by another MAC
// address. Its owner calls exactly one of Requeue and Drop, once.
type PendingPacket struct {
	m         *C.struct_rte_mbuf // nil: the worker keeps the packet itself, and will need the proxy QP
	w         *Worker
	port      uint8
	partition uint8
}

// Worker returns the number of the worker that received the packet.
func (p *PendingPacket) Worker() int { return p.w.ID() }

// Partition returns the number of the partition that the proxy QP is to send in.
func (p *PendingPacket) Partition() uint8 { return p.partition }

// Port returns the index of the port that it came by.
func (p *PendingPacket) Port() uint8 { return p.port }

// portOf returns the index of the port that a frame came by.
func (w *Worker) portOf(m *C.struct_rte_mbuf) uint8 {
	return uint8(m.port) & uint8(w.datapath.c.port_mask)
}

// Requeue gives the packet back to the worker, which looks it up again. A full ring drops it.
func (p *PendingPacket) Requeue() {
	if p.m != nil && C.worker_requeue(p.w.c, p.m) != 0 {
		p.Drop(C.DROP_peer_full)
	}
}

// Drop drops the packet and counts the reason.
func (p *PendingPacket) Drop(d Drop) {
	if p.m == nil {
		return
	}
	p.w.datapath.dropped[p.Port()][d].Add(1)
	C.worker_rejected(p.w.c, p.m)
	p.w.datapath.mirrorPuntedDrop(p.m, p.w.ID(), d)
	C.frame_free(p.m)
}

// A PuntedFrame is a frame that a worker gave to management.
type PuntedFrame struct {
	Data    []byte     // a copy
	Port    uint8      // the index of the port that it came by
	Unknown ib.NodeKey // not zero: a packet was dropped because no table has this node
	// Nil for control frames (ARP, ND, IGMP, MLD, ICMP, RoCE with a MAD), whose mbuf is freed already.
	Pending *PendingPacket
}

// TakePunted takes at most a burst of frames from the worker's punt ring. One goroutine only.
func (w *Worker) TakePunted() []PuntedFrame {
	var m, done [C.BURST]*C.struct_rte_mbuf
	n := int(C.worker_take_punted(w.c, &m[0], C.BURST))
	out := make([]PuntedFrame, n)
	ended := 0
	for i := range n {
		out[i].Port = w.portOf(m[i])
		out[i].Data = C.GoBytes(C.frame_of(m[i]), C.int(m[i].data_len))
		switch C.kind_of(m[i]) {
		case C.PUNT_PROXY_QP:
			out[i].Pending = w.pending(m[i], m[i])
			continue
		case C.PUNT_PREPARE:
			out[i].Pending = w.pending(m[i], nil)
		case C.PUNT_SOURCE:
			out[i].Unknown = tables.UnknownSource([24]byte(out[i].Data))
		case C.PUNT_NODE:
			out[i].Unknown = tables.UnknownNode([24]byte(out[i].Data))
		}
		done[ended] = m[i]
		ended++
	}
	C.rte_pktmbuf_free_bulk(&done[0], C.uint(ended))
	return out
}

// pending returns what a punted frame says of a packet that waits.
func (w *Worker) pending(frame, waits *C.struct_rte_mbuf) *PendingPacket {
	return &PendingPacket{waits, w, w.portOf(frame), uint8(C.partition_of_punted(frame))}
}

// Send makes the worker transmit a frame unchanged by a port, known by its index; mbufs come from the pool (dpdk's Mempool.Pointer).
// One goroutine only.
func (w *Worker) Send(pool unsafe.Pointer, port uint8, frame []byte) error {
	rc := C.worker_send(w.c, (*C.struct_rte_mempool)(pool), unsafe.Pointer(unsafe.SliceData(frame)), C.uint(len(frame)), C.uint(port))
	if rc != 0 {
		return fmt.Errorf("lcore: send a frame of %d bytes by worker %d: %w", len(frame), w.ID(), syscall.Errno(-rc))
	}
	return nil
}
