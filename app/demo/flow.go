// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/stamp"
)

// A flow is a stream of numbered messages, each of which is due once at every receiver.
type flow struct {
	name      string
	path      string // the kind of traffic, for the table
	receivers uint64

	transmit func(number uint64, payload []byte) error

	sent    atomic.Uint64
	arrived atomic.Uint64 // undamaged, each counted once per receiver
	damaged atomic.Uint64
	repeats atomic.Uint64
	failed  atomic.Uint64 // transmissions that the kernel rejected
	trips   trips

	mu   sync.Mutex
	seen []stamp.Sequence // per receiver
}

// due returns how many deliveries the messages sent so far should have.
func (f *flow) due() uint64 { return f.sent.Load() * f.receivers }

func newFlow(name, path string, receivers int) *flow {
	return &flow{name: name, path: path, receivers: uint64(receivers), seen: make([]stamp.Sequence, receivers)}
}

// arrive counts a message at one receiver.
func (f *flow) arrive(receiver int, payload []byte) {
	s, verdict := stamp.Read(payload)
	if verdict != stamp.Whole || s.Number == 0 || s.Number > f.sent.Load() || len(payload) != sizeOf(s.Number) {
		f.damaged.Add(1)
		return
	}
	f.mu.Lock()
	first := f.seen[receiver].Note(s.Number)
	f.mu.Unlock()
	if !first {
		f.repeats.Add(1)
		return
	}
	f.arrived.Add(1)
	f.trips.add(time.Since(s.Sent()))
}

const (
	window = 32               // messages of a flow in flight
	pause  = time.Millisecond // between two messages: this is a demonstration, not a benchmark
	// Without any arrival, after which messages count as lost: the machine may be busy.
	lossTimeout = 5 * time.Second
	// Within that time: a process that stood still has not looked, and may have all in its sockets.
	lossLooks = 500
	pollPause = 500 * time.Microsecond // between checks whether the last messages have arrived
)

// sizes a flow goes through: every pad count, the smallest that carries a number, and InfiniBand's largest.
var sizes = []int{32, 33, 34, 35, 64, 255, 1024, 1025, 2047, 4093, 4096}

// sizeOf returns the size of the message with this number.
func sizeOf(number uint64) int { return sizes[number%uint64(len(sizes))] }

// patience is how long a flow waits for arrivals.
type patience struct {
	arrived uint64
	since   time.Time
	looks   int
}

func newPatience(arrived uint64) patience { return patience{arrived: arrived, since: time.Now()} }

// isOver looks whether anything has arrived.
func (p *patience) isOver(arrived uint64, now time.Time) bool {
	if arrived != p.arrived {
		*p = patience{arrived: arrived, since: now}
	}
	p.looks++
	return now.Sub(p.since) > lossTimeout && p.looks > lossLooks
}

// run sends until ctx ends, with at most window messages in flight, and then waits for the rest.
func (f *flow) run(ctx context.Context) {
	p := newPatience(f.arrived.Load())
	lost := uint64(0)
	for ctx.Err() == nil {
		if f.due() >= f.arrived.Load()+lost+window*f.receivers {
			if p.isOver(f.arrived.Load(), time.Now()) {
				lost = f.due() - f.arrived.Load()
			}
			time.Sleep(pause)
			continue
		}
		f.sendNext()
		time.Sleep(pause)
	}
	p = newPatience(f.arrived.Load())
	for f.arrived.Load() < f.due() && !p.isOver(f.arrived.Load(), time.Now()) {
		time.Sleep(pollPause)
	}
}

func (f *flow) sendNext() {
	number := f.sent.Load() + 1
	payload := stamp.Message(number, sizeOf(number))
	f.sent.Store(number)
	if err := f.transmit(number, payload); err != nil {
		f.failed.Add(1)
	}
}

func runFlows(ctx context.Context, flows []*flow) {
	var all sync.WaitGroup
	for _, f := range flows {
		all.Go(func() { f.run(ctx) })
	}
	all.Wait()
}
