// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <stdlib.h>
// #include "policy.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"causeway/ibside/ib"
)

// Policy is what of a bench may change while workers run.
type Policy struct {
	Allow []netip.Prefix // sources that may cross; none: nothing crosses
	// BridgeUnknown: a message of an IB source that no node is known by crosses with the bridge's own address; else it is
	// dropped.
	BridgeUnknown bool

	SLOfDSCP [64]ib.SL // 0: the path's own SL
	DSCPOfSL [16]uint8 // for messages without a GRH
	PCPOfSL  [16]uint8 // 802.1Q priority
}

// resting is a list that no worker finds any more, but that one may still read.
type resting struct {
	list  *C.struct_allow
	token C.uint64_t
}

// Validate reports why a bench would not take a policy.
func (p *Policy) Validate() error {
	if len(p.Allow) > C.MAX_PREFIXES {
		return fmt.Errorf("lcore: %d allowed subnets are too many; give at most %d, or wider ones", len(p.Allow), C.MAX_PREFIXES)
	}
	return nil
}

// SetPolicy has workers go by another policy from the next packet on. On an error nothing has changed. One goroutine at a time
// may call it, before Close.
func (b *Bench) SetPolicy(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	list := (*C.struct_allow)(C.calloc(1, C.sizeof_struct_allow))
	if list == nil {
		return errors.New("lcore: no memory for the allowed subnets")
	}
	list.n = C.uint8_t(len(p.Allow))
	for i, n := range p.Allow {
		list.prefix[i] = prefixOf(n)
	}
	if before := C.policy_allow(b.c, list); before != nil {
		b.rests = append(b.rests, resting{before, C.policy_token(b.c)})
	}
	b.freeRested()
	C.policy_unknown(b.c, C.bool(p.BridgeUnknown))
	for i, sl := range p.SLOfDSCP {
		C.policy_class(&b.c.sl_of_dscp[i], C.uint8_t(sl))
	}
	for sl := range p.DSCPOfSL {
		C.policy_class(&b.c.dscp_of_sl[sl], C.uint8_t(p.DSCPOfSL[sl]))
		C.policy_class(&b.c.pcp_of_sl[sl], C.uint8_t(p.PCPOfSL[sl]))
	}
	return nil
}

// freeRested frees the lists that no worker reads any more.
func (b *Bench) freeRested() {
	for len(b.rests) > 0 && bool(C.policy_passed(b.c, b.rests[0].token)) {
		C.free(unsafe.Pointer(b.rests[0].list))
		b.rests = b.rests[1:]
	}
}

// freePolicy frees them all, when the workers have stopped.
func (b *Bench) freePolicy() {
	for _, r := range b.rests {
		C.free(unsafe.Pointer(r.list))
	}
	C.free(unsafe.Pointer(b.c.allow))
	b.rests = nil
}
