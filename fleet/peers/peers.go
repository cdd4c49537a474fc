// SPDX-License-Identifier: Apache-2.0

// Package peers is what the members of a fleet hear of each other without etcd: one BFD session for each member and each
// fabric, and words between members.
//
//	            etcd: records, secret                       (remembered while it is away)
//	                     │
//	Word ──────▶ ┌───────▼───────┐ ──▶ Way.Say ──▶ fabric ──▶ another member
//	Lost, Down ◀─│ Run's sessions │
//	Heard ◀──────└───────────────┘ ◀── Received ◀── fabric ◀── another member
//
// A message is a BFD control packet with a trailer (message.go), secured by a secret that etcd has. It says of how many other
// members the sender hears on each fabric, so that a member can tell that a fabric is lost to it, and not to all (Lost).
package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"causeway/fleet/bfd"
)

// Fabric is one by which members hear each other.
type Fabric uint8

// The fabrics.
const (
	Ethernet Fabric = iota
	InfiniBand
	Fabrics = 2 // how many there are
)

// String returns a fabric's name, as records have it.
func (f Fabric) String() string { return [Fabrics]string{"ethernet", "infiniband"}[f] }

// Address is where a member is reached on a fabric. Only the Way that made it knows what it means.
type Address string

// Way carries messages between members over one fabric. What comes by it is given to Peers.Received.
type Way interface {
	// Say sends a message of at most MaxMessage bytes, which becomes the way's, to a member's address. It does not wait for the
	// network. An error is counted; messages may be lost without one.
	Say(to Address, message []byte) error
}

// Record is what a member says of itself to the others.
type Record struct {
	Process   uint64             `json:"process"`   // as in lease.Record
	Addresses map[string]Address `json:"addresses"` // by fabrics' names
}

// Store is where members find each other.
type Store interface {
	// Founded returns when the fleet was founded, as a number that tells it from one of its name.
	Founded(ctx context.Context) (uint64, error)
	// Secret returns SecretLen bytes that only members know, the same to all, for ever.
	Secret(ctx context.Context) ([]byte, error)
	// PutPeer keeps a member's record, in place of the one before.
	PutPeer(ctx context.Context, member string, r Record) error
	// RemovePeer removes a member's record, if it is still this one.
	RemovePeer(ctx context.Context, member string, r Record) error
	// WatchPeers calls f with all records by members' names, and again after each change, until ctx is done or it fails.
	WatchPeers(ctx context.Context, f func(all map[string]Record)) error
}

// SecretLen is the length of the fleet's secret, in bytes.
const SecretLen = 32

// Defaults of a Config: a member that is not heard is found out after 150 ms.
const (
	DefaultInterval = 50 * time.Millisecond
	DefaultMult     = 3
)

// Config says who a member is.
type Config struct {
	Fleet   string // its name
	Name    string // the member's
	Process uint64 // as in lease.Config
	Ways    [Fabrics]Way
	Store   Store
	// Heard gets the words of other members, on Run's goroutine; it may not block. A word comes once by each fabric, if none is
	// lost, in any order: a word that is heard twice must be as one, and so it must have a counter if the order matters. A word
	// that was recorded is not heard again. Nil: words are not heard.
	Heard    func(member string, process uint64, word []byte)
	Log      *slog.Logger
	Interval time.Duration // between messages of sessions that are up; 0: DefaultInterval
	Mult     uint8         // after how many of them in turn that are lost a session is down; 0: DefaultMult
}

// Peers is the member's part. Run's goroutine changes what mu guards; others read it.
type Peers struct {
	config   Config
	identity atomic.Pointer[identity] // nil: etcd has not told yet
	dropped  [reasons]atomic.Uint64
	inbox    chan *message
	words    chan []byte
	lists    chan map[string]Record
	moved    chan struct{} // the member's own record has changed, or is not there

	mu      sync.Mutex
	own     Record
	members map[string]*member
	names   map[uint64]string          // of members, by their processes
	counts  map[uint64][Fabrics]uint64 // the counter of the last message, by processes, which may come back
	sent    [Fabrics]uint64            // the counter of the last own message
	random  *rand.Rand
	later   []func() // what is to be done without mu: sending, telling, logging
}

// New returns a member's part, which does nothing before Run.
func New(c Config) (*Peers, error) {
	if c.Fleet == "" || c.Name == "" || c.Store == nil || c.Log == nil {
		return nil, errors.New("peers: a member needs a fleet, a name, a store and a log")
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Mult == 0 {
		c.Mult = DefaultMult
	}
	if c.Heard == nil {
		c.Heard = func(string, uint64, []byte) {}
	}
	p := &Peers{config: c, inbox: make(chan *message, 256), words: make(chan []byte, 64), lists: make(chan map[string]Record),
		moved: make(chan struct{}, 1), members: map[string]*member{}, names: map[uint64]string{}, counts: map[uint64][Fabrics]uint64{},
		own: Record{c.Process, map[string]Address{}}, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	if _, err := bfd.New(p.session(1), time.Now()); err != nil {
		return nil, fmt.Errorf("peers: an interval of %v: %w", c.Interval, err)
	}
	return p, nil
}

// session is how a session is that has a discriminator.
func (p *Peers) session(discriminator uint32) bfd.Config {
	return bfd.Config{Discriminator: discriminator, MinTx: p.config.Interval, MinRx: p.config.Interval, Mult: p.config.Mult, Rand: p.random}
}

// detection is after which silence a session is down that was up.
func (p *Peers) detection() time.Duration { return time.Duration(p.config.Mult) * p.config.Interval }

// Reach has others know where the member is reached on a fabric; "": nowhere. Any goroutine may call it, before Run and while
// it runs.
func (p *Peers) Reach(f Fabric, at Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := Record{p.own.Process, map[string]Address{}}
	for name, address := range p.own.Addresses {
		own.Addresses[name] = address
	}
	if own.Addresses[f.String()] = at; at == "" {
		delete(own.Addresses, f.String())
	}
	p.own = own // a record that was taken is never changed
	p.move()
}

// move has the member's record written.
func (p *Peers) move() {
	select {
	case p.moved <- struct{}{}:
	default: // it will be
	}
}

// Received takes what has come by a fabric's way; data stays the caller's. It does not block, and any goroutine may call it.
func (p *Peers) Received(f Fabric, data []byte) {
	id := p.identity.Load()
	if id == nil {
		p.drop(notJoined)
		return
	}
	m, why := id.open(data, f, p.config.Process)
	if why != taken {
		p.drop(why)
		return
	}
	select {
	case p.inbox <- m:
	default:
		p.drop(queueFull)
	}
}

// Word sends a word of at most MaxWord bytes, which stays the caller's, to all members that are known, over all fabrics, at
// once. It does not block, and any goroutine may call it.
func (p *Peers) Word(word []byte) error {
	switch {
	case len(word) > MaxWord:
		return fmt.Errorf("peers: a word of %d bytes; at most %d", len(word), MaxWord)
	case p.identity.Load() == nil:
		return errors.New("peers: etcd has not told the fleet's secret yet, so no word can be said")
	}
	select {
	case p.words <- append([]byte(nil), word...):
		return nil
	default:
		return errors.New("peers: too many words at once; this one was not said")
	}
}
