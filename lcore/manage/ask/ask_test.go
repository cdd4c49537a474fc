// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"sync"
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

// TestWake checks that what failed is tried again at once after Wake, even if it failed with a request that was under way
// then, and that its back-off begins anew.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask.New(inbox.New(1, errors.New("ended")))
		running, stop := context.WithCancel(context.Background())
		a.Start(running)
		var tries []time.Time
		slow := false
		a.Ask(running, func(context.Context) error {
			tries = append(tries, time.Now())
			if slow {
				time.Sleep(2 * time.Second)
			}
			return errors.New("no subnet manager")
		})
		after := func(n int) int { // how many tries there are in the next second
			before := len(tries)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(tries)-before != n {
				t.Errorf("%d tries in a second, want %d", len(tries)-before, n)
			}
			return len(tries)
		}
		time.Sleep(time.Minute)
		for before := len(tries); len(tries) == before; time.Sleep(10 * time.Millisecond) {
		}
		after(0) // the next one is 7.5 s away at least
		a.Wake()
		time.Sleep(time.Second)
		if woken := len(tries); time.Since(tries[woken-1]) > time.Second {
			t.Error("not tried again after Wake")
		}
		slow = true
		a.Wake()
		time.Sleep(time.Second)
		n := len(tries)
		a.Wake() // during a try that will fail
		time.Sleep(1500 * time.Millisecond)
		if len(tries) == n {
			t.Error("Wake during a try does not count")
		}
		stop()
		a.Wait()
	})
}
