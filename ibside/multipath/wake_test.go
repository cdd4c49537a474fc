// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/stamp"
)

// TestWake: a worker that sleeps is woken by a message of either port, each time anew.
func TestWake(t *testing.T) {
	r := newRig(t, Rule{Mode: Both})
	r.join(t)
	r.asWorker(t)
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ibPort := r.port.Pointer(0)
	wakes := porttest.Arm(ibPort)
	porttest.Disarm(ibPort)
	for _, w := range wakes {
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, w, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
			t.Fatal(err)
		}
	}
	asleep := func(d time.Duration) bool {
		var events [4]unix.EpollEvent
		n, err := unix.EpollWait(fd, events[:], int(d.Milliseconds()))
		return err == nil && n == 0
	}
	for i := range 6 {
		porttest.Arm(ibPort)
		asleep(0) // an event from before
		if r.take() != 0 || !asleep(20*time.Millisecond) {
			t.Fatalf("%d: it does not sleep", i)
		}
		r.peers[i%2].toGroup(stamp.Message(uint64(i), 64), 0)
		if asleep(5 * time.Second) {
			t.Fatalf("%d: it was not woken by port %d", i, i%2)
		}
		porttest.Disarm(ibPort)
		within(t, patience, "the message", func() bool { return r.take() == 1 })
	}
}
