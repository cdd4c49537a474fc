// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "../dpdk/near.h"
// #include "policy.h"
import "C"

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"unsafe"
)

// admission says which sources may have proxy QPs. The policy says a part of it, management the other: workers read both
// as one, which is replaced as a whole.
type admission struct {
	mu      sync.Mutex
	allow   []netip.Prefix
	allowIn [][]netip.Prefix
	bridges [][6]byte // MAC addresses of other bridges
	rests   []resting
}

// resting is what was replaced, but may still be read by a worker.
type resting struct {
	was   *C.struct_admission
	token C.uint64_t
}

// MaxBridgeMACs is how many MAC addresses of other bridges workers know.
const MaxBridgeMACs = C.MAX_BRIDGE_MACS

func (a *admission) admit(dp *Datapath, allow []netip.Prefix, allowIn [][]netip.Prefix) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.replace(dp, allow, allowIn, a.bridges)
}

// SetBridges says by which MAC addresses other bridges send: frames from there have crossed a bridge. At most
// MaxBridgeMACs count. On an error nothing has changed. It may be called while workers run, before Close.
func (dp *Datapath) SetBridges(macs [][6]byte) error {
	a := &dp.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	macs = slices.Clone(macs[:min(len(macs), MaxBridgeMACs)])
	return a.replace(dp, a.allow, a.allowIn, macs)
}

// replace gives the workers another list. The caller holds the lock.
func (a *admission) replace(dp *Datapath, allow []netip.Prefix, allowIn [][]netip.Prefix, bridges [][6]byte) error {
	list := (*C.struct_admission)(C.near_zmalloc(nil, C.sizeof_struct_admission, dp.node))
	if list == nil {
		return errors.New("lcore: no memory for the allowed subnets")
	}
	a.allow, a.allowIn, a.bridges = allow, allowIn, bridges
	a.fill(list)
	if was := C.policy_admit(dp.c, list); was != nil {
		a.rests = append(a.rests, resting{was, C.policy_token(dp.c)})
	}
	for len(a.rests) > 0 && bool(C.policy_passed(dp.c, a.rests[0].token)) {
		C.rte_free(unsafe.Pointer(a.rests[0].was))
		a.rests = a.rests[1:]
	}
	return nil
}

// fill sets the C list, which is zero.
func (a *admission) fill(list *C.struct_admission) {
	add := func(n netip.Prefix, segments C.uint8_t) {
		x := &list.prefix[list.n]
		*x = prefixOf(n)
		x.segments = segments
		list.n++
	}
	for _, n := range a.allow {
		add(n, ^C.uint8_t(0))
	}
	for i, own := range a.allowIn {
		for _, n := range own {
			add(n, 1<<i)
		}
	}
	for i, m := range a.bridges {
		list.bridge[i] = mac48(m)
	}
	list.n_bridges = C.uint8_t(len(a.bridges))
}

// free frees all, when the workers have stopped.
func (a *admission) free(dp *Datapath) {
	for _, r := range a.rests {
		C.rte_free(unsafe.Pointer(r.was))
	}
	C.rte_free(unsafe.Pointer(dp.c.admission))
	a.rests = nil
}
