// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"slices"

	"causeway/lcore"
	"causeway/tables"
)

// Sizes of the tables: as many hosts, proxy QPs and nodes.
const (
	Small  = 1 << 10
	Medium = 1 << 16
	Large  = 1 << 20
)

// What is measured by default.
var (
	AllEntries  = []int{Small, Medium, Large}
	AllPayloads = []int{64, 256, 1024, 4096} // bytes, multiples of 8
)

// Names of the floors that paths are compared with.
const (
	rxTx     = "rx+tx"
	rxReadTx = "rx+read+tx"
)

// pathLimits are the gates of the packet path by direction, payload and entries.
var pathLimits = map[lcore.Direction]map[int]map[int]float64{
	lcore.RoCEToIB: {
		64:   {Small: 5.0, Medium: 6.0, Large: 10},
		1024: {Small: 1.8, Medium: 1.8, Large: 2.2},
		4096: {Small: 1.25, Medium: 1.25, Large: 1.4},
	},
	lcore.IBToRoCE: {
		64:   {Small: 4.2, Medium: 5.2, Large: 9},
		1024: {Small: 1.8, Medium: 1.8, Large: 2.2},
		4096: {Small: 1.25, Medium: 1.25, Large: 1.4},
	},
}

const (
	variantLimit = 1.15 // IPv6 and VLAN over IPv4 untagged
	extrasLimit  = 1.05 // with counters, QoS map and policing over without
	icrcLimit    = 1.0  // own over rte_net_crc by AVX-512
	tableLimit   = 0.4  // own over rte_hash
)

// Gates measures the packet path with tables of several sizes, variants of packets and configuration, parts of the
// path, and how often the worker's thread waits.
func Gates(cfg Config, entries, payloads []int) ([]Row, error) {
	var rows []Row
	for _, n := range entries {
		more, err := atSize(&cfg, n, payloads)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	for _, f := range []func(*Config) ([]Row, error){variantRows, extrasRows, mirrorRows, icrcRows, portRows, switchRows} {
		more, err := f(&cfg)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	sortRows(rows)
	return rows, nil
}

// atSize measures what depends on the size of the tables.
func atSize(cfg *Config, entries int, payloads []int) ([]Row, error) {
	cfg.progress("filling tables with %s hosts, proxy QPs and nodes", count(entries))
	s := square(entries)
	t, err := s.newTables()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var rows []Row
	for _, size := range payloads {
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			cfg.progress("%s, %d B, %s entries", directions[d], size, count(entries))
			row, err := pathRow(cfg, s, t, d, size)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	row, err := tableRow(cfg, t, entries)
	return append(rows, row), err
}

// pathRow measures the worker, the peer and the floors. The gate of payloads up to 64 B is over the floor that does not
// read them.
func pathRow(cfg *Config, s shape, t *tables.Tables, d lcore.Direction, size int) (Row, error) {
	r, err := newRig(s, t, d, size)
	if err != nil {
		return Row{}, err
	}
	defer r.close()
	how, over := []reading{readNothing}, rxTx
	if size > 64 {
		how, over = []reading{readWords}, rxReadTx
	}
	if size > 64 && canReadWide() {
		how = append(how, readWide)
	}
	loops, err := r.lanes[0].beside(how)
	if err != nil {
		return Row{}, err
	}
	ns, err := cfg.interleave(loops...)
	if err != nil {
		return Row{}, err
	}
	worker := ns[0]
	row := ratio(directions[d], over, worker, ns[2])
	row.setPeer(worker, ns[1])
	if len(how) > 1 {
		row.Wide = worker.over(ns[3])
	}
	row.Payload, row.Entries, row.packets = size, s.hosts, true
	if v, ok := pathLimits[d][size][s.hosts]; ok {
		row.Limit = limit(v)
	}
	return row, r.verify()
}

// beside makes the rows that compare the worker with the peer and with a floor for each way of reading.
func (l *lane) beside(how []reading) ([]loop, error) {
	peer, err := l.peer()
	loops := []loop{l.worker(), peer}
	for _, h := range how {
		f, floorErr := l.floor(h)
		loops, err = append(loops, f), errors.Join(err, floorErr)
	}
	return loops, err
}

// A variant is a shape to be compared with the first one of a list.
type variant struct {
	what  string
	shape shape
}

// variantRows compares IPv6 and a VLAN tag with IPv4 without one.
func variantRows(cfg *Config) ([]Row, error) {
	six, tagged := square(Small), square(Small)
	six.six, tagged.vlan = true, 100
	return compare(cfg, variantLimit, []variant{{"IPv4, untagged", square(Small)}, {"IPv6", six}, {"VLAN", tagged}})
}

// extraGroups is the number of groups in the multicast row.
const extraGroups = 128

// extrasRows compares a worker that counts, maps DSCPs to service levels and polices groups with one that does none of
// these. Only groups are policed.
func extrasRows(cfg *Config) ([]Row, error) {
	unicast, err := compare(cfg, extrasLimit, extrasOf(square(Small)))
	if err != nil {
		return nil, err
	}
	groups := square(Small)
	groups.groups = extraGroups
	multicast, err := compare(cfg, extrasLimit, extrasOf(groups))
	return append(unicast, multicast...), err
}

// extrasOf is a shape without these features, and with them.
func extrasOf(s shape) []variant {
	s.marked = true
	without, with := s, s
	without.bare, with.policed = true, s.multicast()
	if s.multicast() {
		return []variant{{"none of them, groups", without}, {"counters, QoS map, policing", with}}
	}
	return []variant{{"none of them", without}, {"counters, QoS map", with}}
}

// compare measures shapes in turn with the first one, at 64 B, where a difference shows most. most 0: no gate.
func compare(cfg *Config, most float64, all []variant) ([]Row, error) {
	var rows []Row
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		cfg.progress("%s, %s and others", directions[d], all[len(all)-1].what)
		ns, err := measureShapes(cfg, d, 64, all)
		if err != nil {
			return nil, err
		}
		for i := 1; i < len(all); i++ {
			row := ratio(all[i].what+", "+directions[d], all[0].what, ns[i], ns[0])
			row.Payload, row.Entries, row.section, row.packets = 64, Small, variants, true
			if most > 0 {
				row.Limit = limit(most)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// measureShapes measures the worker with packets and tables of several shapes, in turn.
func measureShapes(cfg *Config, d lcore.Direction, size int, all []variant) (ns []readings, err error) {
	var loops []loop
	var rigs []*rig
	for _, v := range all {
		t, err := v.shape.newTables()
		if err != nil {
			return nil, err
		}
		defer t.Close()
		r, err := newRig(v.shape, t, d, size)
		if err != nil {
			return nil, err
		}
		defer r.close()
		rigs, loops = append(rigs, r), append(loops, r.lanes[0].loop())
	}
	if ns, err = cfg.interleave(loops...); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rigs, func(r *rig) bool { return r.verify() != nil })
	if i >= 0 {
		return nil, rigs[i].verify()
	}
	return ns, nil
}
