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

// MaxInjectedDelay is the longest delay of a packet.
const MaxInjectedDelay = 10 * time.Second

// Injection says which faults are injected into the packets of a direction, before they are parsed: frames for
// management and packets that will be dropped anyway are among them. The zero value does nothing.
//
// Each packet is chosen independently: of those that are not dropped, some are duplicated, and the first of the two
// passes at once. A packet that is delayed is not reordered as well. A worker delays at most 4096 packets, and all
// together an eighth of the mempool; a packet for which there is no room passes at once.
type Injection struct {
	Drop       float64       // share of packets, 0 to 1, that are dropped as "injected"
	Duplicate  float64       // share that is duplicated: the duplicate counts as received, too
	Reorder    float64       // share that the next packet overtakes, when one comes within 5 ms
	DelayShare float64       // share that is delayed, and counts as received afterwards
	Delay      time.Duration // of those
	Seed       uint64        // the same packets and seed give the same faults; each worker has its own random sequence
}

// Validate reports in one line what is wrong.
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
		return fmt.Errorf("lcore: packets cannot be delayed for %v; give 0 to %v", i.Delay, MaxInjectedDelay)
	case i.DelayShare > 0 && i.Delay == 0:
		return fmt.Errorf("lcore: a share of %v is to be delayed, but for no time; give a delay", i.DelayShare)
	case i.DelayShare == 0 && i.Delay > 0:
		return fmt.Errorf("lcore: a delay of %v, but no packets to hold up; give their share", i.Delay)
	}
	return nil
}

// share converts a share to units of 2^-32, as C has it.
func share(x float64) C.uint64_t { return C.uint64_t(x * (1 << 32)) }

func (i Injection) settings(workers int) C.struct_inject_settings {
	hi, lo := bits.Mul64(uint64(i.Delay), TSCHz())
	cycles, _ := bits.Div64(hi, lo, uint64(time.Second))
	return C.struct_inject_settings{
		drop: share(i.Drop), duplicate: share(i.Duplicate), reorder: share(i.Reorder), delay_share: share(i.DelayShare),
		delay: C.uint64_t(cycles), seed: C.uint64_t(i.Seed), workers: C.uint32_t(workers),
	}
}

// injections are the current ones, by direction.
type injections struct {
	mu  sync.Mutex
	set [2]Injection
}

// Inject replaces the injection of a direction in all workers, from their next burst on. Packets that the old one
// delays are released first. On an error nothing changes. It may be called while workers run; packets that are delayed
// when a worker stops are released, too.
func (dp *Datapath) Inject(d Direction, i Injection) error {
	if d != RoCEToIB && d != IBToRoCE {
		return fmt.Errorf("lcore: there is no direction %d to inject into", int(d))
	}
	if err := i.Validate(); err != nil {
		return err
	}
	dp.inject.mu.Lock()
	defer dp.inject.mu.Unlock()
	settings := i.settings(len(dp.workers))
	made := make([]*C.struct_inject, 0, len(dp.workers))
	for id := range dp.workers {
		x := C.inject_new(&settings, C.uint(id), C.enum_direction(d))
		if x == nil {
			for _, x := range made {
				C.inject_discard(x)
			}
			return errors.New("lcore: no memory for the packets that injection holds up")
		}
		made = append(made, x)
	}
	for id, w := range dp.workers {
		C.inject_put(w.c, C.enum_direction(d), made[id])
	}
	dp.inject.set[d] = i
	return nil
}

// Injections returns the current injections, by direction.
func (dp *Datapath) Injections() [2]Injection {
	dp.inject.mu.Lock()
	defer dp.inject.mu.Unlock()
	return dp.inject.set
}
