// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// Reasons for dropped MADs of communication management, in HCA.MADDrops.
const (
	DropCMUnread = "cm_unread" // malformed or truncated
	DropCMOther  = "cm_other"  // for reliable connections, which are not supported
	DropCMStray  = "cm_stray"  // an unexpected reply, or one from another port
	DropCMLost   = "cm_lost"   // by CMConfig.Lose
)

// CMConfig configures a CM. The zero value is ready to use.
type CMConfig struct {
	// Timeout is the time until a request is retried; zero: a second. Linux waits four.
	Timeout time.Duration
	// Tries is how often a request is sent; zero: 16, as Linux.
	Tries int
	// Connects is how many Connect calls may be in progress; others wait. Zero: 512.
	Connects int

	// Requests is how many requests from peers are stored: unanswered ones, and answered ones that may be retried. Zero:
	// 4096.
	Requests int
	// PerSource is how many of them may be from one port of the subnet; zero: a quarter.
	PerSource int
	// AnswerIn is the time after which an unanswered request is rejected. Zero: 30 seconds.
	AnswerIn time.Duration
	// Remember is how long an answer is stored for retries; zero: 70 seconds, after which Linux gives up.
	Remember time.Duration

	// Lose, if not nil, is called for each MAD that is sent (out) or received, with its attribute; true drops the MAD. For
	// tests.
	Lose func(out bool, attr uint16) bool
}

func (c *CMConfig) setDefaults() {
	set := func(to *int, otherwise int) {
		if *to <= 0 {
			*to = otherwise
		}
	}
	setTime := func(to *time.Duration, otherwise time.Duration) {
		if *to <= 0 {
			*to = otherwise
		}
	}
	setTime(&c.Timeout, time.Second)
	set(&c.Tries, 16)
	set(&c.Connects, 512)
	set(&c.Requests, 4096)
	set(&c.PerSource, max(1, c.Requests/4))
	setTime(&c.AnswerIn, 30*time.Second)
	setTime(&c.Remember, 70*time.Second)
	if c.Lose == nil {
		c.Lose = func(bool, uint16) bool { return false }
	}
}

// CM is the communication manager of an adapter, for services of datagrams by service ID resolution (IBTA vol 1
// §12.11):
//
//	requester ── SIDR_REQ: request ID, service ID, addresses ──────▶ CM ─▶ Serve's handler
//	          ◀─ SIDR_REP: the same IDs, status, QPN, Q_Key ────────    ◀─ Accept or Reject
//
// The format is that of rdma_cm with RDMA_PS_UDP, with a CMAHeader before the private data. A CM receives all MADs of
// its class, so an adapter has at most one CM. All methods may be called from any goroutine.
type CM struct {
	cfg    CMConfig
	hca    *HCA
	closed chan struct{}
	end    sync.Once
	free   chan struct{} // a slot for each Connect call in progress

	mu      sync.Mutex
	ports   []CMPorts
	handler func(*CMRequest)
	state   cmState
	asking  map[uint32]*asking // by request ID
	nextID  uint32
	counts  CMCounters
}

// CMPorts is the range of ports First to Last in RDMA_PS_UDP, inclusive.
type CMPorts struct{ First, Last uint16 }

// CMCounters counts requests. Requests = Waiting + Answers.Sum(), always.
type CMCounters struct {
	Requests uint64 // from peers, without retries
	Repeats  uint64 // retries of peers
	Waiting  int    // not answered yet
	Answers  Counts // requests by result
	Connects Counts // Connect calls by result: ok, rejected, timed_out, canceled, closed, failed
	Again    uint64 // own retries
}

// Results of requests.
const (
	CMAccepted    = "accepted"
	CMRejected    = "rejected"    // by Reject
	CMTimedOut    = "timed_out"   // not answered in time: rejected
	CMFull        = "full"        // too many requests: rejected
	CMFullSource  = "full_source" // too many requests from that port: rejected
	CMUnsupported = "unsupported" // not served
	CMBad         = "bad"         // wrong version or invalid CMAHeader: rejected
	CMClosed      = "closed"      // not answered: the peer retries, and may reach the next CM
)

// errCMAnswered is the error of a second or late answer.
var errCMAnswered = errors.New("fabric: the request has been answered or has timed out")

// NewCM makes the communication manager of an adapter. Close it before the adapter.
func NewCM(h *HCA, c CMConfig) *CM {
	c.setDefaults()
	m := &CM{
		cfg: c, hca: h, closed: make(chan struct{}), free: make(chan struct{}, c.Connects), state: newCMState(&c),
		asking: map[uint32]*asking{}, nextID: rand.Uint32(), counts: CMCounters{Answers: Counts{}, Connects: Counts{}},
	}
	h.handleMAD(ib.ClassCM, m.handle)
	return m
}

// Close ends all requests; those of peers get no answer.
func (m *CM) Close() {
	m.end.Do(func() {
		m.hca.handleMAD(ib.ClassCM, nil)
		close(m.closed)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.handler = nil
		m.counts.Answers[CMClosed] += uint64(m.state.clear())
	})
}

// Counters returns the counters.
func (m *CM) Counters() CMCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts
	c.Waiting, c.Answers, c.Connects = m.state.waiting, maps.Clone(c.Answers), maps.Clone(c.Connects)
	return c
}

// handle processes one MAD.
func (m *CM) handle(from MADAddress, b []byte) {
	mad, _ := ib.AsMAD(b)
	body := b[ib.MADHdrLen:]
	drop := func(why string) { m.hca.gsi.drops.add(why) }
	switch {
	case m.cfg.Lose(false, mad.AttrID()):
		drop(DropCMLost)
	case mad.Method() != ib.MethodSend:
		drop(DropCMUnread)
	case mad.AttrID() == ib.AttrSIDRReq:
		if !m.request(from, mad, b) {
			drop(DropMADUnserved)
		}
	case !mad.IsCM():
		drop(DropCMUnread)
	case mad.AttrID() != ib.AttrSIDRRep:
		drop(DropCMOther)
	default:
		if rep, ok := ib.AsSIDRRep(body); !ok {
			drop(DropCMUnread)
		} else if !m.reply(from, mad, rep) {
			drop(DropCMStray)
		}
	}
}

// send sends a MAD, unless Lose drops it.
func (m *CM) send(to MADAddress, b []byte) string {
	if mad, _ := ib.AsMAD(b); m.cfg.Lose(true, mad.AttrID()) {
		return ""
	}
	return m.hca.SendMAD(to, b)
}

// newCM makes a MAD with a header only.
func newCM(attr uint16, tid uint64) []byte {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{
		Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: tid, AttrID: attr,
	})
	return b
}

// back returns the address for an answer.
func (a MADAddress) back() MADAddress {
	if a.GRH != nil {
		grh := *a.GRH
		grh.SGID, grh.DGID = grh.DGID, grh.SGID
		a.GRH = &grh
	}
	return a
}

// checkPorts returns what is wrong with a list of ports.
func checkPorts(ports []CMPorts) error {
	for _, p := range ports {
		if p.First == 0 || p.First > p.Last {
			return fmt.Errorf("fabric: services %d to %d: use ports from 1 to 65535, the lower one first", p.First, p.Last)
		}
	}
	return nil
}

// isHostPair reports whether two addresses are valid and of one family.
func isHostPair(from, to netip.Addr) bool {
	return from.IsValid() && to.IsValid() && from.Is4() == to.Is4()
}
