// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"fmt"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A Service is a queue pair of a RoCE host's that a service has, as the host's answer names it.
type Service struct {
	tables.HostQP
	QKey    ib.QKey
	MAC     frame.MAC
	VLAN    uint16
	Version uint8 // of RoCE
}

// ForService finds or makes the proxy QP of a service, and calls then, at once or in a later turn of the loop. One with
// another Q_Key belongs to a queue pair that the host has destroyed: its number has been given to this one.
func (p *ProxyQPs) ForService(s Service, now time.Time, then func(ib.QPN, error)) {
	qpn, m, err := p.forService(&s, now)
	switch {
	case err != nil:
		p.denied(s.HostQP, err)
		then(0, err)
	case m != nil:
		m.services = append(m.services, then)
	default:
		then(qpn, nil)
	}
}

// forService returns the proxy QP, or the one that is being made.
func (p *ProxyQPs) forService(s *Service, now time.Time) (ib.QPN, *making, error) {
	k := s.HostQP
	if x, exists := p.proxyQPs[k]; exists {
		if t, _, _ := p.Tables.Find(k); t.QKey == s.QKey {
			x.usedAt = now
			p.proxyQPs[k] = x
			return x.qpn, nil, nil
		}
		p.remove(k, "other Q_Key")
		if _, still := p.proxyQPs[k]; still {
			return 0, nil, fmt.Errorf("manage: the proxy QP of %v has another Q_Key, and cannot be removed", &k)
		}
	}
	if m := p.making[k]; m != nil {
		if m.qkey == s.QKey {
			return 0, m, nil
		}
		return 0, p.beginAnew(m, s.QKey), nil
	}
	if err := p.roomToPromise(k.Host, now); err != nil { // it is none of the promised ones
		return 0, nil, err
	}
	room, err := p.roomFor(k.Host, p.promises.n, now)
	if err != nil {
		return 0, nil, err
	}
	if _, err := p.hosts.Learn(s.Host, s.MAC, s.VLAN, s.Version, now); err != nil {
		return 0, nil, err
	}
	p.makeRoom(room, k.Host, now)
	p.turn++
	return 0, p.begin(&making{key: k, worker: p.turn % p.cfg.Workers, qkey: s.QKey, version: s.Version}), nil
}
