// SPDX-License-Identifier: Apache-2.0

package inbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/lcore/manage/inbox"
)

var (
	errEnded = errors.New("ended")
	errDone  = errors.New("done")
)

// loop takes work from an inbox until ctx ends.
func loop(ctx context.Context, b *inbox.Inbox) {
	defer b.End()
	for ctx.Err() == nil {
		select {
		case f := <-b.C():
			f()
		case <-ctx.Done():
		}
	}
}

// TestDo checks that an error means that the function was not run, whichever context ends first.
func TestDo(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name             string
		busy, work       time.Duration // how long the loop is busy before, and how long the function takes
		patience, ending time.Duration // how long the caller waits, and when the loop ends
		want             error
		done             bool
	}{
		{"at once", 0, 0, s, time.Hour, errDone, true},
		{"the loop is busy", 5 * s, 0, 10 * s, time.Hour, errDone, true},
		{"the loop is busy for too long", 5 * s, 0, 2 * s, time.Hour, context.DeadlineExceeded, false},
		{"it has begun", 0, 5 * s, 2 * s, time.Hour, errDone, true},
		{"the loop ends before", 5 * s, 0, 10 * s, 3 * s, errEnded, false},
		{"the loop ends with it", 0, 5 * s, 10 * s, 3 * s, errDone, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inbox.New(4, errEnded)
				running, end := context.WithTimeout(t.Context(), c.ending)
				defer end()
				b.Later(running, func() { time.Sleep(c.busy) })
				go loop(running, b)
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				done := false
				err := b.Do(ctx, func() error {
					done = true
					time.Sleep(c.work)
					return errDone
				})
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				time.Sleep(time.Minute) // until all that is left has been done
				end()
				if done != c.done {
					t.Errorf("done: %v", done)
				}
			})
		})
	}
}

// TestFull checks that Do waits for room no longer than its context, and no longer than the loop runs.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inbox.New(1, errEnded)
		nothing := func() error { return nil }
		b.Later(t.Context(), func() {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if b.Later(ctx, func() {}) {
			t.Error("taken without room")
		}
		if err := b.Do(ctx, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		b.End()
		if err := b.Do(t.Context(), nothing); !errors.Is(err, errEnded) {
			t.Error(err)
		}
	})
}

// TestTell checks that all functions that goroutines pass to Tell are run, before the end of the loop or after it.
func TestTell(t *testing.T) {
	b, told := inbox.New(8, errEnded), 0
	running, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { b.Tell(running, func() { told++ }) })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop(running, b)
	}()
	end()
	all.Wait()
	<-ended
	b.DoPending()
	b.DoLate()
	if told != 100 {
		t.Errorf("told %d", told)
	}
	b.DoLate()
	if told != 100 {
		t.Error("told twice")
	}
}

// TestTry checks that a full inbox, and one of a loop that has ended, take nothing, and that nothing waits.
func TestTry(t *testing.T) {
	b, n := inbox.New(2, errEnded), 0
	for i, want := range []bool{true, true, false} {
		if got := b.Try(func() { n++ }); got != want {
			t.Errorf("function %d is taken: %t", i, got)
		}
	}
	if b.DoPending(); n != 2 || !b.Try(func() { n++ }) {
		t.Errorf("%d were run", n)
	}
	b.DoPending()
	if b.End(); b.Try(func() {}) {
		t.Error("the loop has ended, and takes another one")
	}
}

// TestBefore checks that something else runs before each function, in both ways to run one.
func TestBefore(t *testing.T) {
	b, did := inbox.New(2, errEnded), ""
	b.Before = func() { did += "before " }
	b.Try(func() { did += "one " })
	b.Try(func() { did += "two " })
	b.DoPending()
	b.Try(func() { did += "three" })
	if b.Run(<-b.C()); did != "before one before two before three" {
		t.Error(did)
	}
}
