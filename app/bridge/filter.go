// SPDX-License-Identifier: Apache-2.0

package bridge

import "golang.org/x/sys/unix"

// step is an instruction of a classic BPF filter (Linux Documentation/networking/filter.rst).
type step struct {
	label   string // what others jump to
	code    uint16
	k       uint32
	yes, no string // where a comparison leads; "" is the next step
}

// Offsets of metadata of a frame (linux/filter.h, SKF_AD_OFF and after).
const (
	besideFrame = 0xfffff000
	packetType  = besideFrame + 4
	vlanTag     = besideFrame + 44 // 0: none
)

const (
	loadWord  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	loadHalf  = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	loadByte  = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	loadByteX = unix.BPF_LD | unix.BPF_B | unix.BPF_IND  // k bytes after X
	loadIHL   = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH // X = the length of the IPv4 header at k
	and       = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	equal     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	greater   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	answer    = unix.BPF_RET | unix.BPF_K
)

// puntedFrames is a filter for the frames that workers punt to management where they receive all frames
// (lcore/parse.c): ARP, IGMP, MLD, neighbour discovery and echo requests, of that VLAN, not sent by this host. Echo
// requests to the link-local address are the kernel's, which has the same one. Offsets are of a frame without its VLAN
// tag.
func puntedFrames(vlan uint16) []unix.SockFilter {
	return assemble([]step{
		{code: loadWord, k: packetType},
		{code: greater, k: unix.PACKET_MULTICAST, yes: "drop"}, // other hosts', and what this one sends
		{code: loadWord, k: vlanTag},
		{code: and, k: 0x0fff},
		{code: equal, k: uint32(vlan), no: "drop"},
		{code: loadHalf, k: 12}, // EtherType
		{code: equal, k: unix.ETH_P_ARP, yes: "take"},
		{code: equal, k: unix.ETH_P_IP, yes: "ipv4"},
		{code: equal, k: unix.ETH_P_IPV6, yes: "ipv6", no: "drop"},

		{label: "ipv4", code: loadByte, k: 14 + 9}, // protocol
		{code: equal, k: unix.IPPROTO_IGMP, yes: "take"},
		{code: equal, k: unix.IPPROTO_ICMP, no: "drop"},
		{code: loadIHL, k: 14},
		{code: loadByteX, k: 14},
		{code: equal, k: 8, yes: "take", no: "drop"}, // echo request

		{label: "ipv6", code: loadByte, k: 14 + 6}, // next header
		{code: equal, k: unix.IPPROTO_HOPOPTS, yes: "options"},
		{code: equal, k: unix.IPPROTO_ICMPV6, no: "drop"},
		{code: loadByte, k: 14 + 40}, // type
		{code: equal, k: 135, yes: "take"},
		{code: equal, k: 136, yes: "take"},
		{code: equal, k: 128, no: "drop"},
		{code: loadByte, k: 14 + 24}, // the destination begins
		{code: equal, k: 0xfe, yes: "drop", no: "take"},
		{label: "options", code: loadByte, k: 14 + 40}, // MLD comes after a router alert (RFC 3810 §5)
		{code: equal, k: unix.IPPROTO_ICMPV6, yes: "take", no: "drop"},

		{label: "take", code: answer, k: 0xffff},
		{label: "drop", code: answer, k: 0},
	})
}

// assemble turns labels into jump distances.
func assemble(steps []step) []unix.SockFilter {
	at := map[string]int{}
	for i, s := range steps {
		at[s.label] = i
	}
	distance := func(from int, label string) uint8 {
		if label == "" {
			return 0
		}
		return uint8(at[label] - from - 1)
	}
	var out []unix.SockFilter
	for i, s := range steps {
		out = append(out, unix.SockFilter{Code: s.code, K: s.k, Jt: distance(i, s.yes), Jf: distance(i, s.no)})
	}
	return out
}
