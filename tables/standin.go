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

// StandIn is a QP on the bridge's HCA that stands for one QP of a RoCE host.
type StandIn struct {
	Host    netip.Addr
	HostQPN ib.QPN  // the RoCE host's QP
	QP      uint32  // the IB door's handle of the stand-in
	QPN     ib.QPN  // of the stand-in, on IB
	QKey    ib.QKey // of the RoCE host's QP
	Worker  int     // whose QP it is
	Version uint8   // of RoCE towards the host, 1 or 2
	Source  uint8   // which of the IB port's GIDs it sends from, as the door numbers them
}

type standInKey struct {
	host netip.Addr
	qpn  ib.QPN
}

type standIn struct {
	StandIn
	id   uint32
	host *host
}

func (s *StandIn) key() standInKey { return standInKey{s.Host, s.HostQPN} }

func (s *StandIn) String() string { return fmt.Sprintf("%v QPN %v", s.Host, s.HostQPN) }

func (s *StandIn) check() (err error) {
	if s.Host, err = checkUnicast(s.Host); err != nil {
		return err
	}
	for _, q := range []ib.QPN{s.HostQPN, s.QPN} {
		if q <= ib.QP1 || q >= ib.QPMulticast {
			return fmt.Errorf("qpn %v cannot be a user's UD QP; use 0x2 to 0xfffffe", q)
		}
	}
	if s.Worker < 0 || s.Worker > 0xffff {
		return fmt.Errorf("worker %d is not possible; use 0 to 65535", s.Worker)
	}
	return checkVersion(s.Version)
}

// PutStandIn adds the stand-in of (s.Host, s.HostQPN), or changes it. The host must be there: its L2 is
// the stand-in's, now and when it moves. A QPN stands for one QP only.
func (t *Tables) PutStandIn(s StandIn) (id uint32, err error) {
	if err := s.check(); err != nil {
		return 0, fmt.Errorf("tables: stand-in %v: %w", &s, err)
	}
	h := t.hosts[s.Host]
	if h == nil {
		return 0, fmt.Errorf("tables: stand-in %v: the host is not known; put the host first", &s)
	}
	r := t.standIns[s.key()]
	if other := t.standInQPs[s.QPN]; other != nil && other != r {
		return 0, fmt.Errorf("tables: stand-in %v: QPN %v stands for %v; delete that, or use another QP",
			&s, s.QPN, other)
	}
	if r != nil && r.StandIn == s {
		return r.id, nil
	}
	if id, err = t.placeStandIn(&s, h, r); err != nil {
		return 0, fmt.Errorf("tables: stand-in %v: %w", &s, err)
	}
	if r == nil {
		r = &standIn{id: id, host: h}
		t.standIns[s.key()] = r
		h.standIns[r] = struct{}{}
	} else {
		delete(t.standInQPs, r.QPN)
	}
	r.StandIn = s
	t.standInQPs[s.QPN] = r
	return id, nil
}

// placeStandIn puts the entries of s on their shelves, the way back first: an answer may come at once. r is what s
// replaces, or nil.
func (t *Tables) placeStandIn(s *StandIn, h *host, r *standIn) (id uint32, err error) {
	if r != nil {
		id = r.id
	} else if id, err = t.standInIDs.take(t); err != nil {
		return 0, err
	}
	var c changes
	c.put(&t.c.standin_qps, "standin_qps", standInQPEntry(s, h.l2(), id))
	c.put(&t.c.standins, "standins", standInEntry(s, id))
	if r != nil && r.QPN != s.QPN {
		c.delete(&t.c.standin_qps, numberKey(uint64(r.QPN)))
	}
	if err = c.apply(); err != nil && r == nil {
		t.standInIDs.retire(t, id)
	}
	return id, err
}

// DeleteStandIn removes a stand-in. It fails when it is not there.
func (t *Tables) DeleteStandIn(hostIP netip.Addr, hostQPN ib.QPN) error {
	r := t.standIns[standInKey{hostIP.Unmap(), hostQPN}]
	if r == nil {
		return fmt.Errorf("tables: stand-in %v QPN %v: not there to delete", hostIP, hostQPN)
	}
	var c changes
	c.delete(&t.c.standins, addrKey(r.Host, uint64(r.HostQPN)))
	c.delete(&t.c.standin_qps, numberKey(uint64(r.QPN)))
	if err := c.apply(); err != nil {
		return err
	}
	delete(t.standIns, r.key())
	delete(t.standInQPs, r.QPN)
	delete(r.host.standIns, r)
	t.standInIDs.retire(t, r.id)
	return nil
}

// FindStandIn returns the stand-in of a RoCE host's QP, and its id.
func (t *Tables) FindStandIn(hostIP netip.Addr, hostQPN ib.QPN) (s StandIn, id uint32, ok bool) {
	if r := t.standIns[standInKey{hostIP.Unmap(), hostQPN}]; r != nil {
		return r.StandIn, r.id, true
	}
	return StandIn{}, 0, false
}

// FindStandInQP returns the stand-in that has a QPN on IB, and its id.
func (t *Tables) FindStandInQP(qpn ib.QPN) (s StandIn, id uint32, ok bool) {
	if r := t.standInQPs[qpn]; r != nil {
		return r.StandIn, r.id, true
	}
	return StandIn{}, 0, false
}

// TakeUsed reports whether something has crossed by a stand-in since it was asked last, or made.
func (t *Tables) TakeUsed(hostIP netip.Addr, hostQPN ib.QPN) bool {
	r := t.standIns[standInKey{hostIP.Unmap(), hostQPN}]
	if r == nil {
		return false
	}
	out, in := addrKey(r.Host, uint64(r.HostQPN)), numberKey(uint64(r.QPN))
	return C.tables_take_used(t.c, &out, &in) != 0
}

// AllStandIns yields every stand-in, in no order.
func (t *Tables) AllStandIns() iter.Seq[StandIn] {
	return objects(t.standIns, func(r *standIn) StandIn { return r.StandIn })
}

// LenStandIns returns how many stand-ins there are.
func (t *Tables) LenStandIns() int { return len(t.standIns) }
