// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"
)

// promiseKept is how long there is room for the proxy QP of a RoCE host that asks for a service: half of it until the
// answer, half until the host sends, for a program may first get all its connections.
const promiseKept = time.Minute

// promises are, for each RoCE host, until when there is room for the proxy QPs that it will need, by its UDP port.
type promises map[netip.Addr]map[uint16]time.Time

// keep ends a host's oldest promise: it has been kept.
func (ps promises) keep(host netip.Addr) {
	var oldest uint16
	var until time.Time
	for port, t := range ps[host] {
		if until.IsZero() || t.Before(until) {
			oldest, until = port, t
		}
	}
	ps.end(host, oldest)
}

func (ps promises) end(host netip.Addr, port uint16) {
	if delete(ps[host], port); len(ps[host]) == 0 {
		delete(ps, host)
	}
}

func (ps promises) age(now time.Time) {
	for host, of := range ps {
		for port, until := range of {
			if !now.Before(until) {
				ps.end(host, port)
			}
		}
	}
}

func (ps promises) all() (n int) {
	for _, of := range ps {
		n += len(of)
	}
	return n
}

// Promise keeps room for the proxy QP that a RoCE host will need when it is told of a service, or reports why there is
// none. port is the host's, by which a program that asks for another service with the same queue pair is known.
func (p *ProxyQPs) Promise(host netip.Addr, port uint16, now time.Time) error {
	if _, again := p.promises[host][port]; !again {
		if err := p.roomFor(host, now); err != nil {
			p.denied(key{Host: host}, err)
			return err
		}
	}
	if p.promises[host] == nil {
		p.promises[host] = map[uint16]time.Time{}
	}
	p.promises[host][port] = now.Add(promiseKept)
	return nil
}

// Release takes a promise back: the host is not told of a service.
func (p *ProxyQPs) Release(host netip.Addr, port uint16) { p.promises.end(host, port) }

// roomFor reports why there is no room for another proxy QP of a host beside those that are promised.
func (p *ProxyQPs) roomFor(host netip.Addr, now time.Time) error {
	switch {
	case len(p.proxyQPs)+len(p.making)+p.promises.all() >= p.cfg.Max:
		return errTotal(p.cfg.Max)
	case p.perHost[host]+len(p.promises[host]) >= p.cfg.PerHost && p.perHost[host]+len(p.promises[host])-p.idle(host, now) >= p.cfg.PerHost:
		return errPerHost(p.cfg.PerHost)
	}
	return nil
}

// idle returns how many proxy QPs of a host would make room for others.
func (p *ProxyQPs) idle(host netip.Addr, now time.Time) (n int) {
	for s := range p.Tables.Of(host) {
		if p.isOld(s.HostQP, now, evictAge) {
			n++
		}
	}
	return n
}
