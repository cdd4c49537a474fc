// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"

	"causeway/config"
	"causeway/ibside/ib"
)

// A pkeyUser is a part of the configuration that has a P_Key.
type pkeyUser struct {
	table string // "ib", "roce", "host", "group" or "range"
	name  string // its address, or VLAN; "" for [ib] and [roce]
	pkey  ib.PKey
	nodes bool // IB nodes have the P_Key, or may have it
	ip    bool // IP is in that partition: nodes resolve addresses there, or a group's MGID is an IP group's
}

// String names it as messages of CheckConfig do: "group 239.1.2.3".
func (u *pkeyUser) String() string {
	if u.name == "" {
		return u.table
	}
	return u.table + " " + u.name
}

// under names its table as the file has it.
func (u *pkeyUser) under() string {
	if u.name == "" {
		return "[" + u.table + "]"
	}
	return "[[" + u.table + "]]"
}

// key names it as findings do: "[[group]] 239.1.2.3".
func (u *pkeyUser) key() string {
	if u.name == "" {
		return u.under() + " pkey"
	}
	return u.under() + " " + u.name
}

// pkeyUsers lists all that have a P_Key, [ib] first. A host, group or range with that of [ib] is not listed again.
func pkeyUsers(c *config.Config) []pkeyUser {
	var list []pkeyUser
	others := 0 // nodes with a P_Key of their own
	add := func(u pkeyUser) {
		if u.pkey != 0 && u.pkey != c.IB.PKey {
			list = append(list, u)
		}
	}
	for _, r := range c.Segments() {
		u := pkeyUser{"roce", "", r.PKey, false, false}
		if len(c.More) > 0 {
			u.name = r.Name()
		}
		add(u)
	}
	count := 0
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if h.Side != config.SideIB {
			continue
		}
		count++
		if pkeyOf(c, h) != number(c.IB.PKey) {
			others++
		}
		add(pkeyUser{"host", h.Addrs()[0].String(), h.PKey, true, true})
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		add(pkeyUser{"group", g.IP.String(), g.PKey, false, isIPGroup(g.MGID, g)})
	}
	for i := range c.Ranges {
		r := &c.Ranges[i]
		first := r.Group
		first.IP = r.Prefix.Addr()
		add(pkeyUser{"range", r.Prefix.String(), first.PKey, false, isIPGroup(r.MGID(first.IP), &first)})
	}
	// Nodes are in the partition of [ib] unless all of them are known to be in others.
	own := c.IB.Learn || count == 0 || others < count
	return slices.Insert(list, 0, pkeyUser{"ib", "", c.IB.PKey, own, own})
}

// number returns a P_Key without the membership bit, which the kernel sets in any case.
func number(k ib.PKey) ib.PKey { return k & 0x7fff }

// pkeyOf returns the number of a node's partition. One without a P_Key is in that of [ib] at first.
func pkeyOf(c *config.Config, h *config.Host) ib.PKey {
	if h.PKey == 0 {
		return number(c.IB.PKey)
	}
	return number(h.PKey)
}

// isIPGroup reports whether an MGID is that of an IP group, by which the kernel's programs join it.
func isIPGroup(mgid ib.GID, g *config.Group) bool {
	scope := mgid[1] & 0x0f
	return mgid == ib.MGIDIPoIB(g.IP, g.PKey, scope) || mgid == ib.MGIDRDMACM(g.IP, g.PKey, scope)
}

// ipPartitions lists the partitions that IP is in, one user of each: one with nodes if there is any.
func ipPartitions(c *config.Config) (list []pkeyUser) {
	if c == nil {
		return nil
	}
	for _, u := range pkeyUsers(c) {
		i := slices.IndexFunc(list, func(x pkeyUser) bool { return number(x.pkey) == number(u.pkey) })
		switch {
		case !u.ip:
		case i < 0:
			list = append(list, u)
		case u.nodes && !list[i].nodes:
			list[i] = u
		}
	}
	return list
}
