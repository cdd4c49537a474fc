// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"time"

	"causeway/lcore/frame"
)

// timing is what a link's timers are made of (RFC 3376 §8, RFC 3810 §9): its querier's, as far as its queries tell it.
type timing struct {
	robustness int
	interval   time.Duration // between general queries
	response   time.Duration // in which hosts answer one
}

// standard is what a querier has that says nothing else, the bridge among them.
var standard = timing{robustness: 2, interval: 125 * time.Second, response: 10 * time.Second}

const (
	// lastMemberInterval is between two queries of what a host has left, and what they allow for an answer (§8.8, §9.8).
	lastMemberInterval = time.Second
	// intervalMost bounds what a querier can have of its queries: codes go up to nine hours, but a group that nobody listens
	// to should not last for a day.
	intervalMost = time.Hour
	responseMost = 5 * time.Minute
	// believedMost bounds how long a querier is believed to be there that is not heard: one packet of a stranger's is no querier.
	believedMost = 20 * time.Minute
)

// timingOf is what a general query tells. An older version, or a zero, stands for the standard (RFC 3376 §4.1.6, §4.1.7).
func timingOf(q *frame.Query) timing {
	t := standard
	if q.Robustness > 0 {
		t.robustness = int(q.Robustness)
	}
	if q.Interval > 0 {
		t.interval = min(q.Interval, intervalMost)
	}
	if q.MaxResp > 0 {
		t.response = min(q.MaxResp, responseMost)
	}
	return t
}

// round is from a general query to the answers to the next one.
func (t timing) round() time.Duration { return t.interval + t.response }

// membership is how long a report counts, and an older version is used after its last message (§8.4, §8.12, §8.13, §9.4, §9.12,
// §9.13).
func (t timing) membership() time.Duration {
	return time.Duration(t.robustness)*t.interval + t.response
}

// otherPresent is how long another querier comes before the bridge after its last query (§8.5, §9.5).
func (t timing) otherPresent() time.Duration {
	return time.Duration(t.robustness)*t.interval + t.response/2
}

// lastMember is how long what a host has left counts unless another one reports it (§8.8.1, §9.8.1). within is what each query
// allows.
func (t timing) lastMember(within time.Duration) time.Duration {
	return time.Duration(t.robustness) * within
}
