// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"time"

	"causeway/ibside/sa"
)

// What a fabric loses, of the counters that a device has (ibside.LossCounters): what a worker is too slow for is not
// among them.
var lostByFabric = []string{"port_rcv_errors", "port_rcv_remote_physical_errors", "port_xmit_discards", "port_xmit_constraint_errors"}

const (
	smTimeout   = 800 * time.Millisecond
	smSilence   = 3 * time.Second // after so long without an answer, a subnet administrator is silent
	lossesLeast = 100             // messages by which a port's losses are judged
)

// measure reads each member's losses, and asks its subnet administrator for a path to the port itself. It does not
// wait.
func (j *judge) measure(now time.Time) {
	for i := range j.cfg.Members {
		j.mu.Lock()
		h := &j.health[i]
		asks := !h.asks
		h.asks = true
		if silent := h.isSilent(now); silent != h.silent {
			h.silent = silent
			if silent {
				j.cfg.Log.Warn("ib_path_sm_silent", "port", j.cfg.Members[i].Name, "fabric", j.cfg.Members[i].Fabric)
			} else {
				j.cfg.Log.Info("ib_path_sm_answers", "port", j.cfg.Members[i].Name, "fabric", j.cfg.Members[i].Fabric)
			}
		}
		j.mu.Unlock()
		if asks {
			j.attempts.Go(func() { j.look(i, now) })
		}
	}
}

// isSilent reports whether the subnet administrator is silent. Of one that cannot be asked that is not known: it stays as
// it was while the port is down, and until it has been up for long enough.
func (h *health) isSilent(now time.Time) bool {
	switch {
	case h.down != "":
		return h.silent
	case h.sm.Before(h.since):
		return h.silent || now.Sub(h.since) > smSilence
	}
	return now.Sub(h.sm) > smSilence
}

// look is measure for one member.
func (j *judge) look(member int, now time.Time) {
	m := j.cfg.Members[member]
	byDevice := m.Port.LostByDevice()
	ctx, cancel := context.WithTimeout(j.ctx, smTimeout)
	defer cancel()
	var err error
	if own := m.Port.Own(); len(own.GIDs) > 0 {
		_, err = m.Port.Path(ctx, own.GIDs[0], 0)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	h := &j.health[member]
	h.asks = false
	if rejected := sa.Rejection(0); err == nil || errors.As(err, &rejected) { // a refusal is an answer, too
		h.sm = time.Now()
	}
	c := j.tables.counters(member)
	lost := c.Full
	for _, name := range lostByFabric {
		lost += byDevice[name]
	}
	h.judgeLosses(lost, c.Sent+c.Received, j.cfg.MaxLoss)
}

// judgeLosses takes counters since the beginning.
func (h *health) judgeLosses(lost, carried uint64, most float64) {
	l, n := lost-h.lost, carried-h.carried
	if l+n < lossesLeast {
		return // the next time there are more
	}
	h.lost, h.carried = lost, carried
	h.loss = float64(l) / float64(l+n)
	h.lossy = h.loss > most
}
