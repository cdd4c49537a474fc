// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"slices"
	"time"
)

// A group's losses are seen by what comes by the other members.
const (
	// A window of a group's arrivals is windows times heardEvery: losses of half are found in one or two of those. That of
	// a group with few messages is longEvery times as long.
	heardEvery = 5
	windows    = 4
	longEvery  = 40
	// A group's losses are judged by so many messages, and not by fewer than slack missing ones: the copies of one message
	// come by different fabrics at different times.
	heardLeast = 16
	heardSlack = 8
	heardFew   = 2 * heardLeast // with fewer in a window, the loss of half is not told from chance
)

// heard is how many messages of a group came by each member lately.
type heard struct {
	begun        bool
	worker       int
	last         [maxPorts]uint64
	recent, long arrivals
	avoid        [maxPorts]time.Time
}

// arrivals are those of a window, by slices of it and by member.
type arrivals struct {
	n  [windows][maxPorts]uint64
	at int
}

// add counts what came, in the next slice or in the same one.
func (a *arrivals) add(next bool, came [maxPorts]uint64) {
	if next {
		a.at = (a.at + 1) % windows
		a.n[a.at] = [maxPorts]uint64{}
	}
	for i := range came {
		a.n[a.at][i] += came[i]
	}
}

// sums are what came by each member.
func (a *arrivals) sums() (n [maxPorts]uint64) {
	for _, slice := range a.n {
		for i := range slice {
			n[i] += slice[i]
		}
	}
	return n
}

// listen counts what has come to a group; next: in the next slice of the long window. The caller holds the lock.
func (j *judge) listen(d *destination, next bool) {
	if !d.view.group || !d.want.Receive {
		return
	}
	now := j.tables.heard(d.want.Worker, d.number)
	h := &d.listening
	if !h.begun || h.worker != d.want.Worker { // what others have counted is no arrival
		h.begun, h.worker, h.last = true, d.want.Worker, now
	}
	var came [maxPorts]uint64
	for i := range now {
		came[i] = now[i] - h.last[i]
	}
	h.recent.add(true, came)
	h.long.add(next, came)
	h.last = now
}

// sums are those of the window that a group's rate asks for.
func (h *heard) sums() [maxPorts]uint64 {
	if n := h.recent.sums(); slices.Max(n[:]) >= heardFew {
		return n
	}
	return h.long.sums()
}

// missing returns a member by which enough more of a group comes than by the one that it is taken from; -1: none.
func (j *judge) missing(d *destination) int {
	came := d.listening.sums()
	most, best := came[d.current], -1
	least := float64(most+heardSlack) / (1 - j.cfg.MaxLoss)
	for i := range j.cfg.Members {
		if n := came[i]; i != d.current && d.has(i) && j.up(i) && !j.health[i].lossy && n >= heardLeast && float64(n) > least && n > most {
			most, best = n, i
		}
	}
	return best
}
