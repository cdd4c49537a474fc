// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"fmt"
	"iter"
	"net/netip"

	"causeway/ibside/ib"
)

// ProxyQP is a QP on the bridge's HCA that represents one QP of a RoCE host in one partition.
type ProxyQP struct {
	HostQP
	QP      uint32  // the IB port's handle of the proxy QP
	QPN     ib.QPN  // of the proxy QP, on IB
	QKey    ib.QKey // of the RoCE host's QP
	Worker  int     // whose QP it is
	Version uint8   // of RoCE towards the host, 1 or 2; PlainUDP with PlainQPN
	Source  uint8   // which of the IB port's GIDs it sends from, as the port numbers them
}

// HostQP is what a proxy QP represents: a QP of a RoCE host to the nodes of one partition.
type HostQP struct {
	Host      netip.Addr
	HostQPN   ib.QPN // or PlainQPN: what it receives does not cross
	Partition uint8
}

func (s segment) proxyQPKey(k HostQP) C.struct_table_key {
	return s.key(k.Host, uint64(k.HostQPN)|uint64(k.Partition)<<C.PARTITION_SHIFT)
}

func (k HostQP) unmap() HostQP {
	k.Host = k.Host.Unmap()
	return k
}

type proxyQP struct {
	ProxyQP
	id uint32
}

// ProxyQPs are the proxy QPs of a segment's hosts, and its part of the tables proxy_qps and proxy_qpns.
type ProxyQPs struct {
	c       *C.struct_tables
	segment segment
	hosts   interface {
		placeOf(ip netip.Addr) (p place, ok bool)
	}
	proxyQPs  map[HostQP]*proxyQP
	proxyQPNs map[ib.QPN]*proxyQP                  // of all segments
	of        map[netip.Addr]map[*proxyQP]struct{} // by host
	ids       *ids                                 // of all segments
}

func (k *HostQP) String() string {
	if k.Partition != 0 {
		return fmt.Sprintf("%v QPN %v in partition %d", k.Host, k.HostQPN, k.Partition)
	}
	return fmt.Sprintf("%v QPN %v", k.Host, k.HostQPN)
}

func (s *ProxyQP) check() (err error) {
	if s.Host, err = checkUnicast(s.Host); err != nil {
		return err
	}
	for i, q := range []ib.QPN{s.HostQPN, s.QPN} {
		if plain := i == 0 && q == PlainQPN; !plain && (q <= ib.QP1 || q >= ib.QPMulticast) {
			return fmt.Errorf("qpn %v cannot be a user's UD QP; use 0x2 to 0xfffffe", q)
		}
	}
	if s.Worker < 0 || s.Worker > 0xffff {
		return fmt.Errorf("worker %d is not possible; use 0 to 65535", s.Worker)
	}
	return firstError(checkPartition(s.Partition), checkPlain(s.Version, s.HostQPN == PlainQPN))
}

// Put adds the proxy QP of s.HostQP, or changes it. The host must be there: its place is
// the proxy QP's, now and when it moves. A QPN stands for one QP only.
func (t *ProxyQPs) Put(s ProxyQP) (id uint32, err error) {
	if err := s.check(); err != nil {
		return 0, fmt.Errorf("tables: proxy QP %v: %w", &s, err)
	}
	p, ok := t.hosts.placeOf(s.Host)
	if !ok {
		return 0, fmt.Errorf("tables: proxy QP %v: the host is not known; put the host first", &s)
	}
	r := t.proxyQPs[s.HostQP]
	if other := t.proxyQPNs[s.QPN]; other != nil && other != r {
		return 0, fmt.Errorf("tables: proxy QP %v: QPN %v stands for %v; delete that, or use another QP",
			&s, s.QPN, other)
	}
	if r != nil && r.ProxyQP == s {
		return r.id, nil
	}
	if id, err = t.place(&s, p, r); err != nil {
		return 0, fmt.Errorf("tables: proxy QP %v: %w", &s, err)
	}
	if r == nil {
		r = &proxyQP{id: id}
		t.proxyQPs[s.HostQP] = r
		if t.of[s.Host] == nil {
			t.of[s.Host] = map[*proxyQP]struct{}{}
		}
		t.of[s.Host][r] = struct{}{}
	} else {
		delete(t.proxyQPNs, r.QPN)
	}
	r.ProxyQP = s
	t.proxyQPNs[s.QPN] = r
	return id, nil
}

// place puts the entries of s on their tables, the way back first: an answer may come at once. r is what s
// replaces, or nil.
func (t *ProxyQPs) place(s *ProxyQP, p place, r *proxyQP) (id uint32, err error) {
	if r != nil {
		id = r.id
	} else if id, err = t.ids.take(); err != nil {
		return 0, err
	}
	var c changes
	if s.HostQPN != PlainQPN {
		c.put(&t.c.proxy_qpns, "proxy_qpns", proxyQPNEntry(t.segment, s, p.l2))
	}
	c.put(&t.c.proxy_qps, "proxy_qps", proxyQPEntry(t.segment, s, p.src, id))
	if r != nil && r.QPN != s.QPN && s.HostQPN != PlainQPN {
		c.delete(&t.c.proxy_qpns, numberKey(uint64(r.QPN)))
	}
	if err = c.apply(); err != nil && r == nil {
		t.ids.retire(id)
	}
	return id, err
}

// Delete removes a proxy QP. It fails when it is not there.
func (t *ProxyQPs) Delete(of HostQP) error {
	r := t.proxyQPs[of.unmap()]
	if r == nil {
		return fmt.Errorf("tables: proxy QP %v: not there to delete", &of)
	}
	var c changes
	c.delete(&t.c.proxy_qps, t.segment.proxyQPKey(r.HostQP))
	if r.HostQPN != PlainQPN {
		c.delete(&t.c.proxy_qpns, numberKey(uint64(r.QPN)))
	}
	if err := c.apply(); err != nil {
		return err
	}
	delete(t.proxyQPs, r.HostQP)
	delete(t.proxyQPNs, r.QPN)
	delete(t.of[r.Host], r)
	if len(t.of[r.Host]) == 0 {
		delete(t.of, r.Host)
	}
	t.ids.retire(r.id)
	return nil
}

// Find returns a proxy QP and its id.
func (t *ProxyQPs) Find(of HostQP) (s ProxyQP, id uint32, ok bool) {
	if r := t.proxyQPs[of.unmap()]; r != nil {
		return r.ProxyQP, r.id, true
	}
	return ProxyQP{}, 0, false
}

// Of yields the proxy QPs of a host, in no order.
func (t *ProxyQPs) Of(ip netip.Addr) iter.Seq[ProxyQP] {
	of := t.of[ip.Unmap()]
	return func(yield func(ProxyQP) bool) {
		for s := range of {
			if !yield(s.ProxyQP) {
				return
			}
		}
	}
}

func (t *ProxyQPs) countOf(host netip.Addr) int { return len(t.of[host]) }

// move stores the place of a host in the entries of its proxy QPs.
func (t *ProxyQPs) move(host netip.Addr, p place) {
	for s := range t.of[host] {
		out, in := t.segment.proxyQPKey(s.HostQP), numberKey(uint64(s.QPN))
		C.tables_move_proxy_qp(t.c, &out, C.uint64_t(p.src))
		C.tables_move_proxy_qpn(t.c, &in, C.uint64_t(p.l2))
	}
}

// TakeUsed reports whether something has crossed by a proxy QP, to InfiniBand or to RoCE, since it was asked last.
// Making it counts as to InfiniBand.
func (t *ProxyQPs) TakeUsed(of HostQP) (toIB, toRoCE bool) {
	r := t.proxyQPs[of.unmap()]
	if r == nil {
		return false, false
	}
	out, in := t.segment.proxyQPKey(r.HostQP), numberKey(uint64(r.QPN))
	used := C.tables_take_used(t.c, &out, &in)
	return used&C.USED_TO_IB != 0, used&C.USED_TO_ROCE != 0
}

// All yields every proxy QP, in no order.
func (t *ProxyQPs) All() iter.Seq[ProxyQP] {
	return objects(t.proxyQPs, func(r *proxyQP) ProxyQP { return r.ProxyQP })
}

// Len returns how many proxy QPs there are.
func (t *ProxyQPs) Len() int { return len(t.proxyQPs) }
