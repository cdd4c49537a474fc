// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "drop.h"
import "C"

// A Drop is the reason why a packet was dropped. The list is drop.def.
type Drop uint8

// DropCount is one more than the last reason; 0 means that the packet was not dropped.
const DropCount = C.DROP_COUNT

var (
	dropNames     [DropCount]string
	dropSentences [DropCount]string
	dropByName    = map[string]Drop{}
)

func init() {
	for d := range Drop(DropCount) {
		dropNames[d] = C.GoString(C.drop_name(C.enum_drop(d)))
		dropSentences[d] = C.GoString(C.drop_sentence(C.enum_drop(d)))
		dropByName[dropNames[d]] = d
	}
}

// String returns the name of d as metrics, console and reports print it.
func (d Drop) String() string {
	if d >= DropCount {
		return "unknown"
	}
	return dropNames[d]
}

// Sentence says what was wrong with the packet.
func (d Drop) Sentence() string {
	if d >= DropCount {
		return "unknown"
	}
	return dropSentences[d]
}

// DropNamed returns the reason with this name.
func DropNamed(name string) (Drop, bool) {
	d, ok := dropByName[name]
	return d, ok && d != 0
}

// Drops returns every reason, in the order of the checks.
func Drops() []Drop {
	all := make([]Drop, 0, DropCount-1)
	for d := Drop(1); d < DropCount; d++ {
		all = append(all, d)
	}
	return all
}

// The reasons that management gives.
const (
	DropProxyQPFull   Drop = C.DROP_proxy_qp_full
	DropPuntFull      Drop = C.DROP_punt_full
	DropSourceRefused Drop = C.DROP_src_refused
	DropShutdown      Drop = C.DROP_shutdown
	DropACL           Drop = C.DROP_acl

	DropSourceUnconfirmed Drop = C.DROP_src_unconfirmed
	DropProxyQPRate       Drop = C.DROP_proxy_qp_rate
	DropVLANUnknown       Drop = C.DROP_vlan_unknown
)
