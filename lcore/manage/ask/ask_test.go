// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
)

// TestAsk checks that a request is repeated with back-off until it succeeds, and not after its context has ended.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask.New(inbox.New(1, errors.New("ended")))
		running, stop := context.WithCancel(context.Background())
		a.Start(running)
		var at []time.Duration
		began := time.Now()
		a.Ask(running, func(context.Context) error {
			if at = append(at, time.Since(began)); len(at) < 4 {
				return errors.New("busy")
			}
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(at) != 4 || at[0] != 0 || at[1] < 75*time.Millisecond || at[3] > 875*time.Millisecond {
			t.Errorf("tries at %v", at)
		}
		tries := 0
		a.Ask(running, func(context.Context) error { tries++; return errors.New("never") })
		time.Sleep(time.Second)
		stop()
		a.Wait()
		was := tries
		time.Sleep(time.Minute)
		if was < 2 || tries != was {
			t.Errorf("%d tries, then %d", was, tries)
		}
	})
}

// TestEnded checks that nothing is asked for after the request's context has ended, neither while it waits for its next try nor
// when it was woken.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask.New(inbox.New(1, errors.New("ended")))
		a.Start(context.Background())
		for i := range 40 { // a request that asks at random is noticed
			ctx, stop := context.WithCancel(context.Background())
			after := 0
			a.Ask(ctx, func(context.Context) error {
				if ctx.Err() != nil {
					after++
				}
				return errors.New("busy")
			})
			time.Sleep(time.Minute)
			if i%2 == 0 {
				a.Wake()
				synctest.Wait()
			}
			stop()
			a.Wait()
			if after != 0 {
				t.Fatal("asked for after its end")
			}
		}
	})
}

// TestSlots checks that there are no more requests at a time than slots, that a request that waits for its next try
// takes none, and that each try is bounded in time.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask.New(inbox.New(1, errors.New("ended")))
		a.Start(context.Background())
		slots := make(ask.Slots, 2)
		var mu sync.Mutex
		busy, most, done := 0, 0, 0
		enter := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			busy += n
			most = max(most, busy)
		}
		for range 10 {
			failed := false
			a.Go(func() {
				a.Persist(a.Running(), slots, func(ctx context.Context) error {
					enter(1)
					defer enter(-1)
					if !failed {
						failed = true
						<-ctx.Done() // the time that a try may take
						return ctx.Err()
					}
					mu.Lock()
					defer mu.Unlock()
					done++
					return nil
				})
			})
		}
		began := time.Now()
		a.Wait()
		if took := time.Since(began); most != 2 || done != 10 || took < 5*ask.Timeout || took > 6*ask.Timeout {
			t.Errorf("%d at a time, %d done after %v", most, done, took)
		}
	})
}

// TestTell checks that results come to the loop.
func TestTell(t *testing.T) {
	in := inbox.New(1, errors.New("ended"))
	a := ask.New(in)
	a.Start(context.Background())
	told := false
	a.Go(func() { a.Tell(func() { told = true }) })
	a.Wait()
	if in.DoPending(); !told {
		t.Error("the loop was not told")
	}
}

// TestWake checks that what failed is tried again at once after Wake, even if Wake came during a try that then fails.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask.New(inbox.New(1, errors.New("ended")))
		running, stop := context.WithCancel(context.Background())
		a.Start(running)
		var tries atomic.Int32
		var slow atomic.Bool
		a.Ask(running, func(context.Context) error {
			tries.Add(1)
			if slow.Load() {
				time.Sleep(2 * time.Second)
			}
			return errors.New("no subnet manager")
		})
		time.Sleep(time.Minute)
		for before := tries.Load(); tries.Load() == before; time.Sleep(10 * time.Millisecond) {
		}
		n := tries.Load() // the next one is 7.5 s away at least
		time.Sleep(time.Second)
		if tries.Load() != n {
			t.Fatal("there is no back-off")
		}
		slow.Store(true)
		a.Wake()
		time.Sleep(time.Second)
		if tries.Load() != n+1 {
			t.Errorf("%d tries within a second of Wake, want 1", tries.Load()-n)
		}
		a.Wake() // during that try
		time.Sleep(1500 * time.Millisecond)
		if tries.Load() != n+2 {
			t.Error("Wake during a try does not count")
		}
		stop()
		a.Wait()
	})
}
