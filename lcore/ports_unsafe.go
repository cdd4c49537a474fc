// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "policy.h"
// #include "ports.h"
// #include "setup.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// MaxPorts is how many Ethernet ports there can be.
const MaxPorts = C.MAX_PORTS

// portIndices are which port has which index. Any goroutine may read them.
type portIndices struct {
	mu    sync.Mutex
	used  [MaxPorts]bool
	ever  int                    // one more than the highest that a port has had
	freed []uint8                // those that ports have had, the longest free first
	since [MaxPorts]PortCounters // what was counted under an index when its port came
}

// begin gives the first ports their indices.
func (x *portIndices) begin(n int) {
	x.ever = n
	for i := range n {
		x.used[i] = true
	}
}

// FreePort returns an index for another port: one that none has had yet, or else the one that is free for the longest
// time.
func (dp *Datapath) FreePort() (uint8, error) {
	x := &dp.ports
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.ever < MaxPorts:
		return uint8(x.ever), nil
	case len(x.freed) == 0:
		return 0, fmt.Errorf("lcore: there are %d Ethernet ports, and cannot be more; remove one first", MaxPorts)
	case !dp.noneUnderWay():
		return 0, errors.New("lcore: packets of an Ethernet port that was removed are still under way; try again")
	}
	return x.freed[0], nil
}

// noneUnderWay reports whether nothing lies on a ring that could be of a port that was removed.
func (dp *Datapath) noneUnderWay() bool {
	for _, empty := range []func(*Worker) bool{
		func(w *Worker) bool { return bool(C.worker_punted_none(w.c)) },
		func(w *Worker) bool { return bool(C.worker_requeued_none(w.c)) },
	} {
		if slices.ContainsFunc(dp.workers, func(w *Worker) bool { return !empty(w) }) {
			return false
		}
	}
	return true
}

// AddPort makes all workers poll another Ethernet port, which is started, under an index of FreePort, and returns when
// nothing any more is taken for a frame of an only port. Id is DPDK's; what wakes the workers is set before (SetRxWake).
// It and RemovePort may be called while workers run, by one goroutine at a time, as AddSegment. On an error, which is
// ctx's, the workers poll what they polled before.
func (dp *Datapath) AddPort(ctx context.Context, index uint8, mac [6]byte, id uint16) error {
	x := &dp.ports
	x.mu.Lock()
	C.policy_mark_ports(dp.c)
	x.mu.Unlock()
	if err := dp.awaitWorkers(ctx); err != nil {
		return err
	}
	since := dp.countedBy(int(index))
	dp.c.mac[index] = mac48(mac)
	for _, w := range dp.workers {
		w.c.port[index] = C.uint16_t(id)
	}
	x.mu.Lock()
	x.used[index], x.since[index], x.ever = true, since, max(x.ever, int(index)+1)
	x.freed = slices.DeleteFunc(x.freed, func(o uint8) bool { return o == index })
	C.policy_add_port(dp.c, C.uint(index))
	x.mu.Unlock()
	dp.wakeWorkers()
	return nil
}

// RemovePort makes the workers poll a port no more. When it returns, none touches the port, which can be stopped. Frames
// that came by it may still be under way, and are counted as its own until another has its index. Its segments are removed
// before.
func (dp *Datapath) RemovePort(index uint8) {
	x := &dp.ports
	x.mu.Lock()
	x.used[index] = false
	C.policy_remove_port(dp.c, C.uint(index))
	x.mu.Unlock()
	_ = dp.awaitWorkers(context.Background()) // which does not end
	for _, w := range dp.workers {
		w.c.rx_interrupt[index] = false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.freed = append(x.freed, index)
}

// Away calls f while no worker touches a port, whose segments stay: what is for it meanwhile is dropped as eth_full. The
// others are polled. It reports false, and has not called f, where the port is the only one there has been, or is not added.
// Any goroutine may call it, one at a time for a port.
func (dp *Datapath) Away(index uint8, f func() error) (done bool, err error) {
	x := &dp.ports
	x.mu.Lock()
	if !x.used[index] || dp.c.ports&C.PORTS_SEVERAL == 0 {
		x.mu.Unlock()
		return false, nil
	}
	C.policy_remove_port(dp.c, C.uint(index))
	x.mu.Unlock()
	_ = dp.awaitWorkers(context.Background()) // which does not end
	err = f()
	x.mu.Lock()
	if x.used[index] { // it was not removed meanwhile
		C.policy_add_port(dp.c, C.uint(index))
	}
	x.mu.Unlock()
	dp.wakeWorkers()
	return true, err
}

// Sends reports whether frames of management wait to be sent.
func (dp *Datapath) Sends() bool {
	return slices.ContainsFunc(dp.workers, func(w *Worker) bool { return !bool(C.worker_sends_none(w.c)) })
}

func (dp *Datapath) wakeWorkers() {
	for _, w := range dp.workers {
		w.Wake()
	}
}

// awaitWorkers waits until each worker has seen what was written before: those that sleep are woken.
func (dp *Datapath) awaitWorkers(ctx context.Context) error {
	dp.wakeWorkers()
	const every = 100 * time.Microsecond
	for token := C.policy_token(dp.c); !bool(C.policy_passed(dp.c, token)); time.Sleep(every) {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// countedBy returns what was ever counted under the index of a port, summed over all workers.
func (dp *Datapath) countedBy(index int) (sum PortCounters) {
	for _, w := range dp.workers {
		for d, own := range w.countedBy(index) {
			sum[d].Add(own)
		}
	}
	dropped := DirectionCounters{Drops: map[Drop]uint64{}}
	dp.addDropped(index, dropped.Drops)
	sum[RoCEToIB].Add(dropped)
	return sum
}

func (w *Worker) countedBy(index int) (out PortCounters) {
	if w.c.ports == C.ONLY_PORT {
		if index == 0 {
			out = ofOnly(w.Counters())
		}
		return out
	}
	c := (*C.struct_port_counters)(unsafe.Add(unsafe.Pointer(w.c.by_port), index*C.sizeof_struct_port_counters))
	for d := range out {
		out[d] = directionCounters(&c.direction[d])
	}
	return out
}

// ofOnly is what of a worker's counters is that of an only port.
func ofOnly(c Counters) PortCounters {
	is := &c.Direction[IBToRoCE]
	out := DirectionCounters{Sent: is.Sent, SentBytes: is.SentBytes, Drops: map[Drop]uint64{}}
	if n := is.Drops[C.DROP_eth_full]; n > 0 {
		out.Drops[C.DROP_eth_full] = n
	}
	out.Received = out.Sent + out.Dropped()
	return PortCounters{c.Direction[RoCEToIB], out}
}

// PortCounters returns what is counted of each Ethernet port, by index, summed over all workers: of one that is gone until
// another has its index. Towards RoCE, received is what was routed to the port.
func (dp *Datapath) PortCounters() []PortCounters {
	x := &dp.ports
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]PortCounters, x.ever)
	for i := range all {
		all[i] = dp.countedBy(i)
		for d := range all[i] {
			all[i][d].subtract(x.since[i][d])
		}
	}
	return all
}

// gonePorts sums up what was counted under indices before their ports came.
func (dp *Datapath) gonePorts() (sum PortCounters) {
	for _, since := range dp.ports.since {
		for d := range sum {
			sum[d].Add(since[d])
		}
	}
	return sum
}

// setPorts gives a worker its first ports.
func setPorts(c *C.struct_worker, cfg *WorkerConfig) {
	for i, id := range append([]uint16{cfg.Port}, cfg.MorePorts...) {
		c.port[i] = C.uint16_t(id)
	}
}
