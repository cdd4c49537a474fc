// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// Config has the timeouts and limits of a client. Zero values mean the defaults.
type Config struct {
	FirstWait   time.Duration // for the answer to each of the first tries; each further try waits twice as long. 250 ms
	MaxWait     time.Duration // the longest wait. 4 s
	Tries       int           // 8
	Outstanding int           // requests under way at once; others wait. 32
	Notices     int           // notices that wait to be read; further ones are dropped and counted. 256
	MaxTable    int           // bytes of a table. 1 MiB
	SMKey       uint64        // makes the SA trust this client, and show it the members of groups. 0: no trust
}

func (c Config) withDefaults() Config {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if c.FirstWait <= 0 {
		c.FirstWait = 250 * time.Millisecond
	}
	if c.MaxWait <= 0 {
		c.MaxWait = 4 * time.Second
	}
	set(&c.Tries, 8)
	set(&c.Outstanding, 32)
	set(&c.Notices, 256)
	set(&c.MaxTable, 1<<20)
	return c
}

// quickTries is how many tries wait as short as the first. A subnet manager that takes over does not answer for some
// tenths of a second, in which traffic waits for paths and joins: with waits that double at once, the third try is 0.75
// s to 0.94 s after the first.
const quickTries = 3

// patience returns how long to wait for the answer to a try, counted from 0.
func (c *Config) patience(try int) time.Duration {
	return min(c.FirstWait<<max(0, try-quickTries+1), c.MaxWait)
}

// Client sends requests to the subnet administrator. Its methods may be called from any goroutine. Errors wrap a
// Rejection, one of the Err values, or the context's error.
type Client struct {
	transport Transport
	cfg       Config
	slots     chan struct{} // one for each request under way
	notices   chan ib.NoticeFields

	mu      sync.Mutex
	onPort  func(ib.GID)    // nil: nobody follows ports
	tries   map[uint32]*try // by the lower half of the transaction ID
	nextTID uint32
	sm      ib.LID // of the SA, as last read
	stats   Stats

	stopped chan struct{} // the receiver has ended
	cause   error         // why the receiver has ended
	reports reports
}

// Stats counts MADs by what was done with them: Received = Answers + Segments + Notices + Repeated + NoticesDropped +
// Late + Ignored + Lost, always.
type Stats struct {
	Requests uint64 // tries included
	Rejected uint64 // answers with a status
	Timeouts uint64 // tries without an answer
	Tables   uint64 // answers that took more than one MAD

	Received       uint64
	Answers        uint64 // to a request that waited; of a table, the segment that ended it
	Segments       uint64 // the other segments of tables
	Notices        uint64 // passed to the reader
	NoticesDropped uint64 // for lack of room; the SA got its answer all the same
	Repeated       uint64 // notices the SA sent again
	Late           uint64 // answers that no request waits for any more, or that do not fit the request
	Ignored        uint64 // not of subnet administration, not from the SA, or not for a client
	Lost           uint64 // requests that a transport could not deliver, or whose answer it could not use
}

// NewClient makes the client of a port. The client reads everything that the transport receives, and closes it in the
// end.
func NewClient(t Transport, cfg Config) *Client {
	cfg = cfg.withDefaults()
	c := &Client{
		transport: t, cfg: cfg, slots: make(chan struct{}, cfg.Outstanding), notices: make(chan ib.NoticeFields, cfg.Notices),
		tries: map[uint32]*try{}, nextTID: rand.Uint32(), stopped: make(chan struct{}),
	}
	go c.receive()
	return c
}

// Close ends the client and its transport. It does not withdraw registrations: they stay at the SA.
func (c *Client) Close() error {
	err := c.transport.Close()
	<-c.stopped
	return err
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (c *Client) count(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

// PortState returns the port's present state.
func (c *Client) PortState() (ib.PortState, error) {
	p, err := c.transport.PortState()
	if err == nil {
		c.mu.Lock()
		c.sm = p.SMLID
		c.mu.Unlock()
	}
	return p, err
}

// request is one request to the SA.
type request struct {
	method, answer uint8 // the method, and that of its answer
	attr           uint16
	mask           uint64
	data           []byte
}

// try is one MAD of a request that waits for its answer. Only the receiver uses the table that it assembles.
type try struct {
	*request
	sm       ib.LID // the LID that it was sent to: answers from others are ignored
	table    *table
	answers  chan<- answer
	progress chan<- struct{} // a table grows
}

// answer is the result of a try.
type answer struct {
	data  []byte // the record: ib.SADataLen bytes
	table *table // of a GetTableResp
	err   error
}

// query sends the request until there is an answer, the tries are used up, or ctx ends.
func (c *Client) query(ctx context.Context, r *request) (answer, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-c.stopped:
		return answer{}, c.cause
	}
	defer func() { <-c.slots }()
	q := &querying{Client: c, request: r, answers: make(chan answer, c.cfg.Tries), progress: make(chan struct{}, 1)}
	defer q.drop()
	why := ErrTimeout
	for i := range c.cfg.Tries {
		wait := c.cfg.patience(i)
		if err := q.send(); err != nil {
			why = err // the port may get its SM, or its LID, while we wait
		}
		got, err := q.wait(ctx, wait+rand.N(wait/4+1))
		switch {
		case err == nil && got.err == nil:
			return got, nil
		case err == nil && !passes(got.err):
			return answer{}, got.err
		case err == nil:
			why = got.err
			if err := q.pause(ctx, wait/2+rand.N(wait/2+1)); err != nil {
				return answer{}, err
			}
		case err != errNoAnswer:
			return answer{}, err
		}
	}
	return answer{}, why
}

// passes reports whether the status is temporary: the same request may succeed a little later.
func passes(err error) bool { return err == Busy || err == ErrUnreachable }

// querying is the state of a request under way.
type querying struct {
	*Client
	*request
	tids     []uint32
	answers  chan answer
	progress chan struct{}
}

// errNoAnswer ends one try.
var errNoAnswer = fmt.Errorf("no answer")

// send sends the request again, with a new transaction ID: the kernel rejects a second request with the ID of one that
// it still waits for. An answer to an earlier try is accepted all the same.
func (q *querying) send() error {
	p, err := q.PortState()
	if err != nil {
		return err
	}
	if !p.SMLID.IsUnicast() || !p.LID.IsUnicast() {
		return ErrNoSM
	}
	q.mu.Lock()
	q.nextTID++
	tid := q.nextTID
	q.tids = append(q.tids, tid)
	q.tries[tid] = &try{
		request: q.request, sm: p.SMLID, table: &table{max: q.cfg.MaxTable, window: 1}, answers: q.answers, progress: q.progress,
	}
	q.stats.Requests++
	q.mu.Unlock()
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{
		Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: q.method, TID: uint64(tid), AttrID: q.attr,
	})
	ib.PutSAHeader(mad[ib.MADHdrLen:], ib.SAFields{SMKey: q.cfg.SMKey, Components: q.mask})
	copy(mad[ib.MADHdrLen+ib.SAHdrLen:], q.data)
	return q.transport.SendMAD(p.SMLID, p.SMSL, mad)
}

// wait waits for an answer. Each segment of a table restarts the timeout.
func (q *querying) wait(ctx context.Context, patience time.Duration) (answer, error) {
	again := time.NewTimer(patience)
	defer again.Stop()
	for {
		select {
		case got := <-q.answers:
			return got, nil
		case <-q.progress:
			again.Reset(patience)
		case <-ctx.Done():
			return answer{}, ctx.Err()
		case <-q.stopped:
			return answer{}, q.cause
		case <-again.C:
			q.count(func(s *Stats) { s.Timeouts++ })
			return answer{}, errNoAnswer
		}
	}
}

// pause waits before a request that was temporarily rejected is sent again.
func (q *querying) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-q.stopped:
		return q.cause
	case <-time.After(d):
		return nil
	}
}

func (q *querying) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, tid := range q.tids {
		delete(q.tries, tid)
	}
}
