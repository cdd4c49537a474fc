// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "policy.h"
import "C"

import (
	"fmt"
	"net/netip"

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

// SetPolicy replaces the policy, from the next packet on. On an error nothing has changed. One goroutine at a time
// may call it, before Close.
func (dp *Datapath) SetPolicy(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := dp.admission.admit(dp, p.Allow, p.AllowIn); err != nil {
		return err
	}
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
