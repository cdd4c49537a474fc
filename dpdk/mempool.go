// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"syscall"
)

// Headroom is what DPDK keeps free before the data of a new mbuf (RTE_PKTMBUF_HEADROOM).
const Headroom = 128

// DataRoom is the data room of mbufs that hold a frame of that MTU, whatever the kind of port.
func DataRoom(mtu int) int { return Headroom + max(frameRoom(mtu), afMbufRoom(mtu)) }

// Mempool is a pool of mbufs of one size.
type Mempool struct {
	p    *C.struct_rte_mempool
	name string
	n    int
	room int
}

// NewMempool makes a pool of n mbufs. dataRoom counts as DPDK counts: the Headroom and the data after it. priv
// bytes of each mbuf lie between struct rte_mbuf and the headroom and belong to the application (a multiple of 8).
// The mbufs are on the node of packets (EALConfig.Port) as long as that has memory left.
// The pool's lcores keep caches; threads that are no lcores, such as Go's, go without.
func NewMempool(name string, n int, dataRoom int, priv int) (*Mempool, error) {
	if _, err := theEAL(fmt.Sprintf("mempool %q", name)); err != nil {
		return nil, err
	}
	if n < 1 || dataRoom <= Headroom || dataRoom > math.MaxUint16 || priv < 0 || priv > math.MaxUint16 || priv%8 != 0 {
		return nil, fmt.Errorf("dpdk: mempool %q: %d mbufs of %d+%d bytes: use at least one mbuf, a data room of %d to %d bytes and a private area that is a multiple of 8",
			name, n, priv, dataRoom, Headroom+1, math.MaxUint16)
	}
	m := &Mempool{name: name, n: n, room: dataRoom}
	clearLog()
	err := withCString(name, func(c *C.char) C.int {
		return C.dpdk_mempool_create(c, C.uint(n), C.uint16_t(priv), C.uint16_t(dataRoom), &m.p)
	})
	if err != nil {
		return nil, fmt.Errorf("dpdk: mempool %q: %w", name, noRoom(err, n, priv+dataRoom))
	}
	return m, nil
}

// mbufBytes is what an mbuf takes besides its private area and its data: struct rte_mbuf and the mempool's header.
const mbufBytes = 128 + 64

func noRoom(err error, n, size int) error {
	switch {
	case errors.Is(err, syscall.EEXIST):
		return errors.New("there is one of that name; choose another")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errors.New("the name is too long; use at most 24 letters")
	case !errors.Is(err, syscall.ENOMEM):
		return why(err)
	}
	var total, unused C.uint64_t
	C.dpdk_heap(&total, &unused)
	return fmt.Errorf("%d mbufs of %d bytes need about %d MiB, and %d of the EAL's %d MiB are free; raise [workers] memory_mib: %w",
		n, size, (n*(size+mbufBytes))>>20+1, uint64(unused)>>20, uint64(total)>>20, err)
}

// Size is the number of mbufs, in use or not.
func (m *Mempool) Size() int { return m.n }

// Bytes is the memory that its mbufs take.
func (m *Mempool) Bytes() int { return int(C.dpdk_mempool_bytes(m.p)) }

// Node is the NUMA node that its mbufs lie on; -1 where the kernel does not tell.
func (m *Mempool) Node() int { return int(C.dpdk_mempool_node(m.p)) }

// InUse is the number of mbufs that are not in the pool or in one of its caches. It is exact only while nobody
// allocates or frees.
func (m *Mempool) InUse() int { return int(C.dpdk_mempool_in_use(m.p)) }

// Free gives the pool's memory back. It fails as long as mbufs are in use: their owners would write to
// whatever comes next.
func (m *Mempool) Free() error {
	if m.p == nil {
		return nil
	}
	if n := m.InUse(); n > 0 {
		return fmt.Errorf("dpdk: free mempool %q: %d mbufs are in use", m.name, n)
	}
	C.dpdk_mempool_free(m.p)
	m.p = nil
	return nil
}
