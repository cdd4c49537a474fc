// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// PortInfo has the present attributes of a port.
type PortInfo struct {
	ibside.Info
	Device string
	Num    int
	GID    ib.GID // the bridge's own
	LID    ib.LID // 0 on Ethernet; the first of 1<<LMC
	LMC    uint8
	Mbps   int  // of the link; 0: not known
	GRH    bool // every message must have one
	PKeys  []ib.PKey
	Active bool
	State  string     // in the kernel's words: ACTIVE, INIT, DOWN
	GIDs   []GIDEntry // the whole table, in order
}

// whyDown says why a port in a state carries nothing, and what to do; "": it is active.
func whyDown(name, state string) string {
	switch state {
	case stateActive, "": // "": it was never read
		return ""
	case "INIT", "ARMED":
		return fmt.Sprintf("the port %s is %s: no subnet manager has set it up; start one, such as opensm", name, state)
	}
	return fmt.Sprintf("the port %s is %s; check its cable, and the port at the other end", name, state)
}

// stateActive is the state of a port that carries messages.
const stateActive = "ACTIVE"

// linkMbps returns the rate of a link of a width and a speed as verbs encode them (ibv_query_port(3), IBTA vol 1
// §14.2.5.6); 0: one of them is not known. As in ib.Rate, FDR's 14.0625 Gb/s are 14, and 64/66 encoding is not counted.
func linkMbps(width, speed uint8) int {
	lanes := map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
	mbps := map[uint8]int{1: 2500, 2: 5000, 4: 10000, 8: 10000, 16: 14000, 32: 25000, 64: 50000, 128: 100000}
	return lanes[width] * mbps[speed]
}

// GIDType says which packets a GID is for.
type GIDType uint8

// The types of GIDs, in the order of enum ibv_gid_type.
const (
	GIDTypeIB GIDType = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

func (t GIDType) String() string {
	switch t {
	case GIDTypeIB:
		return "IB"
	case GIDTypeRoCEv1:
		return "RoCE v1"
	case GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// GIDEntry is an entry of a port's GID table.
type GIDEntry struct {
	GID     ib.GID
	Index   int
	Type    GIDType
	IfIndex int // of the network interface; 0 on InfiniBand
}

// maxGIDIndex is the largest that verbs can name: sgid_index has 8 bits. GIDs beyond it are not used.
const maxGIDIndex = 255

func isLinkLocal(g ib.GID) bool { return g[0] == 0xfe && g[1]&0xc0 == 0x80 }

// usable lists the GIDs that the port can send from: on Ethernet, those of RoCE v2; on InfiniBand, the port's own and
// its aliases.
func usable(gids []GIDEntry, ethernet bool) []GIDEntry {
	var out []GIDEntry
	for _, g := range gids {
		if g.Index > maxGIDIndex || g.GID.IsZero() {
			continue
		}
		if !ethernet || g.Type == GIDTypeRoCEv2 {
			out = append(out, g)
		}
	}
	return out
}

// ownGID chooses the bridge's GID: the one that the configuration names, else on InfiniBand the port's first; on
// Ethernet the first IPv4 address, else the first that is not link-local, else the first.
func ownGID(gids []GIDEntry, ethernet bool, want ib.GID) (ib.GID, error) {
	gids = usable(gids, ethernet)
	if !want.IsZero() {
		for _, g := range gids {
			if g.GID == want {
				return want, nil
			}
		}
		return ib.GID{}, fmt.Errorf("the port has no GID %v that can send; add the address to its network interface", want)
	}
	if !ethernet && len(gids) > 0 {
		return gids[0].GID, nil
	}
	for _, good := range []func(ib.GID) bool{
		ib.GID.IsIPv4Mapped, func(g ib.GID) bool { return !isLinkLocal(g) }, func(ib.GID) bool { return true },
	} {
		for _, g := range gids {
			if good(g.GID) {
				return g.GID, nil
			}
		}
	}
	return ib.GID{}, fmt.Errorf("the port has no GID to send from; give its network interface an IP address")
}

// sourceIndex returns the GID table index to send to dgid from: that of want if it can send to dgid, else of the
// bridge's own under the same condition, else of the GID that shares the longest prefix with dgid.
func sourceIndex(gids []GIDEntry, ethernet bool, want, own, dgid ib.GID) (int, bool) {
	best, index := -1, 0
	for _, g := range usable(gids, ethernet) {
		if ethernet && !canTalk(g.GID, dgid) {
			continue
		}
		n := commonBits(g.GID, dgid)
		switch g.GID {
		case want:
			n = 130
		case own:
			n = 129
		}
		if n > best {
			best, index = n, g.Index
		}
	}
	return index, best >= 0
}

// canTalk reports whether a RoCE packet can have both addresses: same IP version, and same scope if either is
// link-local.
func canTalk(s, d ib.GID) bool {
	if s.IsIPv4Mapped() != d.IsIPv4Mapped() {
		return false
	}
	return d.IsMulticast() || isLinkLocal(s) == isLinkLocal(d)
}

func commonBits(a, b ib.GID) int {
	n := 0
	for ; n < 128; n++ {
		if (a[n/8]^b[n/8])>>(7-n%8)&1 != 0 {
			break
		}
	}
	return n
}
