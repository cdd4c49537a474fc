// SPDX-License-Identifier: Apache-2.0

package config

import (
	"causeway/ibside/ib"
)

// maxPartitions is how many partitions a bridge can be in: table entries have three bits for them (tables/entries.h).
const maxPartitions = 8

// checkPartitions reports P_Keys that a port cannot serve together: too many, or a partition as a full and as a limited
// member.
func (p *checks) checkPartitions(ibSection *table) {
	type use struct {
		pkey ib.PKey
		t    *table
	}
	const membership = 0x8000
	of := map[ib.PKey]use{p.cfg.IB.PKey &^ membership: {p.cfg.IB.PKey, ibSection}}
	check := func(t *table, k ib.PKey) {
		if k == 0 {
			return
		}
		first, known := of[k&^membership]
		switch {
		case known && first.pkey != k:
			t.fail("pkey", "pkey %v is the partition of pkey %v of %s%s, as the other kind of member; write the same in both: a full member "+
				"reaches all that a limited one does", k, first.pkey, first.t.who, first.t.inLine("pkey"))
		case !known && len(of) == maxPartitions:
			t.fail("pkey", "pkey %v would be the bridge's partition number %d, and it can be in %d; use another bridge for the rest", k,
				maxPartitions+1, maxPartitions)
		case !known:
			of[k&^membership] = use{k, t}
		}
	}
	for i, s := range p.cfg.Segments() {
		check(p.tables["roce"][i], s.PKey)
	}
	for i, h := range p.cfg.Hosts {
		check(p.tables["host"][i], h.PKey)
	}
	for i, g := range p.cfg.Groups {
		check(p.tables["group"][i], g.PKey)
	}
	for i := range p.cfg.Ranges {
		check(p.tables["range"][i], p.cfg.Ranges[i].Group.PKey)
	}
}
