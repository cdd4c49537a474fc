// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/fabric"
)

// A flow is a stream of numbered messages, each of which is due once at every receiver.
type flow struct {
	name      string
	path      string // what the messages do, for the table
	receivers uint64

	transmit func(number uint64, payload []byte) error

	sent    atomic.Uint64
	arrived atomic.Uint64 // as they were sent, each once per receiver
	damaged atomic.Uint64
	repeats atomic.Uint64
	failed  atomic.Uint64 // transmissions that the kernel refused
	seen    []seen        // per receiver
	trips   trips
}

// due is how many arrivals the messages sent so far owe.
func (f *flow) due() uint64 { return f.sent.Load() * f.receivers }

// seen remembers which numbers a receiver has had, a bit each.
type seen struct {
	mu   sync.Mutex
	bits []uint64
}

// first notes a number and reports whether it is new. Numbers are at most what has been sent.
func (s *seen) first(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	word, bit := number/64, uint64(1)<<(number%64)
	for uint64(len(s.bits)) <= word {
		s.bits = append(s.bits, 0)
	}
	if s.bits[word]&bit != 0 {
		return false
	}
	s.bits[word] |= bit
	return true
}

func newFlow(name, path string, receivers int) *flow {
	return &flow{name: name, path: path, receivers: uint64(receivers), seen: make([]seen, receivers)}
}

// arrive accounts for a message at one receiver. It reports its number, and whether it is the first with it.
func (f *flow) arrive(receiver int, payload []byte) (number uint64, first bool) {
	number, stamped, whole := fabric.ReadStamp(payload)
	if !stamped || !whole || number == 0 || number > f.sent.Load() || len(payload) != sizeOf(number) {
		f.damaged.Add(1)
		return 0, false
	}
	if !f.seen[receiver].first(number) {
		f.repeats.Add(1)
		return number, false
	}
	f.arrived.Add(1)
	return number, true
}

const (
	window    = 32                     // messages of a flow that may be on their way
	pause     = time.Millisecond       // between two of them: it is a demonstration, not a benchmark
	patience  = 5 * time.Second        // without any arrival, after which messages count as lost: the machine may be busy
	lastWords = 500 * time.Microsecond // between looks at what is still on its way
)

// sizes a flow goes through: every pad count, the smallest that carries a number, and InfiniBand's largest.
var sizes = []int{16, 17, 18, 19, 64, 255, 1024, 1025, 2047, 4093, 4096}

// sizeOf returns the size of the message of that number.
func sizeOf(number uint64) int { return sizes[number%uint64(len(sizes))] }

// run sends until ctx ends, never more than the window ahead of what arrives, and then waits for the rest.
func (f *flow) run(ctx context.Context) {
	progress, at := f.arrived.Load(), time.Now()
	lost := uint64(0) // given up
	stuck := func() bool {
		if now := f.arrived.Load(); now != progress {
			progress, at = now, time.Now()
		}
		return time.Since(at) > patience
	}
	for ctx.Err() == nil {
		if f.due() >= f.arrived.Load()+lost+window*f.receivers {
			if stuck() {
				lost = f.due() - f.arrived.Load()
			}
			time.Sleep(pause)
			continue
		}
		f.sendNext()
		time.Sleep(pause)
	}
	for at = time.Now(); f.arrived.Load() < f.due() && !stuck(); time.Sleep(lastWords) {
	}
}

func (f *flow) sendNext() {
	number := f.sent.Load() + 1
	payload := fabric.AppendStamped(nil, number, sizeOf(number))
	f.trips.begin(number)
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
