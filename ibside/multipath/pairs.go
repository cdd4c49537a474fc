// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"errors"
	"fmt"

	"causeway/ibside/ib"
)

// pairs are the proxy QPs: one of each member for each that the datapath knows. The QPN is that of the first member's.
type pairs struct {
	*state
	made  map[uint32]pair
	byQPN map[ib.QPN]uint32
	last  uint32
	free  []uint32
}

type pair struct {
	qp  [maxPorts]uint32
	qpn [maxPorts]ib.QPN
}

// restingPairs is how many numbers rest, so that a late send meets nobody else's queue pair.
const restingPairs = 1024

func newPairs(s *state) *pairs {
	return &pairs{state: s, made: map[uint32]pair{}, byQPN: map[ib.QPN]uint32{}}
}

// CreateProxyQP implements ibside.Port: on all members, or on none.
func (p *pairs) CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (uint32, ib.QPN, error) {
	var q pair
	for i, m := range p.cfg.Members {
		var err error
		q.qp[i], q.qpn[i], err = m.Port.CreateProxyQP(worker, p.pkeyOf(i, pkey), qkey)
		if err != nil {
			return 0, 0, errors.Join(fmt.Errorf("multipath: %s: %w", m.Name, err), p.destroy(&q, i))
		}
	}
	p.mu.Lock()
	number, err := p.put(&q)
	p.mu.Unlock()
	if err != nil {
		return 0, 0, errors.Join(err, p.destroy(&q, len(p.cfg.Members)))
	}
	return number, q.qpn[0], nil
}

// destroy destroys the queue pairs of the first n members.
func (p *pairs) destroy(q *pair, n int) error {
	var errs []error
	for i, m := range p.cfg.Members[:n] {
		errs = append(errs, m.Port.DestroyProxyQP(q.qp[i]))
	}
	return errors.Join(errs...)
}

// put gives a pair a number. The caller holds the lock.
func (p *pairs) put(q *pair) (number uint32, err error) {
	switch room := uint32(p.cfg.ProxyQPs + restingPairs); {
	case len(p.made) >= p.cfg.ProxyQPs:
		return 0, fmt.Errorf("multipath: there are %d proxy QPs; raise [workers] proxy_qps", p.cfg.ProxyQPs)
	case p.last < room:
		p.last++
		number = p.last
	default:
		number, p.free = p.free[0], p.free[1:]
	}
	p.tables.putPair(number, q)
	for i := range p.cfg.Members {
		if !p.tables.nameQPN(i, q.qpn[i], q.qpn[0]) {
			for k := range i {
				p.tables.forgetQPN(k, q.qpn[k])
			}
			p.free = append(p.free, number)
			return 0, errors.New("multipath: no room for the QPNs of another proxy QP; raise [workers] proxy_qps")
		}
	}
	p.made[number], p.byQPN[q.qpn[0]] = *q, number
	return number, nil
}

// DestroyProxyQP implements ibside.Port.
func (p *pairs) DestroyProxyQP(number uint32) error {
	p.mu.Lock()
	q, ok := p.made[number]
	if ok {
		for i := range p.cfg.Members {
			p.tables.forgetQPN(i, q.qpn[i])
		}
		p.tables.putPair(number, &pair{})
		p.free = append(p.free, number)
		delete(p.byQPN, q.qpn[0])
		delete(p.made, number)
	}
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("multipath: there is no proxy QP with number %d", number)
	}
	return p.destroy(&q, len(p.cfg.Members))
}

// qpnOn returns a member's QPN of a proxy QP.
func (p *pairs) qpnOn(member int, qpn ib.QPN) ib.QPN {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number, ok := p.byQPN[qpn]; ok {
		return p.made[number].qpn[member]
	}
	return qpn
}
