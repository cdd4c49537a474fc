// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A pacer says when each burst is due: at a fixed distance from the start, so that no lateness adds up.
type pacer struct {
	start  time.Duration // by the clock
	step   float64       // between bursts, nanoseconds; 0: at once
	bursts uint64
	lost   time.Duration // that was given up on: the sender could not keep up

	now   func() time.Duration
	sleep func(until time.Duration)
}

const (
	// catchUp is the most lateness that is made up for: what a sender missed while its machine slept must not come as a flood.
	catchUp = time.Second
	// doze is how long at most the pacer does not look whether it is to stop.
	doze = 50 * time.Millisecond
)

// newPacer makes the pacer of a thread: its goroutine must stay on it until the function that it returns is called. rate is
// in messages a second, 0 for as fast as can be.
func newPacer(rate float64, burst int) (p *pacer, release func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // nanoseconds; 50 microseconds otherwise, which also do
	p = &pacer{now: monotonic, sleep: sleepUntil}
	if rate > 0 {
		p.step = float64(burst) / rate * float64(time.Second)
	}
	p.start = p.now()
	return p, runtime.UnlockOSThread
}

// monotonic and sleepUntil are of CLOCK_MONOTONIC. time.Sleep may be a millisecond late, which is a hundred messages at
// 100k a second.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it fails for unknown clocks only
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
		p.sleep(min(due, now+doze))
	}
}
