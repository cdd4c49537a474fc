// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "dpdk/near.h"
// #include "policy.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"causeway/ibside/ib"
)

// Policy is the part of the configuration that may change while workers run.
type Policy struct {
	Allow []netip.Prefix // sources that may cross; none: nothing crosses
	// AllowIn are those of one segment that may besides, by its number. There may be fewer than segments.
	AllowIn [][]netip.Prefix
	// BridgeUnknown: a message of an unknown IB source is sent with the bridge's own address; else it is dropped.
	BridgeUnknown bool

	SLOfDSCP [64]ib.SL // 0: the path's own SL
	DSCPOfSL [16]uint8 // for messages without a GRH
	PCPOfSL  [16]uint8 // 802.1Q priority
}

// resting is a list that was replaced, but that a worker may still read.
type resting struct {
	list  *C.struct_allow
	token C.uint64_t
}

// Validate reports what is wrong with a policy.
func (p *Policy) Validate() error {
	n := len(p.Allow)
	for _, own := range p.AllowIn {
		n += len(own)
	}
	switch {
	case n > C.MAX_PREFIXES:
		return fmt.Errorf("lcore: %d allowed subnets are too many; give at most %d, or wider ones", n, C.MAX_PREFIXES)
	case len(p.AllowIn) > maxSegments:
		return fmt.Errorf("lcore: allowed subnets of %d segments; there can be %d", len(p.AllowIn), maxSegments)
	}
	return nil
}

// fill sets the C list, which is zero.
func (p *Policy) fill(list *C.struct_allow) {
	add := func(n netip.Prefix, segments C.uint8_t) {
		x := &list.prefix[list.n]
		*x = prefixOf(n)
		x.segments = segments
		list.n++
	}
	for _, n := range p.Allow {
		add(n, ^C.uint8_t(0))
	}
	for i, own := range p.AllowIn {
		for _, n := range own {
			add(n, 1<<i)
		}
	}
}

// SetPolicy replaces the policy, from the next packet on. On an error nothing has changed. One goroutine at a time
// may call it, before Close.
func (dp *Datapath) SetPolicy(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	list := (*C.struct_allow)(C.near_zmalloc(nil, C.sizeof_struct_allow, dp.node))
	if list == nil {
		return errors.New("lcore: no memory for the allowed subnets")
	}
	p.fill(list)
	if before := C.policy_allow(dp.c, list); before != nil {
		dp.rests = append(dp.rests, resting{before, C.policy_token(dp.c)})
	}
	dp.freeRested()
	C.policy_unknown(dp.c, C.bool(p.BridgeUnknown))
	for i, sl := range p.SLOfDSCP {
		C.policy_class(&dp.c.sl_of_dscp[i], C.uint8_t(sl))
	}
	for sl := range p.DSCPOfSL {
		C.policy_class(&dp.c.dscp_of_sl[sl], C.uint8_t(p.DSCPOfSL[sl]))
		C.policy_class(&dp.c.pcp_of_sl[sl], C.uint8_t(p.PCPOfSL[sl]))
	}
	return nil
}

// freeRested frees the lists that no worker reads any more.
func (dp *Datapath) freeRested() {
	for len(dp.rests) > 0 && bool(C.policy_passed(dp.c, dp.rests[0].token)) {
		C.rte_free(unsafe.Pointer(dp.rests[0].list))
		dp.rests = dp.rests[1:]
	}
}

// freePolicy frees them all, when the workers have stopped.
func (dp *Datapath) freePolicy() {
	for _, r := range dp.rests {
		C.rte_free(unsafe.Pointer(r.list))
	}
	C.rte_free(unsafe.Pointer(dp.c.allow))
	dp.rests = nil
}
