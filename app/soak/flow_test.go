// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"causeway/ibside/stamp"
)

const (
	window     = 16                     // messages of a flow under way: so few that no queue overruns
	pause      = 2 * time.Millisecond   // between two messages of a flow
	probeFor   = 500 * time.Millisecond // until another probe is sent
	stalledFor = time.Minute            // without any arrival, in spite of messages under way: they are lost
)

// A flow is a stream of numbered messages, each due once, in order, at every receiver. It is paced by arrivals.
//
// It is steady, and then every loss is a fault of the bridge; or shaken, by something that may cost messages; or, after
// that and at first, it probes: one message at a time until one arrives everywhere.
type flow struct {
	name, kind string
	stream     uint32
	sizes      []int
	at         map[string]int // the receivers, by name
	from       netip.Addr     // at a host: the sender; the zero Addr: there is none
	in         *partition     // nil: it has receivers in several
	host, node int            // at its ends
	group      netip.Addr     // the zero Addr: unicast
	toHosts    bool           // one way, from the node
	numbered   bool           // every message has immediate data, which tells copies
	stays      bool           // as long as the soak
	transmit   func(number uint64, payload []byte) error

	mu        sync.Mutex
	state     flowState
	receivers []receiver
	sent      uint64
	under     map[uint64]*underWay
	orderFrom uint64    // numbers from here on must arrive in order
	cut       uint64    // while probing: only messages above count
	heard     time.Time // of the last arrival, or the beginning of waiting for one
	paused    bool
	tally     tally
	faults    []string
}

type flowState int

const (
	probing flowState = iota
	steady
	shaken
)

// A receiver has what one receiver has noticed.
type receiver struct {
	seen    stamp.Sequence
	highest uint64
}

// underWay is a message that has not arrived everywhere.
type underWay struct {
	at      time.Time
	missing uint64 // a bit for each receiver
}

// A tally counts messages, and their arrivals at receivers.
type tally struct {
	sent, arrived uint64
	excused       uint64 // lost while shaken or probing
	unsent        uint64 // the kernel or the adapter did not take them
}

func (t *tally) add(o tally) {
	t.sent += o.sent
	t.arrived += o.arrived
	t.excused += o.excused
	t.unsent += o.unsent
}

func newFlow(name, kind string, stream uint32, receivers int, sizes []int) *flow {
	return &flow{name: name, kind: kind, stream: stream, sizes: sizes, receivers: make([]receiver, receivers),
		at: map[string]int{}, under: map[uint64]*underWay{}, orderFrom: ^uint64(0), heard: time.Now()}
}

// fault records what the bridge did wrong. The caller holds the lock.
func (f *flow) fault(format string, args ...any) {
	const most = 20
	if len(f.faults) < most {
		f.faults = append(f.faults, fmt.Sprintf("%s, %s (%s): ", time.Now().Format("15:04:05.000"), f.name, f.kind)+fmt.Sprintf(format, args...))
	}
}

func (f *flow) sizeOf(number uint64) int { return f.sizes[number%uint64(len(f.sizes))] }

// run sends until ctx ends.
func (f *flow) run(ctx context.Context) {
	for ctx.Err() == nil {
		if number, ok := f.next(time.Now()); ok {
			if err := f.transmit(number, stampedBy(f, number)); err != nil {
				f.unsent(number, err)
			}
		}
		time.Sleep(pause)
	}
}

// stampedBy returns a message of a flow.
func stampedBy(f *flow, number uint64) []byte {
	b := make([]byte, f.sizeOf(number))
	if len(b) < stamp.Len {
		stamp.Fill(b, uint16(len(b)))
		return b
	}
	s := stamp.Stamp{Stream: f.stream, Number: number, Time: stamp.Now(), Seed: uint16(number)}
	stamp.Fill(b, s.Seed)
	s.Put(b)
	return b
}

// next returns the number to send now, and false when there is none to send.
func (f *flow) next(now time.Time) (uint64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writeOff(now)
	room := window
	if f.state == probing {
		room = 1
	}
	if f.paused || len(f.under) >= room {
		return 0, false
	}
	if len(f.under) == 0 {
		f.heard = now
	}
	f.sent++
	f.tally.sent++
	f.under[f.sent] = &underWay{now, 1<<len(f.receivers) - 1}
	return f.sent, true
}

// unsent takes back a message that did not leave its sender. That is no loss of the bridge.
func (f *flow) unsent(number uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == steady {
		f.fault("message %d could not be sent: %v", number, err)
	}
	f.tally.unsent++
	delete(f.under, number)
}

// writeOff gives up messages for which nobody waits any longer.
func (f *flow) writeOff(now time.Time) {
	if f.state == steady {
		if len(f.under) > 0 && now.Sub(f.heard) > stalledFor {
			f.fault("nothing has arrived for %v; messages %d are under way", stalledFor, slices.Sorted(maps.Keys(f.under)))
			f.shakeLocked(true)
		}
		return
	}
	for number, u := range f.under {
		if now.Sub(u.at) > probeFor {
			f.lose(number, u)
		}
	}
}

// lose gives up a message.
func (f *flow) lose(number uint64, u *underWay) {
	for i := range f.receivers {
		if u.missing>>i&1 != 0 {
			f.tally.excused++
		}
	}
	delete(f.under, number)
}

// A message is what a receiver has of one.
type message struct {
	payload []byte
	hasImm  bool
	imm     uint32
}

// arrive takes a message that has come to a receiver. One without a stamp has the low bits of its number in its
// immediate data.
func (f *flow) arrive(at int, m message) {
	payload := m.payload
	s, verdict := stamp.Read(payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	number := s.Number
	if verdict == stamp.Short {
		number = f.sent - (f.sent-uint64(m.imm))&(1<<immNumberBits-1)
	}
	switch {
	case !verdict.Intact() || len(payload) != f.sizeOf(number) || verdict == stamp.Whole && s.Stream != f.stream:
		f.fault("a message of %d bytes is damaged, or another flow's: verdict %d, %+v", len(payload), verdict, s)
		return
	case number == 0 || number > f.sent:
		f.fault("message %d has arrived, of %d that were sent", number, f.sent)
		return
	}
	if imm, has := f.immOf(number, len(payload)); has != m.hasImm || has && imm != m.imm {
		f.fault("message %d has arrived with the immediate data %#x (%v), not %#x (%v)", number, m.imm, m.hasImm, imm, has)
		return
	}
	r := &f.receivers[at]
	if !r.seen.Note(number) {
		f.fault("message %d has arrived again at receiver %d; the highest was %d", number, at, r.highest)
		return
	}
	if number < r.highest && number >= f.orderFrom {
		f.fault("message %d has arrived at receiver %d after message %d", number, at, r.highest)
	}
	r.highest = max(r.highest, number)
	f.heard = time.Now()
	f.settle(at, number)
}

// settle counts an arrival. What is under way to the same receiver with lower numbers is lost: messages keep their
// order.
func (f *flow) settle(at int, number uint64) {
	f.tally.arrived++
	u := f.under[number]
	if u == nil { // written off, and late
		f.tally.excused -= min(f.tally.excused, 1)
		return
	}
	if f.state == steady {
		for n, lower := range f.under {
			if n < number && lower.missing>>at&1 != 0 {
				f.fault("message %d is lost on its way to receiver %d: %d has arrived, sent %v after it", n, at, number, u.at.Sub(lower.at))
				delete(f.under, n)
			}
		}
	}
	if u.missing &^= 1 << at; u.missing != 0 {
		return
	}
	delete(f.under, number)
	if f.state == probing && number > f.cut {
		f.state, f.orderFrom = steady, f.sent+1
	}
}

// shake begins a time in which messages may be lost; unless ordered, also overtaken, because their proxy QPs are made
// anew.
func (f *flow) shake(ordered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shakeLocked(ordered)
}

func (f *flow) shakeLocked(ordered bool) {
	f.state = shaken
	if !ordered {
		f.orderFrom = ^uint64(0)
	}
}

// probe ends that time. From now on the flow must find its way again.
func (f *flow) probe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == shaken {
		f.state, f.cut, f.orderFrom = probing, f.sent, ^uint64(0)
	}
}

// is reports the flow's state.
func (f *flow) is(s flowState) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state == s
}

// setPaused stops sending, or goes on.
func (f *flow) setPaused(p bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = p
	f.heard = time.Now()
}

// idle reports whether nothing is under way.
func (f *flow) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writeOff(time.Now())
	return len(f.under) == 0
}

// count returns the tally.
func (f *flow) count() tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally
}
