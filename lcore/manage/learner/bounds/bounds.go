// SPDX-License-Identifier: Apache-2.0

// Package bounds bounds the learning of nodes: what is asked, how often, and how much at a time; and which nodes go
// when they are unused, or when there is no room. It decides only.
package bounds

import "time"

const (
	// Rest is how long what was asked for is not asked for again, answered or not.
	Rest = 3 * time.Second
	// Most is how many questions may rest at a time: anybody on the wire can cause them.
	Most = 1024
	// MostForStrangers is how many may when one more comes from a host that has never answered.
	MostForStrangers = Most / 2
)

// Questions are those of the last seconds. The zero value has none.
type Questions[K comparable] struct {
	asked map[K]time.Time
}

// Begin reports whether to ask: not when it was asked for within Rest; and full, when most others or more were.
func (q *Questions[K]) Begin(k K, most int, now time.Time) (begin, full bool) {
	if q.Open(k, now) {
		return false, false
	}
	if q.asked == nil {
		q.asked = map[K]time.Time{}
	}
	if len(q.asked) >= most {
		for old, at := range q.asked {
			if now.Sub(at) >= Rest {
				delete(q.asked, old)
			}
		}
	}
	if len(q.asked) >= most {
		return false, true
	}
	q.asked[k] = now
	return true, false
}

// Open reports whether it was asked for within Rest.
func (q *Questions[K]) Open(k K, now time.Time) bool {
	at, ok := q.asked[k]
	return ok && now.Sub(at) < Rest
}

// End ends the rest of a question: it may be asked at once.
func (q *Questions[K]) End(k K) { delete(q.asked, k) }
