// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
)

// Bounds, each direction. A thousand requests a second whose answers take a second fit; a host that asks more than its
// share leaves the others theirs.
const (
	askedMost     = 2048 // requests under way
	askedBySource = 512  // of them, of one host or node
	answersMost   = 16384
	// answersKept is for how long an answer is given again: a kernel asks again after 4.1 s, and may lose that, too.
	answersKept = 20 * time.Second
)

// A ServiceResult is what becomes of a request for a service.
type ServiceResult int

// The results. A request ends by exactly one of them, but for ServiceRepeated, ServiceResent and ServiceUnmatched, which
// count datagrams that are no requests of their own.
const (
	ServiceAnswered    ServiceResult = iota // with a queue pair
	ServiceRepeated                         // a request again: it is under way, or gets the same answer once more
	ServiceResent                           // the bridge asked a RoCE host again
	ServiceUnmatched                        // an answer to no question, or not of who was asked
	ServiceRefused                          // by the peer
	ServiceUnsupported                      // no port of a configured service
	ServiceDenied                           // by policy, or the source contradicts what is configured for its address
	ServiceMalformed                        // a header or an answer that makes no sense
	ServiceNoNode                           // to an address that is no IB node's, or from one
	ServiceUnreachable                      // nobody there
	ServiceTimedOut                         // no answer in time
	ServiceBusy                             // too many requests are under way
	ServiceBusySource                       // too many of this source are
	ServiceNoStandIn                        // no stand-in is left
	serviceResults
)

var serviceNames = [serviceResults]string{
	"answered", "repeated", "resent", "unmatched", "refused", "unsupported", "denied", "malformed", "no_node", "unreachable", "timed_out",
	"busy", "busy_source", "no_standin",
}

// String returns the name of r as metrics and the log have it.
func (r ServiceResult) String() string { return serviceNames[r] }

// ServiceCounts counts requests by ServiceResult.
type ServiceCounts [serviceResults]uint64

// A quota bounds what is under way, in total and of one source.
type quota struct {
	total int
	of    map[netip.Addr]int
}

// take takes one for a source. It returns why there is none, or ServiceAnswered.
func (q *quota) take(source netip.Addr) ServiceResult {
	switch {
	case q.total >= askedMost:
		return ServiceBusy
	case q.of[source] >= askedBySource:
		return ServiceBusySource
	}
	if q.of == nil {
		q.of = map[netip.Addr]int{}
	}
	q.total++
	q.of[source]++
	return ServiceAnswered
}

// give gives back what take took.
func (q *quota) give(source netip.Addr) {
	q.total--
	if q.of[source]--; q.of[source] == 0 {
		delete(q.of, source)
	}
}

// A requestKey tells requests of RoCE hosts apart; a request that is sent again is the same in all of it.
type requestKey struct {
	from, to netip.Addr
	id       uint32
	tid      uint64
	service  ib.ServiceID
}

// An outcome is what a request is answered with.
type outcome struct {
	ServiceAnswer
	status uint8 // one of ib's SIDRStatus constants
}

// refusal is an outcome without a queue pair.
func refusal(status uint8) outcome { return outcome{status: status} }

// answers are the last ones given to RoCE hosts, for those that ask again: a ring, oldest first.
type answers struct {
	of    map[requestKey]outcome
	ring  []givenAnswer
	first int
	n     int
}

type givenAnswer struct {
	key requestKey
	at  time.Time
}

// put remembers an answer; the oldest makes room for it.
func (a *answers) put(k requestKey, o outcome, now time.Time) {
	if a.of == nil {
		a.of, a.ring = map[requestKey]outcome{}, make([]givenAnswer, answersMost)
	}
	if a.n == len(a.ring) {
		a.drop()
	}
	a.of[k] = o
	a.ring[(a.first+a.n)%len(a.ring)] = givenAnswer{k, now}
	a.n++
}

// age forgets answers that nobody asks for any more.
func (a *answers) age(now time.Time) {
	for a.n > 0 && now.Sub(a.ring[a.first].at) >= answersKept {
		a.drop()
	}
}

func (a *answers) drop() {
	delete(a.of, a.ring[a.first].key)
	a.ring[a.first] = givenAnswer{}
	a.first = (a.first + 1) % len(a.ring)
	a.n--
}
