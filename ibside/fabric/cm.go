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

// Causes of drops of datagrams of communication management; HCA.MADDrops has them.
const (
	DropCMUnread = "cm_unread" // not as this class is spoken, or cut short
	DropCMOther  = "cm_other"  // of reliable connections, which there are none of here
	DropCMStray  = "cm_stray"  // a reply that nobody waits for, or from somebody else
	DropCMLost   = "cm_lost"   // CMConfig.Lose has said so
)

// CMConfig bounds what a CM does. The zero value is fit for use.
type CMConfig struct {
	// Timeout is how long a request waits before it is repeated; zero: a second. Linux waits four.
	Timeout time.Duration
	// Tries is how often to ask; zero: 16, as Linux.
	Tries int
	// Connects is how many may be under way; more wait for their turn. Zero: 512.
	Connects int

	// Requests is how many requests of others are kept, those that wait for their answer and those that had one and may
	// be repeated. Zero: 4096.
	Requests int
	// PerSource is how many of them may be of one port of the subnet; zero: a quarter.
	PerSource int
	// AnswerIn is how long a request may wait for its answer; then it is refused. Zero: 30 seconds.
	AnswerIn time.Duration
	// Remember is how long an answer is kept for repetitions; zero: 70 seconds, which is when Linux gives up.
	Remember time.Duration

	// Lose, if not nil, is asked about each datagram, to be sent (out) or received, by its attribute: true loses it. A
	// fault for tests.
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

// CM is the communication manager of an adapter, for services of datagrams by service ID resolution (IBTA vol 1 §12.11):
//
//	requester ── SIDR_REQ: request ID, service ID, who asks whom ──▶ CM ─▶ Serve's handler
//	          ◀─ SIDR_REP: the same IDs, status, QPN, Q_Key ────────    ◀─ Accept or Refuse
//
// It speaks as rdma_cm does with RDMA_PS_UDP, with a CMAHeader before the private data. It takes all datagrams of
// that class that reach the adapter: one CM an adapter. All methods may be called from any goroutine.
type CM struct {
	cfg    CMConfig
	hca    *HCA
	closed chan struct{}
	end    sync.Once
	free   chan struct{} // a place for each connect that may be under way

	mu      sync.Mutex
	ports   []CMPorts
	handler func(*CMRequest)
	book    cmBook
	asking  map[uint32]*asking // by request ID
	nextID  uint32
	counts  CMCounters
}

// CMPorts are the services of ports First to Last in RDMA_PS_UDP.
type CMPorts struct{ First, Last uint16 }

// CMCounters count datagram services. Requests = Waiting + Answers.Sum(), always.
type CMCounters struct {
	Requests uint64 // of others, repetitions not counted
	Repeats  uint64 // repetitions: of those that wait, and those that had an answer
	Waiting  int    // have no answer yet
	Answers  Counts // by what became of requests
	Connects Counts // to others: ok, rejected, timed_out, canceled, closed, failed
	Again    uint64 // repetitions of ours
}

// What becomes of requests.
const (
	CMAccepted    = "accepted"
	CMRejected    = "rejected"    // by Refuse
	CMTimedOut    = "timed_out"   // nobody has answered: refused
	CMFull        = "full"        // too many are kept: refused
	CMFullSource  = "full_source" // too many of that port: refused
	CMUnsupported = "unsupported" // nobody serves it
	CMBad         = "bad"         // of a wrong version, or it does not say who asks whom: refused
	CMClosed      = "closed"      // without an answer: who asks will ask again, and may meet our successor
)

// errCMAnswered is the error of a second answer.
var errCMAnswered = errors.New("fabric: the request has been answered, or has waited for too long")

// NewCM makes the communication manager of an adapter. Close it before the adapter.
func NewCM(h *HCA, c CMConfig) *CM {
	c.setDefaults()
	m := &CM{
		cfg: c, hca: h, closed: make(chan struct{}), free: make(chan struct{}, c.Connects), book: newCMBook(&c),
		asking: map[uint32]*asking{}, nextID: rand.Uint32(), counts: CMCounters{Answers: Counts{}, Connects: Counts{}},
	}
	h.HandleMAD(ib.ClassCM, m.handle)
	return m
}

// Close ends all requests, ours and those of others, which get no answer.
func (m *CM) Close() {
	m.end.Do(func() {
		m.hca.HandleMAD(ib.ClassCM, nil)
		close(m.closed)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.handler = nil
		m.counts.Answers[CMClosed] += uint64(m.book.forgetAll())
	})
}

// Counters returns the counters.
func (m *CM) Counters() CMCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts
	c.Waiting, c.Answers, c.Connects = m.book.waiting, maps.Clone(c.Answers), maps.Clone(c.Connects)
	return c
}

// handle takes one datagram of the class.
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

// send sends a datagram, unless a test wants it lost.
func (m *CM) send(to MADAddress, b []byte) string {
	if mad, _ := ib.AsMAD(b); m.cfg.Lose(true, mad.AttrID()) {
		return ""
	}
	return m.hca.SendMAD(to, b)
}

// newCM makes a datagram that lacks what comes after its header.
func newCM(attr uint16, tid uint64) []byte {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{
		Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: tid, AttrID: attr,
	})
	return b
}

// back is the address to answer to.
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

// isHostPair reports whether one host may ask the other: two addresses of one family.
func isHostPair(from, to netip.Addr) bool {
	return from.IsValid() && to.IsValid() && from.Is4() == to.Is4()
}
