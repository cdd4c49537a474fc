// SPDX-License-Identifier: Apache-2.0

// Package pending bounds the requests that are under way, in total and of one source, and remembers the last answers,
// for hosts that send again because an answer was lost. Nothing here may be called concurrently.
package pending

import "time"

// A Quota bounds what is under way, in total and of each source.
type Quota[K comparable] struct {
	total, ofOne int
	taken        int
	of           map[K]int
}

// Room says whether there is room for another.
type Room int

// The values of Room.
const (
	Free     Room = iota
	Full          // too many are under way
	FullOfIt      // too many of this source are
)

// NewQuota makes a quota of so many in total, and so many of one source.
func NewQuota[K comparable](total, ofOne int) Quota[K] {
	return Quota[K]{total: total, ofOne: ofOne, of: map[K]int{}}
}

// Take takes one for a source, if there is room.
func (q *Quota[K]) Take(source K) Room {
	switch {
	case q.taken >= q.total:
		return Full
	case q.of[source] >= q.ofOne:
		return FullOfIt
	}
	q.taken++
	q.of[source]++
	return Free
}

// Give gives back what Take took.
func (q *Quota[K]) Give(source K) {
	q.taken--
	if q.of[source]--; q.of[source] == 0 {
		delete(q.of, source)
	}
}

// Taken returns how many are under way.
func (q *Quota[K]) Taken() int { return q.taken }

// Answers are the last ones given, oldest first, in a ring that is made with the first. NewAnswers makes them.
type Answers[K comparable, A any] struct {
	most  int
	kept  time.Duration
	of    map[K]A
	ring  []given[K]
	first int
	n     int
}

type given[K comparable] struct {
	key K
	at  time.Time
}

// NewAnswers makes Answers that hold at most so many, each for so long.
func NewAnswers[K comparable, A any](most int, kept time.Duration) Answers[K, A] {
	return Answers[K, A]{most: most, kept: kept}
}

// Find returns the answer that was given to a request.
func (a *Answers[K, A]) Find(k K) (A, bool) {
	answer, given := a.of[k]
	return answer, given
}

// Put remembers an answer, to a request that has none yet; the oldest makes room for it.
func (a *Answers[K, A]) Put(k K, answer A, now time.Time) {
	if a.of == nil {
		a.of, a.ring = map[K]A{}, make([]given[K], a.most)
	}
	if a.n == len(a.ring) {
		a.drop()
	}
	a.of[k] = answer
	a.ring[(a.first+a.n)%len(a.ring)] = given[K]{k, now}
	a.n++
}

// Age removes answers that are too old.
func (a *Answers[K, A]) Age(now time.Time) {
	for a.n > 0 && now.Sub(a.ring[a.first].at) >= a.kept {
		a.drop()
	}
}

func (a *Answers[K, A]) drop() {
	delete(a.of, a.ring[a.first].key)
	a.ring[a.first] = given[K]{}
	a.first = (a.first + 1) % len(a.ring)
	a.n--
}
