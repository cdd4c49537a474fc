// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "shards.h"
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
	Version uint8  // of RoCE, 1 or 2: that of its last frame
	Static  bool   // configured; learning does not change it
	Routed  bool   // MAC is a router's: its frames may come from another
	// Confirmed: it has answered a request for its MAC address, or need not.
	Confirmed bool
}

type host struct {
	Host
	id uint32
}

// Hosts are the RoCE hosts of a segment, and its part of the table hosts.
type Hosts struct {
	c       *C.struct_tables
	segment segment
	users   hostUsers
	hosts   map[netip.Addr]*host
	ids     *ids // of all segments
}

// hostUsers are the proxy QPs: their entries carry their host's place.
type hostUsers interface {
	countOf(host netip.Addr) int
	move(host netip.Addr, p place)
}

// A place is where frames to a host go, and the MAC address that its own come from; 0: any. Both are words of
// entries.h.
type place struct{ l2, src uint64 }

func (t *Hosts) placeOf(ip netip.Addr) (p place, ok bool) {
	r := t.hosts[ip]
	if r == nil {
		return place{}, false
	}
	return r.place(), true
}

func (h *Host) place() place {
	p := place{l2: l2Word(h.MAC, h.VLAN)}
	if !h.Routed {
		p.src = srcWord(h.MAC)
	}
	return p
}

// l2Word returns the word that says where frames go: the MAC address, its first byte lowest, and above it the VLAN.
func l2Word(mac [6]byte, vlan uint16) uint64 {
	w := uint64(vlan) << C.L2_MAC_BITS
	for i, b := range mac {
		w |= uint64(b) << (8 * i)
	}
	return w
}

// srcWord returns the word that says where a host's frames come from: the MAC address as in l2Word, and above it its shard.
func srcWord(mac [6]byte) uint64 {
	w := l2Word(mac, 0)
	return w | uint64(C.host_shard(C.uint64_t(w)))<<C.L2_MAC_BITS
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

// Put adds the host of h.IP, or changes it. A new MAC or VLAN reaches the host's entry and those of all its
// proxy QPs by one atomic store each.
func (t *Hosts) Put(h Host) (id uint32, err error) {
	if err := h.check(); err != nil {
		return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
	}
	r := t.hosts[h.IP]
	if r == nil {
		return t.add(h)
	}
	if r.Version != h.Version || r.Static != h.Static || r.Routed != h.Routed || r.Confirmed != h.Confirmed {
		var c changes
		c.put(&t.c.hosts, "hosts", hostEntry(t.segment, &h, r.id))
		if err := c.apply(); err != nil {
			return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
		}
	}
	moved := r.place() != h.place()
	r.Host = h
	if moved {
		t.move(r)
	}
	return r.id, nil
}

func (t *Hosts) add(h Host) (uint32, error) {
	id, err := t.ids.take()
	if err != nil {
		return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
	}
	var c changes
	c.put(&t.c.hosts, "hosts", hostEntry(t.segment, &h, id))
	if err := c.apply(); err != nil {
		t.ids.retire(id)
		return 0, fmt.Errorf("tables: host %v: %w", h.IP, err)
	}
	t.hosts[h.IP] = &host{Host: h, id: id}
	return id, nil
}

// move stores the place of a host in all entries that have it.
func (t *Hosts) move(r *host) {
	k, p := t.segment.key(r.IP, 0), r.place()
	C.tables_move_host(t.c, &k, C.uint64_t(p.l2))
	t.users.move(r.IP, p)
}

// Delete removes a host. It fails when the host is not there or still has proxy QPs, whose entries would send
// to a host that nobody keeps up to date.
func (t *Hosts) Delete(ip netip.Addr) error {
	r := t.hosts[ip.Unmap()]
	if r == nil {
		return fmt.Errorf("tables: host %v: not there to delete", ip)
	}
	if n := t.users.countOf(r.IP); n > 0 {
		return fmt.Errorf("tables: host %v: has %d proxy QPs; delete them first", ip, n)
	}
	var c changes
	c.delete(&t.c.hosts, t.segment.key(r.IP, 0))
	if err := c.apply(); err != nil {
		return err
	}
	delete(t.hosts, r.IP)
	t.ids.retire(r.id)
	return nil
}

// Find returns the host of an IP address, and its id.
func (t *Hosts) Find(ip netip.Addr) (h Host, id uint32, ok bool) {
	if r := t.hosts[ip.Unmap()]; r != nil {
		return r.Host, r.id, true
	}
	return Host{}, 0, false
}

// All yields every host, in no order.
func (t *Hosts) All() iter.Seq[Host] {
	return objects(t.hosts, func(r *host) Host { return r.Host })
}

// Len returns how many hosts there are.
func (t *Hosts) Len() int { return len(t.hosts) }
