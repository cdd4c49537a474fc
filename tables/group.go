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

// maxPayload is the largest UD payload there is (MTU 4096, IBTA vol 1 §9.2.1).
const maxPayload = 4096

// Group is a bridged multicast group.
type Group struct {
	IP         netip.Addr // on the RoCE side
	MGID       ib.GID     // on the IB side
	MLID       ib.LID     // several groups may share one
	SL         ib.SL
	TClass     uint8
	HopLimit   uint8
	QKey       ib.QKey // on the IB side
	RoCEQKey   ib.QKey // on the RoCE side
	MTUToIB    int     // largest payload, bytes
	MTUToRoCE  int     // largest payload, bytes
	VLAN       uint16  // on the RoCE side; 0 = untagged
	Version    uint8   // of RoCE, 1 or 2
	ToIB       bool    // RoCE to IB is bridged
	ToRoCE     bool    // IB to RoCE is bridged
	RewriteImm bool    // an immediate equal to the sender's QPN becomes the stand-in's
	Policed    bool    // its rate is limited
}

type group struct {
	Group
	id uint32
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
	if g.SL > 15 {
		return fmt.Errorf("sl %d is not possible; use 0 to 15", g.SL)
	}
	return firstError(checkMTU("MTUToIB", g.MTUToIB, g.ToIB), checkMTU("MTUToRoCE", g.MTUToRoCE, g.ToRoCE),
		checkVLAN(g.VLAN), checkVersion(g.Version))
}

// checkMTU lets 0 pass in a direction that is not used.
func checkMTU(name string, mtu int, used bool) error {
	if mtu < 0 || mtu > maxPayload || used && mtu == 0 {
		return fmt.Errorf("%s is %d bytes; use 1 to %d", name, mtu, maxPayload)
	}
	return nil
}

// PutGroup adds the group of g.IP, or changes it. An MGID belongs to one group only.
func (t *Tables) PutGroup(g Group) (id uint32, err error) {
	if err := g.check(); err != nil {
		return 0, fmt.Errorf("tables: group %v: %w", g.IP, err)
	}
	r := t.groups[g.IP]
	if other := t.mgids[g.MGID]; other != nil && other != r {
		return 0, fmt.Errorf("tables: group %v: mgid %v belongs to group %v; delete that, or use another",
			g.IP, g.MGID, other.IP)
	}
	if r != nil && r.Group == g {
		return r.id, nil
	}
	if id, err = t.placeGroup(&g, r); err != nil {
		return 0, fmt.Errorf("tables: group %v: %w", g.IP, err)
	}
	if r == nil {
		r = &group{id: id}
		t.groups[g.IP] = r
	} else {
		delete(t.mgids, r.MGID)
	}
	r.Group = g
	t.mgids[g.MGID] = r
	return id, nil
}

// placeGroup puts the entries of g on their shelves; r is what g replaces, or nil.
func (t *Tables) placeGroup(g *Group, r *group) (id uint32, err error) {
	if r != nil {
		id = r.id
	} else if id, err = t.groupIDs.take(t); err != nil {
		return 0, err
	}
	var c changes
	c.put(&t.c.groups, "groups", groupEntry(g, id))
	c.put(&t.c.mgids, "mgids", mgidEntry(g, id))
	if r != nil && r.MGID != g.MGID {
		c.delete(&t.c.mgids, gidKey(r.MGID))
	}
	if err = c.apply(); err != nil && r == nil {
		t.groupIDs.retire(t, id)
	}
	return id, err
}

// DeleteGroup removes a group. It fails when it is not there.
func (t *Tables) DeleteGroup(ip netip.Addr) error {
	r := t.groups[ip.Unmap()]
	if r == nil {
		return fmt.Errorf("tables: group %v: not there to delete", ip)
	}
	var c changes
	c.delete(&t.c.groups, addrKey(r.IP, 0))
	c.delete(&t.c.mgids, gidKey(r.MGID))
	if err := c.apply(); err != nil {
		return err
	}
	delete(t.groups, r.IP)
	delete(t.mgids, r.MGID)
	t.groupIDs.retire(t, r.id)
	return nil
}

// FindGroup returns the group of an IP group address, and its id.
func (t *Tables) FindGroup(ip netip.Addr) (g Group, id uint32, ok bool) {
	if r := t.groups[ip.Unmap()]; r != nil {
		return r.Group, r.id, true
	}
	return Group{}, 0, false
}

// FindMGID returns the group of an MGID, and its id.
func (t *Tables) FindMGID(mgid ib.GID) (g Group, id uint32, ok bool) {
	if r := t.mgids[mgid]; r != nil {
		return r.Group, r.id, true
	}
	return Group{}, 0, false
}

// AllGroups yields every group, in no order.
func (t *Tables) AllGroups() iter.Seq[Group] {
	return objects(t.groups, func(r *group) Group { return r.Group })
}

// LenGroups returns how many groups there are.
func (t *Tables) LenGroups() int { return len(t.groups) }
