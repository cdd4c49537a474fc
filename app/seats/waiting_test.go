// SPDX-License-Identifier: Apache-2.0

package seats

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"causeway/app/seats/seatstest"
)

// TestWaiting: a client waits for as long as there is no file descriptor, which is said once, and of the next shortage if
// that is not the same one.
func TestWaiting(t *testing.T) {
	said := 0
	l := &seatstest.Full{Times: 3}
	w := NewWaiting(l, func(err error) {
		if said++; !errors.Is(err, syscall.EMFILE) {
			t.Error(err)
		}
	})
	for range 2 {
		if _, err := w.Accept(); err != nil || said != 1 {
			t.Errorf("it said so %d times: %v", said, err)
		}
	}
	for want := 1; want <= 2; want++ {
		l.Times = 3
		if _, err := w.Accept(); err != nil || said != want {
			t.Errorf("it said so %d times, not %d: %v", said, want, err)
		}
		w.failed = w.failed.Add(-apart) // as if all could be accepted since
	}
	l.Times = 1 << 30
	ended := make(chan error)
	go func() { _, err := w.Accept(); ended <- err }()
	for range 2 { // a second time does no harm
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
