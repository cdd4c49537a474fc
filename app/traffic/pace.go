// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A pacer waits for each burst's deadline. Deadlines count from the start, so that delays do not add up.
type pacer struct {
	start  time.Duration // of CLOCK_MONOTONIC
	step   float64       // between bursts, nanoseconds; 0: none
	bursts uint64
	lost   time.Duration // skipped, because the sender could not keep up

	now   func() time.Duration
	sleep func(until time.Duration)
}

const (
	// catchUp is the most delay that is made up for: after its machine has slept, a sender must not flood the network.
	catchUp = time.Second
	// maxSleep is how late the end of the context may be noticed.
	maxSleep = 50 * time.Millisecond
)

// newPacer locks the goroutine to its thread, until release is called, and returns its pacer. rate is in messages a
// second; 0: as fast as possible.
func newPacer(rate float64, burst int) (p *pacer, release func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // nanoseconds; an error leaves the default, 50 microseconds
	p = &pacer{now: monotonic, sleep: sleepUntil}
	if rate > 0 {
		p.step = float64(burst) / rate * float64(time.Second)
	}
	p.start = p.now()
	return p, runtime.UnlockOSThread
}

// monotonic and sleepUntil use CLOCK_MONOTONIC. time.Sleep may be a millisecond late: a hundred messages at 100k a
// second.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for unknown clocks only
	return time.Duration(t.Nano())
}

func sleepUntil(until time.Duration) {
	t := unix.NsecToTimespec(int64(until))
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil), unix.EINTR) {
	}
}

// wait waits until the next burst is due. It returns an error when ctx ends first.
func (p *pacer) wait(ctx context.Context) error {
	due := p.start + time.Duration(float64(p.bursts)*p.step)
	p.bursts++
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := p.now()
		if p.step == 0 || now >= due {
			if late := now - due - catchUp; p.step > 0 && late > 0 {
				p.start += late
				p.lost += late
			}
			return nil
		}
		p.sleep(min(due, now+maxSleep))
	}
}
