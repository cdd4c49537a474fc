// SPDX-License-Identifier: Apache-2.0

// Package verbs is the InfiniBand door on hardware: UD queue pairs of libibverbs, multicast joins and connection set-up
// of librdmacm, on ports of either link layer.
//
//	            post                  ┌ stand-in QP ┐   one list a QP and burst
//	worker ───────────────▶ AH cache ─┼ stand-in QP ┼──────────▶ HCA
//	       ◀─ free ── send CQ ◀───────┴ ...         ┘
//	       ◀─ poll ── receive CQ ◀─── SRQ (mbufs of the mempool) ◀── stand-in QPs, multicast QPs
//
// Each worker has queues of its own, and C code for them that neither allocates, locks nor waits. What may wait is done
// here, in Go: queue pairs made and recovered, address handles created, groups joined, the port watched.
//
// A Door's methods may be called from any goroutine.
package verbs
