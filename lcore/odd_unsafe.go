// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_mbuf.h>
// #include "setup.h"
// static unsigned kind_of(const struct rte_mbuf *m) { return m->hash.usr; }
// static void *frame_of(struct rte_mbuf *m) { return rte_pktmbuf_mtod(m, void *); }
// static void frame_free(struct rte_mbuf *m) { rte_pktmbuf_free(m); }
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"
)

// A Held frame is good RoCE whose (host, QPN) has no stand-in yet. Whoever holds it ends it by exactly one
// of Again and Drop.
type Held struct {
	m *C.struct_rte_mbuf
	w *Worker
}

// Worker returns the number of the worker that received the frame.
func (h *Held) Worker() int { return h.w.ID() }

// Again has the worker work on the frame once more, now that its stand-in is there.
func (h *Held) Again() {
	if C.worker_again(h.w.c, h.m) != 0 {
		h.Drop(C.DROP_peer_full)
	}
}

// Drop ends the frame by a named reason.
func (h *Held) Drop(d Drop) {
	h.w.bench.refused[d].Add(1)
	h.w.bench.sawRefused(h.m, h.w.ID(), d)
	C.frame_free(h.m)
}

// An OddFrame is a frame that a worker gave to management.
type OddFrame struct {
	Data []byte // a copy
	Held *Held  // nil: the frame is management's (ARP, ND, IGMP, MLD, ICMP, RoCE with a MAD) and needs nothing more
}

// TakeOdd takes what lies on the worker's odd ring, at most a burst. One goroutine only.
func (w *Worker) TakeOdd() []OddFrame {
	var m, done [C.BURST]*C.struct_rte_mbuf
	n := int(C.worker_take_odd(w.c, &m[0], C.BURST))
	out := make([]OddFrame, n)
	ended := 0
	for i := range n {
		out[i].Data = C.GoBytes(C.frame_of(m[i]), C.int(m[i].data_len))
		if C.kind_of(m[i]) == C.ODD_STANDIN {
			out[i].Held = &Held{m[i], w}
		} else {
			done[ended] = m[i]
			ended++
		}
	}
	C.rte_pktmbuf_free_bulk(&done[0], C.uint(ended))
	return out
}

// Send has the worker send a frame as it is; mbufs come from the pool (from dpdk's Mempool.Pointer).
// One goroutine only.
func (w *Worker) Send(pool unsafe.Pointer, frame []byte) error {
	rc := C.worker_send(w.c, (*C.struct_rte_mempool)(pool), unsafe.Pointer(unsafe.SliceData(frame)), C.uint(len(frame)))
	if rc != 0 {
		return fmt.Errorf("lcore: send a frame of %d bytes by worker %d: %w", len(frame), w.ID(), syscall.Errno(-rc))
	}
	return nil
}
