// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

var (
	errAllInUse = errors.New("all of the worker's queue pairs are in use; raise [workers] proxy_qps")
	errClosed   = errors.New("verbs: the port is closed")
)

// CreateProxyQP implements ibside.Port. Only that worker may send from the queue pair.
func (t *qpTable) CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error) {
	if worker < 0 || worker >= len(t.workers) {
		return 0, 0, fmt.Errorf("verbs: proxy QP for worker %d; there are %d", worker, len(t.workers))
	}
	q, err := t.takeQP(t.workers[worker], qpKind{qkey, pkey})
	if err != nil {
		return 0, 0, fmt.Errorf("verbs: %s: proxy QP for worker %d: %w", t.cfg.name(), worker, err)
	}
	return q.handle, q.qpn, nil
}

// DestroyProxyQP implements ibside.Port. What the worker still posts for it is dropped, and its QPN rests.
func (t *qpTable) DestroyProxyQP(qp uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return errClosed
	}
	q := t.qps[qp]
	if q == nil || q.groups {
		return fmt.Errorf("verbs: there is no proxy QP with handle %d", qp)
	}
	if err := t.restQP(q); err != nil {
		return fmt.Errorf("verbs: %s: destroy proxy QP %v: %w", t.cfg.name(), q.qpn, err)
	}
	return nil
}
