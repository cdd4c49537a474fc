// SPDX-License-Identifier: Apache-2.0

package lcore

// #include <stdlib.h>
// #include "setup.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"causeway/dpdk"
)

// CanWake reports whether an InfiniBand port (a worker's struct ib_port) can wake a worker that sleeps.
func CanWake(ibPort unsafe.Pointer) bool { return (*C.struct_ib_port)(ibPort).arm != nil }

// openWakes makes what wakes the worker by its rings and by its InfiniBand port, where workers sleep until then.
func (w *Worker) openWakes() error {
	if Idle(w.datapath.c.idle) != IdleInterrupt {
		return nil
	}
	if !CanWake(unsafe.Pointer(w.c.ib_port)) {
		return fmt.Errorf("lcore: worker %d is to sleep, and its InfiniBand port cannot wake it", w.ID())
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("lcore: epoll of worker %d: %w", w.ID(), err)
	}
	w.c.epoll = C.int(epoll)
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		w.closeWakes()
		return fmt.Errorf("lcore: eventfd of worker %d: %w", w.ID(), err)
	}
	w.c.bell.fd = C.int(bell)
	for _, fd := range append(w.c.ib_port.wake[:], w.c.bell.fd) {
		if err := w.wakeBy(int(fd)); err != nil {
			w.closeWakes()
			return err
		}
	}
	return nil
}

// wakeBy adds a descriptor to those that wake the worker, unless it is one; -1 is none.
func (w *Worker) wakeBy(fd int) error {
	if fd < 0 {
		return nil
	}
	err := unix.EpollCtl(int(w.c.epoll), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("lcore: wake-ups of worker %d by descriptor %d: %w", w.ID(), fd, err)
	}
	return nil
}

func (w *Worker) closeWakes() {
	for _, fd := range []*C.int{&w.c.epoll, &w.c.bell.fd} {
		if *fd >= 0 {
			unix.Close(int(*fd))
			*fd = -1
		}
	}
}

// SetRxWake sets what wakes the worker when frames come to its queue of a port, known by its index. Earlier descriptors that are not among
// these must have been closed: of a bond, one member's may be others. With
// IdleInterrupt it is called while the worker does not poll the port: before AddPort, or before the worker starts.
func (w *Worker) SetRxWake(port int, r dpdk.RxWake) error {
	w.c.rx_interrupt[port] = C.bool(r.Armed)
	for _, fd := range r.FDs {
		if err := w.wakeBy(fd); err != nil {
			return err
		}
	}
	return nil
}

// Wake has the worker poll its ports once more, if it sleeps.
func (w *Worker) Wake() {
	if w.c.bell.fd >= 0 {
		C.worker_wake(w.c)
	}
}

// punts wakes management.
type punts struct {
	ready chan struct{}
	file  *os.File // of the eventfd
	ended sync.WaitGroup
}

func (dp *Datapath) openPunts() error {
	dp.c.manager = (*C.struct_wake)(C.calloc(1, C.sizeof_struct_wake))
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("lcore: eventfd of management: %w", err)
	}
	dp.c.manager.fd = C.int(fd)
	p := &punts{ready: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "punted")}
	dp.punts = p
	p.ended.Go(func() {
		var count [8]byte
		for {
			if _, err := p.file.Read(count[:]); err != nil { // it is closed
				return
			}
			select {
			case p.ready <- struct{}{}:
			default:
			}
		}
	})
	return nil
}

func (dp *Datapath) closePunts() {
	if dp.punts != nil {
		dp.punts.file.Close()
		dp.punts.ended.Wait()
	}
	C.free(unsafe.Pointer(dp.c.manager))
}

// Punted has a value after AwaitPunted when a worker has put something on its punt ring.
func (dp *Datapath) Punted() <-chan struct{} { return dp.punts.ready }

// AwaitPunted has the next frame that a worker punts be told by Punted. What was punted before is to be looked for once
// more.
func (dp *Datapath) AwaitPunted() { C.worker_await_punted(dp.c) }
