// SPDX-License-Identifier: Apache-2.0

package house

import (
	"unsafe"

	"causeway/lcore"
	"causeway/lcore/pgm"
)

// makePGM gives each worker an eye for PGM when a group wants one. Its memory is taken here.
func (h *House) makePGM() error {
	wanted := false
	for _, g := range h.cfg.Groups {
		wanted = wanted || g.PGM
	}
	for i := range h.cfg.Ranges {
		wanted = wanted || h.cfg.Ranges[i].Group.PGM
	}
	if !wanted {
		return nil
	}
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

// pgmOf returns worker i's struct pgm, or nil.
func (h *House) pgmOf(i int) unsafe.Pointer {
	if h.pgm == nil {
		return nil
	}
	return h.pgm[i].Pointer()
}

// PGM sums up what all workers have seen of PGM streams; nothing, when no group has any.
func (h *House) PGM() (total pgm.Totals, watched bool) {
	for _, t := range h.pgm {
		one := t.Totals()
		total.Add(&one)
	}
	return total, h.pgm != nil
}
