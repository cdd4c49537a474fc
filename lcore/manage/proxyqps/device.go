// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"context"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
)

const (
	// makesAtOnce bounds how many queue pairs the port makes at a time. An HCA takes that many commands, and more would
	// only wait in its driver.
	makesAtOnce = 16
	endsAtOnce  = 4
	// endingMost bounds the queue pairs that the port has still to destroy, for it holds them besides those in use.
	endingMost = 1024
	// A queue pair that is refused while others are being destroyed is tried again so often, for a second: an HCA takes
	// some milliseconds for each.
	retries    = 200
	retryEvery = 5 * time.Millisecond
)

// A device makes and destroys queue pairs by the port, each in a goroutine of its own.
type device struct {
	*Deps
	makes, ends ask.Slots
	ending      atomic.Int32 // queue pairs that the port has still to destroy
}

func newDevice(d *Deps) *device {
	return &device{Deps: d, makes: make(ask.Slots, makesAtOnce), ends: make(ask.Slots, endsAtOnce)}
}

// isBehind reports whether the port has too many queue pairs still to destroy.
func (d *device) isBehind() bool { return d.ending.Load() >= endingMost }

// make makes a queue pair, and calls then in a later turn of the loop.
func (d *device) make(worker int, pkey ib.PKey, qkey ib.QKey, then func(qp uint32, qpn ib.QPN, err error)) {
	running := d.Ask.Running()
	d.Ask.Go(func() {
		var qp uint32
		var qpn ib.QPN
		err := errStopped
		select {
		case d.makes <- struct{}{}:
			qp, qpn, err = d.create(running, worker, pkey, qkey)
			<-d.makes
		case <-running.Done():
		}
		d.Ask.Tell(func() { then(qp, qpn, err) })
	})
}

// create makes the port make a queue pair. One that the device refuses while others are being destroyed is tried again:
// it may be for this one that they end.
func (d *device) create(running context.Context, worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error) {
	for range retries {
		ending := d.ending.Load()
		qp, qpn, err = d.Port.CreateProxyQP(worker, pkey, qkey)
		if err == nil || ending == 0 || !d.IsShort(err) {
			return qp, qpn, err
		}
		select {
		case <-time.After(retryEvery):
		case <-running.Done():
			return qp, qpn, err
		}
	}
	return qp, qpn, err
}

// destroy makes the port destroy a queue pair.
func (d *device) destroy(qp uint32, qpn ib.QPN) {
	d.ending.Add(1)
	d.Ask.Go(func() {
		d.ends <- struct{}{}
		defer func() { <-d.ends; d.ending.Add(-1) }()
		if err := d.Port.DestroyProxyQP(qp); err != nil {
			d.Log.Warn("proxy_qp_leaked", "qpn", qpn, "error", err)
		}
	})
}
