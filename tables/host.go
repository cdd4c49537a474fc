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
)

// Host is a RoCE host.
type Host struct {
	IP      netip.Addr
	MAC     [6]byte
	VLAN    uint16 // 0 = untagged
	Version uint8  // of RoCE, 1 or 2: how it last spoke
	Static  bool   // configured; learning does not change it
}

type host struct {
	Host
	id       uint32
	standIns map[*standIn]struct{} // they carry the host's L2
}

// l2 returns the word that says where frames to h go.
func (h *Host) l2() uint64 { return l2Word(h.MAC, h.VLAN) }

// l2Word returns the word that says where frames go: the MAC address, its first byte lowest, and above it the VLAN.
func l2Word(mac [6]byte, vlan uint16) uint64 {
	w := uint64(vlan) << C.L2_MAC_BITS
	for i, b := range mac {
		w |= uint64(b) << (8 * i)
	}
	return w
}

func (h *Host) check() (err error) {
	if h.IP, err = checkUnicast(h.IP); err != nil {
		return err
	}
	if h.MAC[0]&1 != 0 || h.MAC == [6]byte{} {
		return fmt.Errorf("mac %x is not one host's; give its unicast address", h.MAC)
	}
	return firstError(checkVLAN(h.VLAN), checkVersion(h.Version))
}

// PutHost adds the host of h.IP, or changes it. A new MAC or VLAN reaches the host's entry and those of all its
// stand-ins by one atomic store each.
func (t *Tables) PutHost(h Host) (id uint32, err error) {
	if err := h.check(); err != nil {
		return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
	}
	r := t.hosts[h.IP]
	if r == nil {
		return t.addHost(h)
	}
	if r.Version != h.Version || r.Static != h.Static {
		var c changes
		c.put(&t.c.hosts, "hosts", hostEntry(&h, r.id))
		if err := c.apply(); err != nil {
			return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
		}
	}
	moved := r.l2() != h.l2()
	r.Host = h
	if moved {
		t.moveHost(r)
	}
	return r.id, nil
}

func (t *Tables) addHost(h Host) (uint32, error) {
	id, err := t.hostIDs.take(t)
	if err != nil {
		return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
	}
	var c changes
	c.put(&t.c.hosts, "hosts", hostEntry(&h, id))
	if err := c.apply(); err != nil {
		t.hostIDs.retire(t, id)
		return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
	}
	t.hosts[h.IP] = &host{Host: h, id: id, standIns: map[*standIn]struct{}{}}
	return id, nil
}

// moveHost stores the L2 of a host in all entries that have it.
func (t *Tables) moveHost(r *host) {
	k, l2 := addrKey(r.IP, 0), C.uint64_t(r.l2())
	C.tables_move_host(t.c, &k, l2)
	for s := range r.standIns {
		k := numberKey(uint64(s.QPN))
		C.tables_move_standin_qp(t.c, &k, l2)
	}
}

// DeleteHost removes a host. It fails when the host is not there or still has stand-ins, whose entries would send
// to a host that nobody keeps up to date.
func (t *Tables) DeleteHost(ip netip.Addr) error {
	r := t.hosts[ip.Unmap()]
	if r == nil {
		return fmt.Errorf("tables: host %v: not there to delete", ip)
	}
	if n := len(r.standIns); n > 0 {
		return fmt.Errorf("tables: host %v: has %d stand-ins; delete them first", ip, n)
	}
	var c changes
	c.delete(&t.c.hosts, addrKey(r.IP, 0))
	if err := c.apply(); err != nil {
		return err
	}
	delete(t.hosts, r.IP)
	t.hostIDs.retire(t, r.id)
	return nil
}

// FindHost returns the host of an IP address, and its id.
func (t *Tables) FindHost(ip netip.Addr) (h Host, id uint32, ok bool) {
	if r := t.hosts[ip.Unmap()]; r != nil {
		return r.Host, r.id, true
	}
	return Host{}, 0, false
}

// StandInsOf yields the stand-ins of a host, in no order.
func (t *Tables) StandInsOf(ip netip.Addr) iter.Seq[StandIn] {
	var of map[*standIn]struct{}
	if r := t.hosts[ip.Unmap()]; r != nil {
		of = r.standIns
	}
	return func(yield func(StandIn) bool) {
		for s := range of {
			if !yield(s.StandIn) {
				return
			}
		}
	}
}

// AllHosts yields every host, in no order.
func (t *Tables) AllHosts() iter.Seq[Host] {
	return objects(t.hosts, func(r *host) Host { return r.Host })
}

// LenHosts returns how many hosts there are.
func (t *Tables) LenHosts() int { return len(t.hosts) }
