// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"slices"
	"time"
)

// A group's losses are seen by what comes by the other members: by how far the one that it is taken from lags behind
// another. It may do so for a moment, and catches up; what is lost it lags behind for ever. So a lag has grown only if the
// smallest of some looks is greater than the greatest of some others before:
//
//	the greatest of these             the smallest of these
//	    ●──●──●───────── window ─────────●──●──●─▶ now
//
// A change of the member forgets nothing by itself: see moved.
const (
	// A window of a group's arrivals is windows times heardEvery: losses of half are found in one or two of those. That of
	// a group with few messages is longEvery times as long.
	heardEvery = 5
	windows    = 4
	longEvery  = 40
	// Copies of a message may be so many times heardEvery apart: fabrics have queues, a sender may send some messages on one
	// before it sends them on the other, and a busy machine has either wait for a CPU. A change would lose all that the
	// other member has brought by then.
	late = 2
	// A group's losses are judged by so many messages, and not by fewer than slack missing ones: the copies of one message
	// come by different fabrics at different times.
	heardLeast = 16
	heardSlack = 8
	heardFew   = 2 * heardLeast // with fewer in a window, the loss of half is not told from chance
)

// A sample is how many messages have come by each member.
type sample [maxPorts]uint64

// heard is how many messages of a group came by each member, now and before.
type heard struct {
	begun  bool
	worker int
	recent [windows + 2*late + 1]sample // the newest first
	long   [windows][late + 1]sample    // the newest of recent, as they were each time that longEvery had passed
	avoid  [maxPorts]time.Time

	floor   [maxPorts]int64 // see moved
	floored int             // for so many samples
}

// add takes the next sample; next: one of the long window's, too.
func (h *heard) add(next bool, now sample) {
	h.floored = max(0, h.floored-1)
	copy(h.recent[1:], h.recent[:])
	h.recent[0] = now
	if next {
		copy(h.long[1:], h.long[:])
		h.long[0] = h.newest()
	}
}

func (h *heard) newest() [late + 1]sample { return [late + 1]sample(h.recent[:late+1]) }

// moved takes a change of the member. While the window has anything of before, others are compared with the new one by the
// most that they were ahead of it before the change or are by now: what the one that was left brings late is no reason to
// return to it, nor is what a new one has missed while it was not used, or down.
func (h *heard) moved(to int) {
	if !h.begun {
		return
	}
	for i := range h.floor {
		h.floor[i] = h.recent[0].lead(i, to)
		for k := range late + 1 {
			h.floor[i] = max(h.floor[i], h.recent[k].lead(i, to), h.long[windows-1][k].lead(i, to))
		}
	}
	h.floored = windows * longEvery
}

// listen counts what has come to a group; next: also for the long window. The caller holds the lock.
func (j *judge) listen(d *destination, next bool) {
	if !d.view.group || !d.want.Receive {
		return
	}
	now := sample(j.tables.heard(d.want.Worker, d.number))
	h := &d.listening
	if !h.begun || h.worker != d.want.Worker { // what others have counted is no arrival
		h.begun, h.worker = true, d.want.Worker
		for i := range h.recent {
			h.recent[i] = now
		}
		for i := range h.long {
			h.long[i] = h.newest()
		}
	}
	h.add(next, now)
}

// window returns the samples at the beginning of the window that a group's rate asks for, and what came in it.
func (h *heard) window() (begin []sample, came sample) {
	if came = h.recent[late].since(&h.recent[late+windows]); slices.Max(came[:]) >= heardFew {
		return h.recent[late+windows:], came
	}
	begin = h.long[windows-1][:]
	return begin, h.recent[late].since(&begin[0])
}

func (s sample) since(o *sample) sample {
	for i := range s {
		s[i] -= o[i]
	}
	return s
}

// lead returns by how much a member is ahead of another.
func (s *sample) lead(of, than int) int64 { return int64(s[of] - s[than]) }

// missing returns a member by which enough more of a group comes than by the one that it is taken from; -1: none.
func (j *judge) missing(d *destination) int {
	best, most := -1, int64(0)
	for i := range j.cfg.Members {
		if i == d.current || !d.has(i) || !j.up(i) || j.health[i].lossy {
			continue
		}
		if n := d.listening.lost(d.current, i, j.cfg.MaxLoss); n > most {
			best, most = i, n
		}
	}
	return best
}

// lost returns how many messages current has lost of those that member i has brought; 0: not more than maxLoss of them, or
// too few to tell.
func (h *heard) lost(current, i int, maxLoss float64) int64 {
	begin, came := h.window()
	most, least := begin[0].lead(i, current), h.recent[0].lead(i, current)
	for k := range late + 1 {
		most, least = max(most, begin[k].lead(i, current)), min(least, h.recent[k].lead(i, current))
	}
	if h.floored > 0 {
		most = max(most, h.floor[i])
	}
	if n := least - most; came[i] >= heardLeast && float64(n) > maxLoss*float64(came[i])+heardSlack {
		return n
	}
	return 0
}
