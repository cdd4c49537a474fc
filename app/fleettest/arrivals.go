// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"sync/atomic"
	"time"

	"causeway/ibside/stamp"
	"causeway/lcore/frame/roce"
)

// course is what is known of a stream: which way it goes, the highest number that was sent, and those that have come to its
// receiver, in their order.
type course struct {
	toIB bool
	sent uint64
	came []uint64
}

// arrivesIn is how long any stream may take to pass again after all that has happened, on a busy machine.
const arrivesIn = 3 * time.Minute

// Arrive notes a message that has come to its receiver. What passes a receiver of the other side on its way to the members is not
// meant.
func (c *Capture) Arrive(payload []byte, toIB bool) {
	s, v := stamp.Read(payload)
	if v == stamp.Damaged {
		c.t.Errorf("a message has come damaged: %+v", s)
	}
	if v != stamp.Whole {
		return // of the bridges' management
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.courses[c.stream(s, toIB)]; x != nil && x.toIB == toIB {
		x.came = append(x.came, s.Number)
	}
}

// Receiver has what comes to an interface of a host arrive there. at runs what it is given in the host's network namespace.
func (c *Capture) Receiver(at func(func() error) error, port string) {
	c.t.Helper()
	c.read(at, port, func(p *roce.Packet, _ time.Time) { c.Arrive(p.Payload, false) })
}

// Boundary returns the highest number of each stream that was sent until now, once a higher one of each stream has come, and all
// that ports had sent before is captured: what has not come then up to these numbers, is lost.
func (c *Capture) Boundary() map[uint32]uint64 {
	c.t.Helper()
	c.mu.Lock()
	until := map[uint32]uint64{}
	for id, x := range c.courses {
		until[id] = x.sent
	}
	c.mu.Unlock()
	c.await("a stream does not pass", func() bool { return c.passed(until) })
	now := time.Now().UnixNano()
	c.await("a capture stands still", func() bool { return c.readAll(now) })
	return until
}

func (c *Capture) await(not string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(arrivesIn); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal(not)
		}
	}
}

// passed reports whether a higher number of each stream has come.
func (c *Capture) passed(until map[uint32]uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, number := range until {
		if came := c.courses[id].came; len(came) == 0 || came[len(came)-1] <= number {
			return false
		}
	}
	return true
}

// readAll reports whether all sockets were read up to a time.
func (c *Capture) readAll(until int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, read := range c.readers {
		if read.Load() < until {
			return false
		}
	}
	return true
}

// reader returns what a new reader of a socket tells there how far it has read.
func (c *Capture) reader() *atomic.Int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := new(atomic.Int64)
	c.readers = append(c.readers, read)
	return read
}

// Came returns of what has come, and was not returned before, what came before the first number beyond until, by streams.
func (c *Capture) Came(until map[uint32]uint64) map[uint32][]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[uint32][]uint64{}
	for id, x := range c.courses {
		n := 0
		for n < len(x.came) && x.came[n] <= until[id] {
			n++
		}
		all[id], x.came = x.came[:n:n], x.came[n:]
	}
	return all
}
