// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"net/netip"

	"causeway/ibside/ib"
)

// MaxSegments is how many RoCE segments there can be. Their numbers are below.
const MaxSegments = C.MAX_SEGMENTS

// segment is the number of a RoCE segment.
type segment uint8

// shared is in the place of the number of groups that segments share.
const shared segment = MaxSegments

// A Segment is what the tables have of one RoCE segment. The same address in two segments is two hosts, and two groups.
// An MGID and a proxy QP's QPN belong to one.
type Segment struct {
	Hosts    *Hosts
	ProxyQPs *ProxyQPs
	Groups   *Groups
}

// pools are what segments share.
type pools struct {
	hosts, proxyQPs, groups ids

	proxyQPNs map[ib.QPN]*proxyQP
	mgids     map[ib.GID]segment
}

func newGroups(c *C.struct_tables, n segment, p *pools) *Groups {
	return &Groups{c: c, segment: n, groups: map[GroupAddr]*group{}, mgids: map[ib.GID]*group{}, taken: p.mgids, ids: &p.groups}
}

func newSegment(c *C.struct_tables, n segment, p *pools) Segment {
	s := Segment{
		Hosts: &Hosts{c: c, segment: n, hosts: map[netip.Addr]*host{}, ids: &p.hosts},
		ProxyQPs: &ProxyQPs{
			c: c, segment: n, proxyQPs: map[HostQP]*proxyQP{}, proxyQPNs: p.proxyQPNs, of: map[netip.Addr]map[*proxyQP]struct{}{}, ids: &p.proxyQPs,
		},
		Groups: newGroups(c, n, p),
	}
	s.Hosts.users, s.ProxyQPs.hosts = s.ProxyQPs, s.Hosts
	return s
}

// In returns the part of the segment with that number; number 0 is that of the embedded Segment.
func (t *Tables) In(n uint8) *Segment { return &t.segments[n] }
