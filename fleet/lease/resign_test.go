// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// slowStore takes a while to carry a request out, whoever still waits for it, and shows what was written last.
type slowStore struct {
	emptyStore
	last Record
}

const slowStoreTime = 10 * time.Millisecond

func (s *slowStore) Renew(ctx context.Context, r Record) error {
	if r.Ended { // by another way, which is faster
		s.last = r
		return nil
	}
	written := make(chan struct{})
	time.AfterFunc(slowStoreTime, func() {
		s.last = r
		close(written)
	})
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestLastRecord has a member end while a renewal of its is under way: what stays is that it has ended.
func TestLastRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{}
		m, err := New(Config{Name: "m", Weight: 1, Process: 1, Store: s, Gate: &openGate{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(slowStoreTime/2, end)
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if !s.last.Ended {
			t.Errorf("the last record is %+v", s.last)
		}
	})
}
