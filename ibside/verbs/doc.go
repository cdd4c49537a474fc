// SPDX-License-Identifier: Apache-2.0

// Package verbs is the InfiniBand port on hardware: UD queue pairs of libibverbs, multicast joins and connection set-up
// of librdmacm, on ports of either link layer.
//
//	            post                  ┌ proxy QP  ┐   one list a QP and burst
//	worker ───────────────▶ AH cache ─┼ proxy QP  ┼──────────▶ HCA
//	       ◀─ free ── send CQ ◀───────┴ ...       ┘
//	       ◀─ poll ── receive CQ ◀─── SRQ (mbufs of the mempool) ◀── proxy QPs, multicast QPs
//
// Each worker has queues of its own, and C code for them that neither allocates, locks nor waits. What may wait is done
// here, in Go: queue pairs made and recovered, address handles created, groups joined, the port's state followed.
//
// A Port's methods may be called from any goroutine.
package verbs
