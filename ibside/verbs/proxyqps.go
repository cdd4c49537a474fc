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
func (p *Port) CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error) {
	if worker < 0 || worker >= len(p.workers) {
		return 0, 0, fmt.Errorf("verbs: proxy QP for worker %d; there are %d", worker, len(p.workers))
	}
	q, err := p.takeQP(p.workers[worker], qpKind{qkey, pkey})
	if err != nil {
		return 0, 0, fmt.Errorf("verbs: %s: proxy QP for worker %d: %w", p.cfg.name(), worker, err)
	}
	return q.handle, q.qpn, nil
}

// DestroyProxyQP implements ibside.Port. What the worker still posts for it is dropped, and its QPN rests.
func (p *Port) DestroyProxyQP(qp uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return errClosed
	}
	q := p.qps[qp]
	if q == nil || q.groups {
		return fmt.Errorf("verbs: there is no proxy QP with handle %d", qp)
	}
	if err := p.restQP(q); err != nil {
		return fmt.Errorf("verbs: %s: destroy proxy QP %v: %w", p.cfg.name(), q.qpn, err)
	}
	return nil
}
