// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/sidr/pending"
)

// Limits, in each direction. A thousand requests a second whose answers take a second fit; a host that sends more than
// its share leaves the others theirs.
const (
	PendingMost     = 2048 // requests under way
	pendingBySource = 512  // of them, of one host or node
	// strangersMost is how many of them may be of hosts that have not shown that they exist. IB ports have 512 under way
	// at a time, and others wait: what forged addresses ask of nodes that do not answer leaves half of that free.
	strangersMost = 256
	// atPortByHost is how many of a host's the port has at a time; its others wait for these, not for other hosts'. A node
	// that does not answer is asked for 30 s: one host that asks for what is not there leaves seven eighths of the port
	// free.
	atPortByHost = 64
	answersMost  = 16384
	// answersKept is how long an answer is repeated: a kernel sends its request again after 4.1 s, and may lose
	// that, too.
	answersKept = 20 * time.Second
)

// A Result is how a request for a service ends.
type Result int

// The results. A request ends with exactly one of them. Repeated, Resent and Unmatched count datagrams that are no
// requests of their own.
const (
	Answered     Result = iota // with a queue pair
	Repeated                   // the same request: it is under way, or gets the same answer once more
	Resent                     // the bridge sent its request to a RoCE host again
	Unmatched                  // an answer to no request, or not from the host that was asked
	Refused                    // by the peer
	Unsupported                // no port of a configured service
	Denied                     // by policy, or the source contradicts what is configured for its address
	Malformed                  // a header or an answer is not valid
	NoNode                     // to an address that is no IB node's, or from one
	Unreachable                // the peer is not there
	TimedOut                   // no answer in time
	Busy                       // too many requests are under way
	BusySource                 // too many of this source are
	NoProxyQP                  // no proxy QP is left
	Untranslated               // from or to an address that has no counterpart on the other side
	results
)

var names = [results]string{
	"answered", "repeated", "resent", "unmatched", "refused", "unsupported", "denied", "malformed", "no_node", "unreachable", "timed_out",
	"busy", "busy_source", "no_proxy_qp", "untranslated",
}

// String returns the name of r in metrics and in the log.
func (r Result) String() string { return names[r] }

// Counts counts requests by Result.
type Counts [results]uint64

// take takes a request's place in a quota. It returns why there is none, or Answered.
func take[K comparable](q *pending.Quota[K], source K) Result {
	switch q.Take(source) {
	case pending.Full:
		return Busy
	case pending.FullOfIt:
		return BusySource
	}
	return Answered
}

// A requestKey identifies a request of a RoCE host; a request that is sent again has the same key.
type requestKey struct {
	from, to netip.Addr
	id       uint32
	tid      uint64
	service  ib.ServiceID
}

// An outcome is the answer to a request.
type outcome struct {
	ibside.ServiceAnswer
	status uint8 // one of ib's SIDRStatus constants
}

// rejection is an outcome without a queue pair.
func rejection(status uint8) outcome { return outcome{status: status} }
