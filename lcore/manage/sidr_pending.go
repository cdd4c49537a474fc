// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/pending"
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
	ServiceAnswered     ServiceResult = iota // with a queue pair
	ServiceRepeated                          // a request again: it is under way, or gets the same answer once more
	ServiceResent                            // the bridge asked a RoCE host again
	ServiceUnmatched                         // an answer to no question, or not of who was asked
	ServiceRefused                           // by the peer
	ServiceUnsupported                       // no port of a configured service
	ServiceDenied                            // by policy, or the source contradicts what is configured for its address
	ServiceMalformed                         // a header or an answer that makes no sense
	ServiceNoNode                            // to an address that is no IB node's, or from one
	ServiceUnreachable                       // nobody there
	ServiceTimedOut                          // no answer in time
	ServiceBusy                              // too many requests are under way
	ServiceBusySource                        // too many of this source are
	ServiceNoStandIn                         // no stand-in is left
	ServiceUntranslated                      // of an address, or to one, that is nobody's on the other side
	serviceResults
)

var serviceNames = [serviceResults]string{
	"answered", "repeated", "resent", "unmatched", "refused", "unsupported", "denied", "malformed", "no_node", "unreachable", "timed_out",
	"busy", "busy_source", "no_standin", "untranslated",
}

// String returns the name of r as metrics and the log have it.
func (r ServiceResult) String() string { return serviceNames[r] }

// ServiceCounts counts requests by ServiceResult.
type ServiceCounts [serviceResults]uint64

// A quota bounds what is under way, and says why there is no room for more.
type quota struct{ pending.Quota }

func newQuota() quota { return quota{pending.NewQuota(askedMost, askedBySource)} }

// take takes one for a source. It returns why there is none, or ServiceAnswered.
func (q *quota) take(source netip.Addr) ServiceResult {
	switch q.Take(source) {
	case pending.Full:
		return ServiceBusy
	case pending.FullOfIt:
		return ServiceBusySource
	}
	return ServiceAnswered
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

// answers are the last ones given to RoCE hosts, for those that ask again.
type answers = pending.Answers[requestKey, outcome]
