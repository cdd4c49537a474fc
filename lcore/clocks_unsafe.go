// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <rte_cycles.h>
import "C"

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Clocks are those by which a bridge's part of a fleet ends: the TSC, by which workers send nothing more, CLOCK_MONOTONIC, by which
// the process renews it, and CLOCK_BOOTTIME, which runs on while the machine sleeps. In a virtual machine that was paused, restored
// or moved one of them may have stood still or jumped, or run at another rate from then on. It is of one goroutine.
type Clocks struct {
	drift float64 // by which they may run apart
	hz    float64 // of the TSC
	since clockReading
}

// clockReading is all of them, read at one time, or as near to each other as can be had.
type clockReading struct {
	tsc             uint64
	monotonic, boot time.Duration
	within          time.Duration // which it took
}

// apart is what two readings of clocks that run alike may differ by for other reasons than the time that they took.
const apart = 20 * time.Microsecond

// NewClocks measures the TSC's rate, for some tens of milliseconds. drift is how far one second of two clocks may differ, in seconds.
func NewClocks(drift float64) *Clocks {
	const precise, patience = 2000, time.Second
	c := &Clocks{drift: drift}
	begin := c.read()
	for {
		time.Sleep(50 * time.Millisecond)
		c.since = c.read()
		elapsed := c.since.monotonic - begin.monotonic
		c.hz = float64(c.since.tsc-begin.tsc) / elapsed.Seconds()
		if precise*(begin.within+c.since.within) < elapsed || elapsed > patience {
			return c
		}
	}
}

// read reads the clocks, again when something came between.
func (c *Clocks) read() (r clockReading) {
	for range 8 {
		var monotonic, boot unix.Timespec
		from := uint64(C.rte_rdtsc())
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) // there is one, and the other
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
		now := clockReading{uint64(C.rte_rdtsc()), time.Duration(monotonic.Nano()), time.Duration(boot.Nano()), 0}
		now.within = time.Duration(float64(now.tsc-from) / float64(C.rte_get_tsc_hz()) * 1e9)
		if r.tsc == 0 || now.within < r.within {
			r = now
		}
		if r.within < apart/2 {
			break
		}
	}
	return r
}

// Agree returns how the clocks have run apart since the last call, or in a tenth of a second before; nil: they have not.
func (c *Clocks) Agree() error {
	now := c.read()
	err := c.compare(&c.since, &now)
	if err != nil || now.monotonic-c.since.monotonic > 100*time.Millisecond && now.within < apart {
		c.since = now
	}
	return err
}

// compare returns how clocks have run apart between two readings.
func (c *Clocks) compare(from, to *clockReading) error {
	monotonic, boot := to.monotonic-from.monotonic, to.boot-from.boot
	tsc := time.Duration(float64(int64(to.tsc-from.tsc)) / c.hz * 1e9)
	may := time.Duration(c.drift*max(monotonic, boot, tsc).Seconds()*1e9) + from.within + to.within + apart
	if max((tsc-monotonic).Abs(), (boot-monotonic).Abs(), (tsc-boot).Abs()) <= may {
		return nil
	}
	return fmt.Errorf("lcore: the TSC has run for %v, CLOCK_MONOTONIC for %v, and CLOCK_BOOTTIME for %v; they may differ by %v", tsc, monotonic, boot, may)
}
