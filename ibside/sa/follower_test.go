// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// TestFollowerRetries has a port refuse a group's record a few times. It is offered again within milliseconds at first,
// at least each second for as long as it takes, and is logged once.
func TestFollowerRetries(t *testing.T) {
	for _, c := range []struct {
		refusals int
		within   time.Duration
	}{{0, 0}, {1, 20 * time.Millisecond}, {3, 140 * time.Millisecond}, {100, 96 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			calls, began, bound := 0, time.Now(), time.Duration(-1)
			f := newFollower(func(_ ib.MCMemberFields, done func(ibside.Membership)) error {
				if calls++; calls <= c.refusals {
					return errors.New("busy")
				}
				bound = time.Since(began)
				done(ibside.Membership{})
				return nil
			}, slog.New(slog.NewTextHandler(&log, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			go f.follow(ctx, nil, func() {})
			f.changed(Registration{Kind: KindGroup, Held: true, Group: ib.MCMemberFields{MGID: ib.GID{0: 0xff}}})
			time.Sleep(5 * time.Minute)
			cancel()
			synctest.Wait()
			if bound < 0 || bound > c.within || calls != c.refusals+1 {
				t.Errorf("%d refusals: offered %d times, taken after %v, want within %v", c.refusals, calls, bound, c.within)
			}
			if n := strings.Count(log.String(), "group_renew"); n != min(c.refusals, 1) {
				t.Errorf("%d refusals: %d lines", c.refusals, n)
			}
		})
	}
}

// TestPathsEachMinute checks that all paths are asked for again each minute without a reason: so long a wrong one can
// last.
func TestPathsEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go f.follow(ctx, nil, func() {})
		told := 0
		for range 60 * 10 {
			time.Sleep(time.Second)
			synctest.Wait()
			if f.Renewed().Paths {
				told++
			}
		}
		cancel()
		synctest.Wait()
		if told != 10 {
			t.Errorf("in ten minutes %d times", told)
		}
	})
}
