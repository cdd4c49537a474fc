// SPDX-License-Identifier: Apache-2.0

package bench

// #cgo pkg-config: libibverbs
// #include "hca.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"

	"causeway/dpdk"
	"causeway/ibside/ib"
	_ "causeway/ibside/verbs"         // its C
	_ "causeway/ibside/verbs/mlx5mem" // the device
)

// Begin makes an HCA of memory the only one that this process has. It must be called before the EAL starts.
func Begin() error {
	if !C.hca_begin() {
		return errors.New("bench: the HCA made of memory needs a folder in /tmp")
	}
	return nil
}

// The ways of a verbs port.
const (
	libmlx5 = "libmlx5"
	direct  = "direct"
)

// An hca is a worker's verbs port on an HCA made of memory, with a mempool that it registered and that is the caller's.
type hca struct {
	c     *C.struct_hca
	pool  *dpdk.Mempool
	peers int
}

func newHCA(pool *dpdk.Mempool, qps, receives int, way string) (*hca, error) {
	h := &hca{pool: pool}
	sizes := C.struct_hca_sizes{qps: C.uint(qps), receives: C.uint(receives), qkey: C.uint32_t(ib.QKeyRDMAUDP), direct: way == direct}
	if rc := C.hca_new((*C.struct_rte_mempool)(pool.Pointer()), &sizes, &h.c); rc != 0 {
		return nil, fmt.Errorf("bench: an HCA of %d queue pairs, %s: %w", qps, way, syscall.Errno(rc))
	}
	return h, nil
}

// close ends the port, which gives all mbufs back.
func (h *hca) close() error {
	if rc := C.hca_free(h.c); rc != 0 {
		return fmt.Errorf("bench: close an HCA: %w", syscall.Errno(rc))
	}
	return nil
}

// proxyQP returns handle and number of a queue pair, counted from 0.
func (h *hca) proxyQP(i int) (handle uint32, qpn ib.QPN) {
	return uint32(C.hca_handle(C.uint(i))), ib.QPN(C.hca_qpn(h.c, C.uint(i)))
}

// nodeAH is the address of a node's port.
func nodeAH(i int) C.struct_ib_ah {
	ah := C.struct_ib_ah{dlid: C.uint16_t(lid(i)), hop_limit: nodeHops}
	for k, b := range nodeGID(i) {
		ah.dgid[k] = C.uint8_t(b)
	}
	return ah
}

// meet makes the address handle of a node.
func (h *hca) meet(i int) error {
	ah := nodeAH(i)
	if rc := C.hca_meet(h.c, &ah); rc != 0 {
		return fmt.Errorf("bench: an address handle for node %d: %w", i, syscall.Errno(rc))
	}
	h.peers++
	return nil
}

// hcaCounts is what a port has counted, and the HCA's faults.
type hcaCounts struct{ posted, sent, delivered, bells uint64 }

// count fails when something was dropped, given up or done wrong.
func (h *hca) count() (hcaCounts, error) {
	c := C.hca_count(h.c)
	if c.dropped+c.evicted+c.faults > 0 || c.posted != c.sent || int(c.asked) != h.peers {
		return hcaCounts{}, fmt.Errorf("bench: the HCA's port: %+v: this measured something else", c)
	}
	return hcaCounts{uint64(c.posted), uint64(c.sent), uint64(c.delivered), uint64(c.bells)}, nil
}
