// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// maxPayload is the largest UD payload there is (MTU 4096, IBTA vol 1 §9.2.1).
const maxPayload = 4096

// Group is a bridged multicast group.
type Group struct {
	IP         netip.Addr // on the RoCE side
	MGID       ib.GID     // on the IB side
	MLID       ib.LID     // several groups may share one
	SL         ib.SL
	HopLimit   uint8
	Rate       ib.Rate // for address handles; 0: the port's
	QKey       ib.QKey // on the IB side
	RoCEQKey   ib.QKey // on the RoCE side
	MTUToIB    int     // largest payload, bytes
	MTUToRoCE  int     // largest payload, bytes
	VLAN       uint16  // on the RoCE side; 0 = untagged
	Version    uint8   // of RoCE, 1 or 2; or PlainUDP
	UDPPort    uint16  // of plain UDP, else 0
	TTL        uint8   // or hop limit, of plain UDP
	ToIB       bool    // RoCE to IB is bridged
	ToRoCE     bool    // IB to RoCE is bridged
	RewriteImm bool    // an immediate equal to the sender's QPN becomes the proxy QP's
	Policed    bool    // its rate is limited
	PGM        bool    // its messages are PGM's (RFC 3208), and looked at
	Partition  uint8   // on the IB side

	// Segments are those that share the group, of Tables.Shared, a bit for each by number; of other Groups 0. It has its
	// own partition, whatever theirs are. VLAN is 0, and Version 2 where they differ, for workers know the segments'.
	Segments uint8

	// Inbound: it only leads from IB to RoCE, and what RoCE hosts send to IP is not this group's. An address has any
	// number of inbound groups, but one other at most: a RoCE message names no more than the address.
	Inbound bool
}

// A GroupAddr is what packets on Ethernet name of a group.
type GroupAddr struct {
	IP      netip.Addr
	UDPPort uint16 // of plain UDP; 0: RoCE
}

// Compare orders addresses by IP address and port.
func (a GroupAddr) Compare(b GroupAddr) int {
	return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.UDPPort, b.UDPPort))
}

// String returns the IP address, of plain UDP with the port.
func (a GroupAddr) String() string {
	if a.UDPPort == 0 {
		return a.IP.String()
	}
	return netip.AddrPortFrom(a.IP, a.UDPPort).String()
}

// Addr returns the group's address.
func (g *Group) Addr() GroupAddr { return GroupAddr{g.IP, g.UDPPort} }

type group struct {
	Group
	id uint32
}

// Groups are the bridged multicast groups of a segment, and its part of the tables groups and mgids.
type Groups struct {
	c       *C.struct_tables
	segment segment
	groups  map[GroupAddr]*group
	mgids   map[ib.GID]*group
	taken   map[ib.GID]segment // the MGIDs of all segments
	ids     *ids               // of all segments
}

// mac returns the Ethernet address of the group: RoCEv1 maps every group as IPv6 does.
func (g *Group) mac() [6]byte {
	gid := ib.GIDFromAddr(g.IP)
	if g.Version == 1 && g.IP.Is4() {
		return [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}
	}
	return ib.MulticastMAC(gid)
}

func (g *Group) check() error {
	g.IP = g.IP.Unmap()
	switch {
	case !g.IP.IsMulticast() || g.IP.Zone() != "":
		return fmt.Errorf("ip %v is not a multicast address; give one, without zone", g.IP)
	case g.MGID == ib.GIDFromAddr(g.IP) && g.MLID == 0: // on an Ethernet link layer the group is the address
	case !g.MGID.IsIBMulticast():
		return fmt.Errorf("mgid %v is not a multicast GID; it begins with ff", g.MGID)
	case !g.MLID.IsMulticast():
		return fmt.Errorf("mlid %v is not a multicast LID; join the group first, the SA gives one", g.MLID)
	}
	switch {
	case g.SL > 15:
		return fmt.Errorf("sl %d is not possible; use 0 to 15", g.SL)
	case g.Inbound && g.ToIB:
		return errors.New("an inbound group does not lead to IB; clear one of Inbound and ToIB")
	case g.UDPPort != 0 && (g.TTL == 0 || g.RoCEQKey != 0):
		return fmt.Errorf("plain UDP with TTL %d and Q_Key %v on RoCE; use a TTL from 1 and no Q_Key", g.TTL, g.RoCEQKey)
	case g.Segments != 0 && (g.Inbound || g.VLAN != 0 || g.Version == 1):
		return errors.New("several segments share it; clear Inbound and VLAN, and use Version 2")
	}
	return firstError(checkMTU("MTUToIB", g.MTUToIB, g.ToIB), checkMTU("MTUToRoCE", g.MTUToRoCE, g.ToRoCE),
		checkVLAN(g.VLAN), checkPartition(g.Partition), checkPlain(g.Version, g.UDPPort != 0))
}

// checkMTU lets 0 pass in a direction that is not used.
func checkMTU(name string, mtu int, used bool) error {
	if mtu < 0 || mtu > maxPayload || used && mtu == 0 {
		return fmt.Errorf("%s is %d bytes; use 1 to %d", name, mtu, maxPayload)
	}
	return nil
}

// Put adds a group or changes it. A group is known by its MGID, and keeps its id.
func (t *Groups) Put(g Group) (id uint32, err error) {
	if err := g.check(); err != nil {
		return 0, fmt.Errorf("tables: group %v: %w", g.IP, err)
	}
	if (t.segment == shared) != (g.Segments != 0) {
		return 0, fmt.Errorf("tables: group %v: segments %#b; only groups of Shared have any", g.IP, g.Segments)
	}
	r, main := t.mgids[g.MGID], t.groups[g.Addr()] // none of Shared's is there
	of, taken := t.taken[g.MGID]
	switch {
	case taken && of != t.segment:
		return 0, fmt.Errorf("tables: group %v: mgid %v belongs to a group of segment %d; delete that, or use another", g.IP, g.MGID, of)
	case r != nil && r.Addr() != g.Addr():
		return 0, fmt.Errorf("tables: group %v: mgid %v belongs to group %v; delete that, or use another",
			g.IP, g.MGID, r.Addr())
	case !g.Inbound && main != nil && main != r:
		return 0, fmt.Errorf("tables: group %v: its address belongs to mgid %v; delete that, or let one be inbound", g.IP, main.MGID)
	}
	if r != nil && r.Group == g {
		return r.id, nil
	}
	if id, err = t.place(&g, r); err != nil {
		return 0, fmt.Errorf("tables: group %v: %w", g.IP, err)
	}
	if r == nil {
		r = &group{id: id}
	} else {
		t.unlink(r)
	}
	r.Group = g
	t.mgids[g.MGID], t.taken[g.MGID] = r, t.segment
	if !g.Inbound && t.segment != shared {
		t.groups[g.Addr()] = r
	}
	return id, nil
}

// unlink takes a group out of the Go maps.
func (t *Groups) unlink(r *group) {
	delete(t.mgids, r.MGID)
	delete(t.taken, r.MGID)
	if !r.Inbound {
		delete(t.groups, r.Addr())
	}
}

// leadsFrom returns the segments whose messages to its address belong to a group.
func (t *Groups) leadsFrom(g *Group) (in []segment) {
	switch {
	case g.Inbound:
	case g.Segments == 0:
		in = append(in, t.segment)
	default:
		for s := range segment(MaxSegments) {
			if g.Segments>>s&1 != 0 {
				in = append(in, s)
			}
		}
	}
	return in
}

// place puts the entries of g on their tables; r is what it was before, or nil.
func (t *Groups) place(g *Group, r *group) (id uint32, err error) {
	if r != nil {
		id = r.id
	} else if id, err = t.ids.take(); err != nil {
		return 0, err
	}
	var c changes
	in := t.leadsFrom(g)
	for _, s := range in {
		c.put(&t.c.groups, "groups", groupEntry(s, g, id))
	}
	c.put(&t.c.mgids, "mgids", mgidEntry(t.segment, g, id))
	if r != nil {
		for _, s := range t.leadsFrom(&r.Group) {
			if !slices.Contains(in, s) {
				c.delete(&t.c.groups, s.groupKey(r.Addr()))
			}
		}
	}
	if err = c.apply(); err != nil && r == nil {
		t.ids.retire(id)
	}
	return id, err
}

// Delete removes the RoCE group of an IP group address, but not its inbound ones. It fails when it is not there.
func (t *Groups) Delete(ip netip.Addr) error {
	r := t.groups[GroupAddr{IP: ip.Unmap()}]
	if r == nil {
		return fmt.Errorf("tables: group %v: not there to delete", ip)
	}
	return t.remove(r)
}

// DeleteMGID removes the group of an MGID. It fails when it is not there.
func (t *Groups) DeleteMGID(mgid ib.GID) error {
	r := t.mgids[mgid]
	if r == nil {
		return fmt.Errorf("tables: group %v: not there to delete", mgid)
	}
	return t.remove(r)
}

func (t *Groups) remove(r *group) error {
	var c changes
	for _, s := range t.leadsFrom(&r.Group) {
		c.delete(&t.c.groups, s.groupKey(r.Addr()))
	}
	c.delete(&t.c.mgids, gidKey(r.MGID))
	if err := c.apply(); err != nil {
		return err
	}
	t.unlink(r)
	t.ids.retire(r.id)
	return nil
}

// Find returns the RoCE group of an IP group address that is not inbound, and its id.
func (t *Groups) Find(ip netip.Addr) (g Group, id uint32, ok bool) {
	if r := t.groups[GroupAddr{IP: ip.Unmap()}]; r != nil {
		return r.Group, r.id, true
	}
	return Group{}, 0, false
}

// FindMGID returns the group of an MGID, and its id.
func (t *Groups) FindMGID(mgid ib.GID) (g Group, id uint32, ok bool) {
	if r := t.mgids[mgid]; r != nil {
		return r.Group, r.id, true
	}
	return Group{}, 0, false
}

// All yields every group, in no order.
func (t *Groups) All() iter.Seq[Group] {
	return objects(t.mgids, func(r *group) Group { return r.Group })
}

// Len returns how many groups there are.
func (t *Groups) Len() int { return len(t.mgids) }
