// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"causeway/config"
	"causeway/ibside/ib"
)

// kind is what a claim is of.
type kind byte

const (
	group   kind = 1 + iota // by IP address, UDP port and MGID
	ranged                  // a prefix of groups that are learned
	node                    // by IP address
	learns                  // nodes that nobody configured
	aliases                 // GIDs of all RoCE hosts
)

// A claim is something that one bridge alone may carry. On the wire, in network byte order:
//
//	0  kind 1, directions 1, VLAN 2, UDP port 2, prefix length 1
//	7  IP address 16, IPv4 as IPv4-mapped
//	23 MGID 16
type claim struct {
	kind kind
	dirs config.Direction
	vlan uint16
	port uint16
	bits uint8 // of ip that count, 0 to 128
	ip   [16]byte
	mgid ib.GID
}

const claimLen = 7 + 16 + 16

func (c *claim) appendTo(b []byte) []byte {
	b = append(b, byte(c.kind), byte(c.dirs))
	b = binary.BigEndian.AppendUint16(b, c.vlan)
	b = binary.BigEndian.AppendUint16(b, c.port)
	b = append(append(b, c.bits), c.ip[:]...)
	return append(b, c.mgid[:]...)
}

// readClaim reads claimLen bytes.
func readClaim(b []byte) claim {
	return claim{kind(b[0]), config.Direction(b[1]), binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b[4:]), b[6], [16]byte(b[7:]), ib.GID(b[23:])}
}

func (c *claim) prefix() netip.Prefix {
	ip, bits := netip.AddrFrom16(c.ip), int(c.bits)
	if ip.Is4In6() {
		ip, bits = ip.Unmap(), bits-96
	}
	p, _ := ip.Prefix(bits)
	return p
}

// String names the claim as an operator knows it.
func (c claim) String() string {
	in := ""
	if c.vlan != 0 {
		in = fmt.Sprintf(" in VLAN %d", c.vlan)
	}
	switch c.kind {
	case group:
		if c.port != 0 {
			in = fmt.Sprintf(" port %d%s", c.port, in)
		}
		return fmt.Sprintf("group %v%s", c.prefix().Addr(), in)
	case ranged:
		return fmt.Sprintf("range %v%s", c.prefix(), in)
	case node:
		return fmt.Sprintf("node %v%s", c.prefix().Addr(), in)
	case learns:
		return `nodes = "learn"`
	default:
		return "alias_gids"
	}
}

// meets reports whether two bridges that have one claim each carry the same message, or answer for the same address.
func (c *claim) meets(o *claim) bool {
	switch {
	case c.kind > o.kind:
		return o.meets(c)
	case c.kind == ranged || c.kind == group && o.kind == ranged:
		return o.kind == ranged && c.vlan == o.vlan && c.dirs&o.dirs != 0 && c.prefix().Overlaps(o.prefix())
	case c.kind == group && c.dirs&o.dirs == 0:
		return false
	case o.kind == learns:
		return c.kind == node || c.kind == learns
	}
	return c.kind == o.kind && c.vlan == o.vlan && c.port == o.port && c.ip == o.ip && c.mgid == o.mgid
}

// A set is all claims of a bridge, in their order on the wire, each once.
type set []claim

func newSet(all []claim) set {
	slices.SortFunc(all, func(a, b claim) int { return bytes.Compare(a.appendTo(nil), b.appendTo(nil)) })
	return slices.Compact(all)
}

// digest tells sets from each other.
func (s set) digest() uint64 {
	h := sha256.New()
	for i := range s {
		h.Write(s[i].appendTo(nil))
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// overlap returns the claims of s that meet one of o. Ranges are few: each is compared with all, the others by address.
func (s set) overlap(o set) (both set) {
	type key struct {
		kind kind
		ip   [16]byte
	}
	at := map[key][]*claim{}
	var ranges, theirs, nodes []*claim
	for i := range o {
		c := &o[i]
		if c.kind == ranged {
			ranges = append(ranges, c)
		} else if c.kind == group {
			theirs = append(theirs, c)
		} else if c.kind == node || c.kind == learns {
			nodes = append(nodes, c)
		}
		at[key{c.kind, c.ip}] = append(at[key{c.kind, c.ip}], c)
	}
	for i := range s {
		c := &s[i]
		others := at[key{c.kind, c.ip}]
		switch c.kind {
		case group:
			others = slices.Concat(others, ranges)
		case ranged:
			others = slices.Concat(theirs, ranges)
		case learns:
			others = nodes
		case node:
			others = slices.Concat(others, at[key{kind: learns}])
		}
		if slices.ContainsFunc(others, func(x *claim) bool { return c.meets(x) }) {
			both = append(both, *c)
		}
	}
	return both
}

// of returns what a bridge of a configuration carries.
func of(cfg *config.Config) set {
	var all []claim
	for _, g := range cfg.Groups {
		for _, in := range cfg.GroupSegments(&g) {
			all = append(all, claim{kind: group, dirs: g.Direction, vlan: cfg.Segments()[in].VLAN, port: g.UDPPort, bits: 128, ip: g.IP.As16(), mgid: g.MGID})
		}
	}
	for _, r := range cfg.Ranges {
		in, _ := cfg.SegmentOf(r.Group.PKey)
		bits := r.Prefix.Bits()
		if r.Prefix.Addr().Is4() {
			bits += 96
		}
		all = append(all, claim{kind: ranged, dirs: r.Group.Direction, vlan: cfg.Segments()[in].VLAN, bits: uint8(bits), ip: r.Prefix.Addr().As16()})
	}
	for _, h := range cfg.Hosts {
		if h.Side != config.SideIB || h.Bridge {
			continue
		}
		for _, r := range cfg.SegmentsOf(h) {
			for _, ip := range h.Addrs() {
				all = append(all, claim{kind: node, vlan: r.VLAN, bits: 128, ip: ip.As16()})
			}
		}
	}
	if cfg.IB.Learn {
		all = append(all, claim{kind: learns})
	}
	if cfg.IB.AliasGIDs {
		all = append(all, claim{kind: aliases})
	}
	return newSet(all)
}

// named lists at most so many claims.
func (s set) named(most int) (names []string) {
	for _, c := range s[:min(len(s), most)] {
		names = append(names, c.String())
	}
	if more := len(s) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return names
}
