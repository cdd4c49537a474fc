// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"

	"causeway/config"
	"causeway/lcore/pgm"
)

// pgmTrackers are the workers' trackers of PGM streams.
type pgmTrackers struct {
	gate     *gate
	inForce  func() *config.Config
	trackers []*pgm.Tracker // by worker
}

// PGM sums up what all workers have seen of PGM streams; tracked says whether any group has them tracked.
func (p *pgmTrackers) PGM() (total pgm.Totals, tracked bool) {
	for _, t := range p.trackers {
		one := t.Totals()
		total.Add(&one)
	}
	cfg := p.inForce()
	tracked = slices.ContainsFunc(cfg.Groups, func(g config.Group) bool { return g.PGM }) ||
		slices.ContainsFunc(cfg.Ranges, func(r config.Range) bool { return r.Group.PGM })
	return total, tracked
}

// Streams returns the PGM streams of all workers; none after Close.
func (p *pgmTrackers) Streams() (all []pgm.Stream) {
	p.gate.whileOpen(func() {
		for _, t := range p.trackers {
			all = append(all, t.Streams()...)
		}
	})
	return all
}
