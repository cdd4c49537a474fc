// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"math/bits"

	"causeway/fleet/shares"
	"causeway/lcore"
)

// setOf returns shares as the workers have them.
func setOf(all []shares.Share) (set lcore.Shares) {
	for _, s := range all {
		if s < shares.Hosts {
			set.Hosts |= 1 << s
			continue
		}
		s -= shares.Hosts
		set.Groups[s/64] |= 1 << (s % 64)
	}
	return set
}

// countOf returns how many host and group shares a set has.
func countOf(set *lcore.Shares) (hosts, groups int) {
	for _, word := range set.Groups {
		groups += bits.OnesCount64(word)
	}
	return bits.OnesCount64(set.Hosts), groups
}

func combine(a, b lcore.Shares, word func(a, b uint64) uint64) (set lcore.Shares) {
	set.Hosts = word(a.Hosts, b.Hosts)
	for i := range set.Groups {
		set.Groups[i] = word(a.Groups[i], b.Groups[i])
	}
	return set
}

// plus, minus and both return what is in one of two sets, in the first alone, and in both.
func plus(a, b lcore.Shares) lcore.Shares {
	return combine(a, b, func(a, b uint64) uint64 { return a | b })
}

func minus(a, b lcore.Shares) lcore.Shares {
	return combine(a, b, func(a, b uint64) uint64 { return a &^ b })
}

func both(a, b lcore.Shares) lcore.Shares {
	return combine(a, b, func(a, b uint64) uint64 { return a & b })
}
