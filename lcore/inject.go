// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "setup.h"
import "C"

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// MaxInjectedDelay is the longest time for which a packet can be held up.
const MaxInjectedDelay = 10 * time.Second

// Injection is what is done on purpose to the packets that enter a direction, before the bridge has looked at them:
// management's frames and packets that are to be dropped are among them. The zero value does nothing.
//
// All choices are made for each packet by itself: of those that are not dropped, some are doubled, and the first of the
// two goes at once. A packet that is held up is not put behind its successor as well. A worker holds 4096 packets, and
// all together an eighth of the mempool; those for which there is no room go at once.
type Injection struct {
	Drop       float64       // share of packets, 0 to 1, that are dropped as "injected"
	Duplicate  float64       // share that comes twice: the second counts as received, too
	Reorder    float64       // share that the next packet overtakes, when one comes within 5 ms
	DelayShare float64       // share that is held up, and counts as received afterwards
	Delay      time.Duration // for so long
	Seed       uint64        // the same packets meet the same fates with the same seed; each worker draws by itself
}

// Validate says in one line what is wrong.
func (i Injection) Validate() error {
	for _, x := range []struct {
		name  string
		share float64
	}{{"drop", i.Drop}, {"duplicate", i.Duplicate}, {"reorder", i.Reorder}, {"delayed", i.DelayShare}} {
		if !(x.share >= 0 && x.share <= 1) {
			return fmt.Errorf("lcore: the share of packets to %s is %v; give 0 to 1", x.name, x.share)
		}
	}
	switch {
	case i.Delay < 0 || i.Delay > MaxInjectedDelay:
		return fmt.Errorf("lcore: packets cannot be held up for %v; give 0 to %v", i.Delay, MaxInjectedDelay)
	case i.DelayShare > 0 && i.Delay == 0:
		return fmt.Errorf("lcore: a share of %v is to be held up, but for no time; give a delay", i.DelayShare)
	case i.DelayShare == 0 && i.Delay > 0:
		return fmt.Errorf("lcore: a delay of %v, but no packets to hold up; give their share", i.Delay)
	}
	return nil
}

// share is how C has it: of 2^32.
func share(x float64) C.uint64_t { return C.uint64_t(x * (1 << 32)) }

func (i Injection) settings(workers int) C.struct_inject_settings {
	hi, lo := bits.Mul64(uint64(i.Delay), TSCHz())
	cycles, _ := bits.Div64(hi, lo, uint64(time.Second))
	return C.struct_inject_settings{
		drop: share(i.Drop), duplicate: share(i.Duplicate), reorder: share(i.Reorder), delay_share: share(i.DelayShare),
		delay: C.uint64_t(cycles), seed: C.uint64_t(i.Seed), workers: C.uint32_t(workers),
	}
}

// injections are those in force, by direction.
type injections struct {
	mu  sync.Mutex
	set [2]Injection
}

// Inject has all workers do this to the packets of a direction, from their next rounds on, in place of what they did
// before: what that holds up is let out first. On an error nothing changes. It may be called while workers run; what is
// held when a worker stops is worked off.
func (b *Bench) Inject(d Direction, i Injection) error {
	if d != RoCEToIB && d != IBToRoCE {
		return fmt.Errorf("lcore: there is no direction %d to inject into", int(d))
	}
	if err := i.Validate(); err != nil {
		return err
	}
	b.inject.mu.Lock()
	defer b.inject.mu.Unlock()
	settings := i.settings(len(b.workers))
	made := make([]*C.struct_inject, 0, len(b.workers))
	for id := range b.workers {
		x := C.inject_new(&settings, C.uint(id), C.enum_direction(d))
		if x == nil {
			for _, x := range made {
				C.inject_discard(x)
			}
			return errors.New("lcore: no memory for the packets that injection holds up")
		}
		made = append(made, x)
	}
	for id, w := range b.workers {
		C.inject_put(w.c, C.enum_direction(d), made[id])
	}
	b.inject.set[d] = i
	return nil
}

// Injections returns what is in force, by direction.
func (b *Bench) Injections() [2]Injection {
	b.inject.mu.Lock()
	defer b.inject.mu.Unlock()
	return b.inject.set
}
