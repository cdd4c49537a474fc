// SPDX-License-Identifier: Apache-2.0

package house

import (
	"slices"
	"unsafe"

	"causeway/config"
	"causeway/lcore"
	"causeway/lcore/pgm"
)

// makePGM gives each worker an eye for PGM: a group may come that wants one. Its memory is taken here.
func (h *House) makePGM() error {
	idle := uint64(h.cfg.Workers.PGMIdle.Seconds() * float64(lcore.TSCHz()))
	for range h.cfg.Workers.LCores {
		t, err := pgm.New(pgm.Config{Streams: h.cfg.Workers.PGMStreams, IdleCycles: idle})
		if err != nil {
			return err
		}
		h.pgm = append(h.pgm, t)
		h.onTakeDown(func() error { t.Close(); return nil })
	}
	return nil
}

// pgmOf returns worker i's struct pgm.
func (h *House) pgmOf(i int) unsafe.Pointer { return h.pgm[i].Pointer() }

// PGM sums up what all workers have seen of PGM streams; watched is whether any group wants them seen.
func (h *House) PGM() (total pgm.Totals, watched bool) {
	for _, t := range h.pgm {
		one := t.Totals()
		total.Add(&one)
	}
	cfg := h.Config()
	watched = slices.ContainsFunc(cfg.Groups, func(g config.Group) bool { return g.PGM }) ||
		slices.ContainsFunc(cfg.Ranges, func(r config.Range) bool { return r.Group.PGM })
	return total, watched
}
