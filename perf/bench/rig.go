// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/tables"
)

const (
	inFlight     = 2048 // packets: more than a second-level cache holds from 1 KiB up
	privateBytes = 64   // of an mbuf; struct changed lies there
)

// A rig is a datapath whose workers, one for each lane, forward packets of one size in one direction.
type rig struct {
	shape     shape
	direction lcore.Direction
	size      int // payload bytes
	tables    *tables.Tables
	datapath  *lcore.Datapath
	gathered  uint64 // packets that were received, handed off, not sent, and put back into the rings
	lanes     []*lane
	undo      []func() error
}

func (r *rig) onClose(f func() error) { r.undo = append(r.undo, f) }

// newRig makes a rig at tables of the same shape, which stay the caller's.
func newRig(s shape, t *tables.Tables, d lcore.Direction, size int) (*rig, error) {
	r := &rig{shape: s, direction: d, size: size, tables: t}
	err := r.build()
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) build() (err error) {
	if r.datapath, err = lcore.NewDatapath(r.shape.config(), r.tables.Pointer()); err != nil {
		return err
	}
	r.onClose(func() error { r.datapath.Close(); return nil })
	if r.shape.policed {
		if err := r.police(neverReached); err != nil {
			return err
		}
	}
	for range r.shape.workers() {
		if err := r.addLane(); err != nil {
			return err
		}
	}
	if r.shape.mirror != nil {
		if err := r.mirror(); err != nil {
			return err
		}
	}
	r.onClose(r.empty) // first: packets may lie in another lane's ring than their pool's
	return nil
}

// neverReached is a rate in packets a second that no worker reaches.
const neverReached = 1e9

// police gives all groups a rate.
func (r *rig) police(rate uint64) error {
	for i := range r.shape.groups {
		_, id, ok := r.tables.Groups.Find(groupIP(i))
		if !ok {
			return fmt.Errorf("bench: group %v is not on the tables", groupIP(i))
		}
		r.datapath.Police(int(id), rate)
	}
	return nil
}

// close takes the rig down. What is left over is a leak in the benchmark itself.
func (r *rig) close() {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}

// verify makes sure that forwarding was measured: nothing may have been dropped or lost.
func (r *rig) verify() error {
	r.gather()
	c := r.datapath.Counters()
	for d, x := range c.Direction {
		if x.Dropped() != 0 || x.Received-x.Sent != r.lost(lcore.Direction(d)) || x.ProxyQPWaits != 0 || (x.Handoffs != 0 && r.shape.foreign == 0) {
			return fmt.Errorf("bench: %v: received %d, sent %d, drops %v, %d waited, %d handed off: this measured something else",
				lcore.Direction(d), x.Received, x.Sent, x.Drops, x.ProxyQPWaits, x.Handoffs)
		}
	}
	return r.verifyRings()
}

// verifyRings makes sure that all packets are there. Packets that are handed off change lanes.
func (r *rig) verifyRings() error {
	all, want := 0, r.shape.inRing(r.direction)
	for i, l := range r.lanes {
		n := l.ring.Len()
		all += n
		if n != want && r.shape.foreign == 0 {
			return fmt.Errorf("bench: lane %d: %d packets of %d are left: this measured something else", i, n, want)
		}
	}
	if all != want*len(r.lanes) {
		return fmt.Errorf("bench: %d packets of %d are left: this measured something else", all, want*len(r.lanes))
	}
	return nil
}

// lost is how many packets of a direction were received and not sent, because the worker that they were handed to had
// stopped.
func (r *rig) lost(d lcore.Direction) uint64 {
	if d == r.direction {
		return r.gathered
	}
	return 0
}

// gather puts packets that lie between workers back into the lanes' rings. No worker may run.
func (r *rig) gather() {
	for _, l := range r.lanes {
		r.gathered += uint64(l.takeBack())
	}
}

func (r *rig) empty() error {
	r.gather()
	for _, l := range r.lanes {
		l.empty()
	}
	return nil
}

func newPool(name string) (*dpdk.Mempool, error) {
	return dpdk.NewMempool(name, inFlight+63, lcore.DataRoom, privateBytes)
}

// loop is the worker that the shape asks for: a production worker or a bare one.
func (l *lane) loop() loop {
	if l.rig.shape.bare {
		return l.bare()
	}
	return l.worker()
}

// worker is the production worker as a loop.
func (l *lane) worker() loop { return &workerLoop{l} }

type workerLoop struct{ *lane }

func (l *workerLoop) start(lcore uint) error { return l.w.Start(lcore) }
func (l *workerLoop) done() uint64           { return l.w.Counters().Direction[l.rig.direction].Sent }

// stop ends the worker, which first finishes the packets in progress. Without the pause there would always be more.
func (l *workerLoop) stop() {
	l.pause(true)
	l.w.Stop()
	l.pause(false)
}
