// SPDX-License-Identifier: Apache-2.0

package limit

import "time"

// A Rate is a token bucket that holds what a second brings, and is full at first. The zero value limits nothing.
type Rate struct {
	perSecond float64
	tokens    float64
	at        time.Time // when tokens was right; zero: never, the bucket is full
}

// NewRate makes a Rate. 0 limits nothing.
func NewRate(perSecond int) Rate { return Rate{perSecond: float64(perSecond)} }

// Set changes the rate. What the bucket holds stays, as far as there is room for it.
func (r *Rate) Set(perSecond int) { r.perSecond = float64(perSecond) }

// Allows reports whether there is a token.
func (r *Rate) Allows(now time.Time) bool { return r.perSecond == 0 || r.held(now) >= 1 }

// Take takes a token, which Allows has seen.
func (r *Rate) Take(now time.Time) {
	if r.perSecond == 0 {
		return
	}
	r.tokens = max(0, r.held(now)-1)
	r.at = now
}

// IsFull reports whether the bucket is full: it says no more than a new one.
func (r *Rate) IsFull(now time.Time) bool { return r.held(now) >= r.perSecond }

func (r *Rate) held(now time.Time) float64 {
	if r.at.IsZero() {
		return r.perSecond
	}
	return min(r.perSecond, r.tokens+now.Sub(r.at).Seconds()*r.perSecond)
}
