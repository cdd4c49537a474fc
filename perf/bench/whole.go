// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"

	"causeway/lcore"
)

// What is measured of the whole way.
var (
	wholeQPs      = []int{1, 64, 256, 1 << 10, 1 << 12} // proxy QPs
	wholePayloads = []int{64, 1024, 4096}
)

// Gates of the whole way, at 64 B. What the HCA's queues cost beside the path does not depend on the path, so a faster
// path makes the ratios to it larger.
var wholeLimits = [2]float64{lcore.RoCEToIB: 3.90, lcore.IBToRoCE: 1.60} // direct over the path alone, with gatedQPs

// The gate of there and back, direct over libmlx5, with gatedQPs and with manyQPs.
const directLimit = 1 / 1.8

const gatedQPs, manyQPs = 256, 1 << 10

// wholeShape has one proxy QP for each host, and a thousand nodes.
func wholeShape(qps int) shape { return shape{hosts: qps, qpns: 1, nodes: Small} }

// wholeRows measures the whole way, from the Ethernet port through a worker to the verbs port and back, beside the path
// alone. The HCA is made of memory; what it does itself is measured apart.
func wholeRows(cfg *Config) ([]Row, error) {
	var rows []Row
	for _, size := range wholePayloads {
		for _, qps := range wholeQPs {
			if cfg.Payload > 0 && cfg.Payload != size || cfg.Entries > 0 && cfg.Entries != qps {
				continue
			}
			var both [2][]readings
			for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
				cfg.progress("%s, whole way, %d B, %s proxy QPs", directions[d], size, count(qps))
				row, ns, err := wholeRow(cfg, qps, d, size)
				if err != nil {
					return nil, err
				}
				rows, both[d] = append(rows, row), ns
			}
			if size == 64 {
				rows = append(rows, thereAndBack(qps, both))
			}
		}
	}
	return rows, nil
}

// The loops that are measured in turn, by their places.
const (
	atDirect = iota
	atLibrary
	atPath
	atDevice // the HCA's own work, of direct
	atBells  // a message
	wholeReadings
)

// wholeRow compares the whole way of one direction with the path alone, and by libmlx5.
func wholeRow(cfg *Config, qps int, d lcore.Direction, size int) (row Row, ns []readings, err error) {
	var rigs []*whole
	defer func() {
		for _, w := range rigs {
			err = errors.Join(err, w.close())
		}
	}()
	for _, way := range []string{direct, libmlx5, ""} {
		w, err := newWhole(wholeShape(qps), d, size, way)
		if err != nil {
			return row, nil, err
		}
		rigs = append(rigs, w)
	}
	ns, err = cfg.calmest([]int{atPath, atLibrary}, func() ([]float64, error) { return wholeRound(cfg, rigs) })
	if err != nil {
		return row, nil, err
	}
	row = ratio(directions[d]+", whole way", "path", ns[atDirect], ns[atPath])
	row.setFloor(libmlx5, ns[atDirect], ns[atLibrary])
	row.Noise = noise(ns, atPath, atLibrary)
	row.DeviceNS, row.Doorbells = ns[atDevice].median(), ns[atBells].median()
	row.Payload, row.Entries, row.section, row.packets = size, qps, wholes, true
	if size == 64 && qps == gatedQPs {
		row.Limit = limit(wholeLimits[d])
	}
	for _, w := range rigs {
		err = errors.Join(err, w.verify())
	}
	return row, ns, err
}

// wholeRound takes a reading of each: direct, libmlx5 and path.
func wholeRound(cfg *Config, rigs []*whole) ([]float64, error) {
	all := make([]float64, wholeReadings)
	for i, w := range rigs {
		r, err := w.read(cfg)
		if err != nil {
			return nil, err
		}
		all[i] = r.worker
		if i == atDirect {
			all[atDevice], all[atBells] = r.device, r.bells
		}
	}
	return all, nil
}

// thereAndBack compares direct with libmlx5 over both directions.
func thereAndBack(qps int, both [2][]readings) Row {
	sum := func(at int) readings {
		var all readings
		for i := range both[0][at] {
			all = append(all, both[0][at][i]+both[1][at][i])
		}
		return all
	}
	row := ratio("there and back, whole way", libmlx5, sum(atDirect), sum(atLibrary))
	row.Noise = max(noise(both[0], atPath, atLibrary), noise(both[1], atPath, atLibrary))
	row.Payload, row.Entries, row.section = 64, qps, wholes
	if qps == gatedQPs || qps == manyQPs {
		row.Limit = limit(directLimit)
	}
	return row
}

// verify makes sure that the worker and the port have the same packets, and lost none.
func (w *whole) verify() error {
	if err := w.rig.verify(); err != nil || w.hca == nil {
		return err
	}
	n, err := w.counts()
	c := w.rig.datapath.Counters()
	if out, in := c.Direction[lcore.RoCEToIB].Sent, c.Direction[lcore.IBToRoCE].Received; out != n.posted || in != n.delivered {
		err = errors.Join(err, fmt.Errorf("bench: the worker has sent %d messages and received %d, the port %d and %d: this measured something else",
			out, in, n.posted, n.delivered))
	}
	return err
}
