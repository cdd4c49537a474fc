// SPDX-License-Identifier: Apache-2.0

// Package rivals finds the other bridges between the same two fabrics that are not of this one's fleet: together they would
// deliver each message twice. One of two carries nothing, the one that came later.
//
//	list of the subnet ─▶ Rivals ─▶ ask, over InfiniBand ─▶ the other
//	        Why, Bar ◀── judge ◀─ answer, over Ethernet ◀──┘
//
// A record at the subnet administrator is anybody's, and may be of a bridge that has ended. So only who answers counts, and
// the answer comes over Ethernet to what was said over InfiniBand: whoever gives it is on both fabrics.
//
// Who came later does not depend on clocks, unless two come at once: a bridge that finds another one that carries has come
// later. A fleet came when it was founded.
package rivals

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"causeway/config"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/bridges"
)

const (
	// A bridge that has just come waits so long for the list, and then for the answers of those that are on it, before it carries
	// anything. They answer when they have read of it, too.
	lookList = 2 * time.Second
	look     = bridges.Every + time.Second
	// One that has answered counts for so long, and is asked so often.
	lasting   = 3 * time.Second
	every     = 300 * time.Millisecond
	everyLook = 100 * time.Millisecond
	turn      = 50 * time.Millisecond
	turnLook  = 10 * time.Millisecond // until it is known who is there
)

// Self is what the bridge is, now.
type Self struct {
	Fleet   ibside.Fleet // Founded is 0: it is in none, or not yet
	Wants   bool         // it is to carry something: no operator has drained it, and its etcd has told of the fleet
	Carries bool         // it does, if it is not barred
	Listed  bool         // the list of the others is known, or cannot be had
	MACs    []frame.MAC  // of its Ethernet ports
}

// Config is what Rivals work with.
type Config struct {
	Name     string // of the bridge
	Instance uint64
	Fleet    string                // its name; "": the bridge is in none
	InForce  func() *config.Config // the configuration, with whom the bridge may be beside
	Self     func() Self
	Others   func() []bridges.Bridge
	Ask      func(to ib.GID, data []byte) error    // over InfiniBand
	Answer   func(to frame.MAC, data []byte) error // over Ethernet, on all segments
	Bar      func(on bool) error                   // has the bridge carry nothing, or again, and returns when that is so; an error: it is as before
	Log      *slog.Logger
}

// Rivals are the others. Run begins with a bridge that is barred.
type Rivals struct {
	cfg      Config
	heard    [2]chan message // over InfiniBand, and over Ethernet, so that a flood on one is none on the other
	changed  chan error      // Bar's result
	asked    chan chan<- bool
	changing bool // Bar is under way
	came     uint64
	began    time.Time
	followed time.Time
	self     Self
	free     bool              // the bridge is not barred
	settled  bool              // it is known after whom it came
	all      map[uint64]*other // by instance
	own      set
	ownOf    *config.Config
	digest   uint64
	first    uint64 // the instance of that because of which the bridge is barred

	mu     sync.Mutex
	why    string
	report []Other
}

// An Other is another bridge that answers.
type Other struct {
	Instance uint64
	Name     string   // as it says
	Fleet    string   // the same; "": it is in none
	Carries  bool     // it forwards
	Beside   bool     // each names the other in [bridge] beside
	Overlap  []string // what both are to carry, as far as it is known; of two that are not beside each other nothing is known

	claims set
	yields bool
}

// New makes Rivals.
func New(c Config) *Rivals {
	const room = 256 // messages that wait
	return &Rivals{
		cfg: c, heard: [2]chan message{make(chan message, room), make(chan message, room)}, changed: make(chan error, 1),
		asked: make(chan chan<- bool), all: map[uint64]*other{}, why: looking,
	}
}

const looking = "it looks for other bridges between the same fabrics"

// Received takes a message that came over Ethernet or InfiniBand. Any goroutine may call it. One for which there is no room is lost,
// as on the way.
func (r *Rivals) Received(ethernet bool, data []byte) {
	if r == nil {
		return
	}
	m, ok := open(data)
	if !ok || m.to != r.cfg.Instance || m.isAnswer() != ethernet {
		return
	}
	by := 0
	if ethernet {
		by = 1
	}
	select {
	case r.heard[by] <- m:
	default:
	}
}

// Why says why the bridge carries nothing because of others; "": it carries what it has. nil says "".
func (r *Rivals) Why() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// Others returns the others that answer. nil has none.
func (r *Rivals) Others() []Other {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report
}

// Run looks until ctx ends.
func (r *Rivals) Run(ctx context.Context) {
	tick := time.NewTicker(turnLook)
	defer tick.Stop()
	r.began = time.Now()
	r.came = cameAt(r.began)
	defer func() {
		if r.changing {
			<-r.changed
		}
	}()
	r.follow(time.Now())
	for {
		var asked chan<- bool
		select {
		case m := <-r.heard[0]:
			r.take(&m, time.Now())
		case m := <-r.heard[1]:
			r.take(&m, time.Now())
		case err := <-r.changed:
			r.settle(err)
		case now := <-tick.C:
			if !r.settled || now.Sub(r.followed) >= turn {
				r.follow(now)
			}
		case asked = <-r.asked:
			r.follow(time.Now())
		case <-ctx.Done():
			return
		}
		r.judge(time.Now())
		if asked != nil {
			asked <- !r.changing && (r.settled || !r.self.Wants)
		}
	}
}

// Await waits until the bridge has done what its operator has just said: has begun to look for others, and knows whether it carries
// anything. nil waits for nothing.
func (r *Rivals) Await(ctx context.Context) {
	const most = lookList + look + time.Second
	if r == nil {
		return
	}
	ctx, end := context.WithTimeout(ctx, most)
	defer end()
	for done, answer := false, make(chan bool, 1); !done; {
		select {
		case r.asked <- answer:
			if done = <-answer; !done {
				time.Sleep(turnLook)
			}
		case <-ctx.Done():
			return
		}
	}
}

// follow asks those that are listed, and those that were and answer.
func (r *Rivals) follow(now time.Time) {
	r.self, r.followed = r.cfg.Self(), now
	listed := map[uint64]bool{}
	for _, b := range r.cfg.Others() {
		if b.Instance == 0 || b.Instance == r.cfg.Instance || r.self.Fleet.Founded != 0 && b.Fleet == r.self.Fleet {
			continue
		}
		listed[b.Instance] = true
		if r.all[b.Instance] == nil {
			r.all[b.Instance] = &other{found: now}
		}
		r.all[b.Instance].Bridge = b
	}
	maps.DeleteFunc(r.all, func(i uint64, o *other) bool { return !listed[i] && !o.there(now) })
	for _, o := range r.all {
		o.asks = 0
		gap := every
		if !r.free && o.answered.IsZero() {
			gap = everyLook
		}
		if now.Sub(o.asked) >= gap {
			o.asked = now
			m := r.head(ask, o)
			m.macs = r.self.MACs[:min(len(r.self.MACs), mostMACs)]
			r.say(o, &m)
		}
		r.wish(o, now)
	}
}
