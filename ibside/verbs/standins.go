// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

var (
	errAllInUse = errors.New("all of the worker's queue pairs are in use; raise [workers] standins")
	errClosed   = errors.New("verbs: the door is closed")
)

// CreateStandIn makes a queue pair that stands for a RoCE host's. It receives with qkey, on that worker, and only
// that worker may send from it, by the handle. The port's number of it is qpn.
func (d *Door) CreateStandIn(worker int, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error) {
	if worker < 0 || worker >= len(d.workers) {
		return 0, 0, fmt.Errorf("verbs: stand-in for worker %d; there are %d", worker, len(d.workers))
	}
	index := d.Port().PKeyIndex
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return 0, 0, errClosed
	}
	q, err := d.createQP(d.workers[worker], qkey, index)
	if err != nil {
		return 0, 0, fmt.Errorf("verbs: %s: stand-in for worker %d: %w", d.cfg.name(), worker, err)
	}
	return q.handle, q.qpn, nil
}

// DestroyStandIn destroys a queue pair of CreateStandIn. What the worker still posts for it is dropped.
func (d *Door) DestroyStandIn(qp uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return errClosed
	}
	q := d.qps[qp]
	if q == nil || d.isShared(q) {
		return fmt.Errorf("verbs: there is no stand-in with handle %d", qp)
	}
	if err := d.destroyQP(q); err != nil {
		return fmt.Errorf("verbs: %s: destroy stand-in %v: %w", d.cfg.name(), q.qpn, err)
	}
	return nil
}

func (d *Door) isShared(q *queuePair) bool {
	for _, s := range d.shared {
		if s.qp == q {
			return true
		}
	}
	return false
}
