// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"math/bits"

	"causeway/fleet/shards"
	"causeway/lcore"
)

// setOf returns shards as the workers have them.
func setOf(all []shards.Shard) (set lcore.Shards) {
	for _, s := range all {
		if s < shards.Hosts {
			set.Hosts |= 1 << s
			continue
		}
		s -= shards.Hosts
		set.Groups[s/64] |= 1 << (s % 64)
	}
	return set
}

// countOf returns how many host and group shards a set has.
func countOf(set *lcore.Shards) (hosts, groups int) {
	for _, word := range set.Groups {
		groups += bits.OnesCount64(word)
	}
	return bits.OnesCount64(set.Hosts), groups
}

func combine(a, b lcore.Shards, word func(a, b uint64) uint64) (set lcore.Shards) {
	set.Hosts = word(a.Hosts, b.Hosts)
	for i := range set.Groups {
		set.Groups[i] = word(a.Groups[i], b.Groups[i])
	}
	return set
}

// plus, minus and both return what is in one of two sets, in the first alone, and in both.
func plus(a, b lcore.Shards) lcore.Shards {
	return combine(a, b, func(a, b uint64) uint64 { return a | b })
}

func minus(a, b lcore.Shards) lcore.Shards {
	return combine(a, b, func(a, b uint64) uint64 { return a &^ b })
}

func both(a, b lcore.Shards) lcore.Shards {
	return combine(a, b, func(a, b uint64) uint64 { return a & b })
}
