// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
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

// The gates.
const (
	pathLimit    = 1.10 // the worker over the peer, which does the same for one kind of packets in a plain loop
	variantLimit = 1.15 // IPv6 and VLAN over IPv4 untagged
	extrasLimit  = 1.05 // with counters and QoS map over without
	policedLimit = 1.15 // the same of groups, each of which is counted and policed
	hostLimit    = 1.20 // with a mirror by host over without one
	memberLimit  = 1.01 // a member of a fleet over a bridge alone
	icrcLimit    = 1.00 // own ICRC over rte_net_crc by AVX-512
)

// tableLimits are the gates of look-ups, own over rte_hash, by entries. With 1 M each fetch misses the TLB, too: there
// are two, and five of rte_hash.
var tableLimits = map[int]float64{Small: 0.55, Medium: 0.50, Large: 0.30}

// kinds are the kinds of rows that do not depend on the size of tables; those that do are Paths.
var kinds = []struct {
	name string
	rows func(*Config) ([]Row, error)
}{
	{"variants", variantRows}, {"extras", extrasRows}, {"mirrors", mirrorRows}, {"fleet", fleetRows}, {"whole", wholeRows}, {"icrc", icrcRows}, {"ports", portRows}, {"switches", switchRows},
}

// Paths is the kind of the rows of the packet path and of look-ups.
const Paths = "paths"

// Kinds returns the kinds of rows.
func Kinds() []string {
	all := []string{Paths}
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

func (c *Config) wants(kind string) bool { return len(c.Kinds) == 0 || slices.Contains(c.Kinds, kind) }

// Gates measures the packet path with tables of several sizes, variants of packets and configuration, parts of the
// path, and how often the worker's thread waits.
func Gates(cfg Config, entries, payloads []int) ([]Row, error) {
	var rows []Row
	for _, n := range entries {
		if !cfg.wants(Paths) {
			break
		}
		more, err := atSize(&cfg, n, payloads)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	for _, k := range kinds {
		if !cfg.wants(k.name) {
			continue
		}
		more, err := k.rows(&cfg)
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

// pathRow measures the worker, the peer and the floors. The gate is over the peer. The floor of payloads up to 64 B does
// not read them. How much the readings of floor and peer differ shows how busy the machine was.
func pathRow(cfg *Config, s shape, t *tables.Tables, d lcore.Direction, size int) (Row, error) {
	r, err := newRig(s, t, d, size)
	if err != nil {
		return Row{}, err
	}
	defer r.close()
	how, floor := []reading{readNothing}, rxTx
	if size > 64 {
		how, floor = []reading{readWords}, rxReadTx
	}
	if size > 64 && canReadWide() {
		how = append(how, readWide)
	}
	loops, err := r.lanes[0].beside(how)
	if err != nil {
		return Row{}, err
	}
	ns, err := cfg.calm([]int{1, 2}, loops...)
	if err != nil {
		return Row{}, err
	}
	worker := ns[0]
	row := ratio(directions[d], "peer", worker, ns[1])
	row.setFloor(floor, worker, ns[2])
	row.Noise = noise(ns, 1, 2) // a floor without look-ups does not notice when others fill the caches
	if len(how) > 1 {
		row.Wide = worker.over(ns[3])
	}
	row.Payload, row.Entries, row.packets, row.Limit = size, s.hosts, true, limit(pathLimit)
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
	limit float64 // its gate; 0: that of the list
}

// variantRows compares IPv6 and a VLAN tag with IPv4 without one.
func variantRows(cfg *Config) ([]Row, error) {
	six, tagged := square(Small), square(Small)
	six.six, tagged.vlan = true, 100
	return compare(cfg, variantLimit, []variant{{what: "IPv4, untagged", shape: square(Small)}, {what: "IPv6", shape: six}, {what: "VLAN", shape: tagged}})
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
	multicast, err := compare(cfg, policedLimit, extrasOf(groups))
	return append(unicast, multicast...), err
}

// extrasOf is a shape without these features, and with them.
func extrasOf(s shape) []variant {
	s.marked = true
	without, with := s, s
	without.bare, with.policed = true, s.multicast()
	if s.multicast() {
		return []variant{{what: "none of them, groups", shape: without}, {what: "counters, QoS map, policing", shape: with}}
	}
	return []variant{{what: "none of them", shape: without}, {what: "counters, QoS map", shape: with}}
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
			if most := cmp.Or(all[i].limit, most); most > 0 {
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
	if ns, err = cfg.calm([]int{0}, loops...); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rigs, func(r *rig) bool { return r.verify() != nil })
	if i >= 0 {
		return nil, rigs[i].verify()
	}
	return ns, nil
}
