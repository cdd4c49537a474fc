// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"time"

	"causeway/fleet/shards"
)

// Gate is what forwards: the workers. It has no shard open at first, and its deadline has passed. A member calls it from one
// goroutine.
type Gate interface {
	// Open has shards forwarded while the deadline has not passed; of those that are held, first what was kept, but for what
	// was forwarded. Nil: nobody knows what was, and what was kept is dropped.
	Open(all []shards.Shard, forwarded Forwarded)
	// Close returns when nothing forwards these shards any more.
	Close(all []shards.Shard)
	// Leave has open shards forwarded as before, and noted what; no host is told any more that it reaches them here. False: they
	// are not forwarded, for want of a fabric, and nothing has changed.
	Leave(all []shards.Shard) bool
	// Stay has shards no more left that Leave has named: they cannot pass now to those members without a loss.
	Stay(all []shards.Shard, successors []string)
	// Left closes the shards that Leave has named, as Close does, and returns what was forwarded of them since, when it has left
	// the bridge; nil: it is too much, or has not in time.
	// Late are the members that have not said that they hold theirs.
	Left(late []string) Forwarded
	// Hold returns when what comes of shards that are not open is kept. False: that takes too long, and nothing is held.
	Hold(all []shards.Shard) bool
	// Attract has hosts reach shards here that are held.
	Attract(all []shards.Shard)
	// Drop drops what was kept of shards, and holds them no more.
	Drop(all []shards.Shard)
	// Until moves the deadline, a time of the member's Clock. Whoever forwards compares it with his own reading of that clock.
	Until(deadline time.Time)
}

// Clock is monotonic, and runs on while the process is stopped.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
	// Agree reports whether it has run like the other clocks of the machine since the last call. Else the machine may have been
	// paused, restored or moved, and nobody knows for how long.
	Agree() bool
}

// SystemClock is the machine's monotonic clock.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// After implements Clock.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Agree implements Clock: it is compared with no other.
func (SystemClock) Agree() bool { return true }

// Defaults of a Config.
const (
	DefaultLease = time.Second
	// DefaultDrift is ten times what a crystal is allowed, and twice what NTP may slew.
	DefaultDrift = 1e-3
)

// Config says who a member is. All members of a fleet must have the same Lease and Drift.
type Config struct {
	Name   string
	Weight float64 // as that of a shards.Member
	// Process is another number at each Run. One process at a time may have a name: whoever starts a process knows
	// that the one before it has died.
	Process uint64
	Where   string // as in Record
	Store   Store
	Gate    Gate
	Clock   Clock         // nil: SystemClock
	Lease   time.Duration // how long a renewal lets a member forward; 0: DefaultLease
	// Drift is how much faster or slower than true time any member's clock may run; 0: DefaultDrift.
	Drift float64
	// Say tells all other members a word, of at most 64 bytes and this goroutine's, by whatever ways there are but the store. They
	// give it to Member.Heard. With it the member goes on without the store while all others promise to propose nothing, if they
	// all have it; such a name must not be another process's that may be alive. Nil: there is no way. It may not block.
	Say func(word []byte)
	// Gone reports whether the process that was there (Record.Where) has ended for certain. Nil: that is never known. It may not
	// block.
	Gone func(where string) bool
	// Suspect says that a member is believed dead, for whatever reason. One that has not renewed for long either is left out of
	// plans then. That only starts a take-over: it opens no shard. Nil: none is. It is called from the member's goroutine and
	// may not block.
	Suspect func(name string) bool
}

func (c *Config) complete() error {
	if c.Name == "" || c.Store == nil || c.Gate == nil {
		return errors.New("lease: a member needs a name, a store and a gate")
	}
	if err := shards.Check([]shards.Member{{Name: c.Name, Weight: max(c.Weight, 1)}}); err != nil || c.Weight < 0 {
		return fmt.Errorf("lease: member %s has weight %v; see shards.Member", c.Name, c.Weight)
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Drift == 0 {
		c.Drift = DefaultDrift
	}
	if c.Lease < 0 || c.Drift < 0 || c.Drift > 0.1 {
		return fmt.Errorf("lease: a lease of %v with a drift of %v; write a positive time, and a drift of at most 0.1", c.Lease, c.Drift)
	}
	if c.Clock == nil {
		c.Clock = SystemClock{}
	}
	if c.Gone == nil {
		c.Gone = func(string) bool { return false }
	}
	if c.Suspect == nil {
		c.Suspect = func(string) bool { return false }
	}
	return nil
}

// interval is the time between renewals: four may be lost before a lease runs out.
func (c *Config) interval() time.Duration { return c.Lease / 5 }

// silence is how long nothing must have been seen of a process until its lease has run out by any clock. A lease lasts at
// most Lease/(1-Drift) of true time, in which this clock advances by at most (1+Drift) times that. The hundredth of a
// lease on top covers Drift's square, a worker's last burst, and readings of coarse clocks.
func (c *Config) silence() time.Duration {
	return c.Lease + time.Duration(2*c.Drift*float64(c.Lease)) + c.Lease/100 + time.Duration(4*c.Drift*c.Drift*float64(c.Lease))
}

// holding is how long a member holds what another leaves at most: as long as that one may take to propose that it passes, and longer.
func (c *Config) holding() time.Duration { return 2*c.drainTime() + c.Lease }
