// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"
)

// promiseKept is how long there is room for the proxy QP of a RoCE host that asks for a service: half of it until the
// answer, half until the host sends, for a program may first get all its connections.
const promiseKept = time.Minute

// A promised is what a host needs a proxy QP for: a queue pair, known by its UDP port, in a partition.
type promised struct {
	port      uint16
	partition uint8
}

// A promise is until when there is room, and for how many services: all of them are served by one proxy QP.
type promise struct {
	until    time.Time
	services int
}

// promises are those to each RoCE host. The zero value has none.
type promises struct {
	of map[netip.Addr]map[promised]promise
	n  int // in all
}

func (ps *promises) make(host netip.Addr, x promised, until time.Time) {
	if ps.of == nil {
		ps.of = map[netip.Addr]map[promised]promise{}
	}
	if ps.of[host] == nil {
		ps.of[host] = map[promised]promise{}
	}
	before, again := ps.of[host][x]
	if !again {
		ps.n++
	}
	ps.of[host][x] = promise{until, before.services + 1}
}

// release takes the promise for one service back.
func (ps *promises) release(host netip.Addr, x promised) {
	if p := ps.of[host][x]; p.services > 1 {
		p.services--
		ps.of[host][x] = p
	} else {
		ps.end(host, x)
	}
}

// keep ends a host's oldest promise: it has been kept.
func (ps *promises) keep(host netip.Addr) {
	var oldest promised
	var until time.Time
	for x, p := range ps.of[host] {
		if until.IsZero() || p.until.Before(until) {
			oldest, until = x, p.until
		}
	}
	ps.end(host, oldest)
}

func (ps *promises) end(host netip.Addr, x promised) {
	if _, made := ps.of[host][x]; !made {
		return
	}
	ps.n--
	if delete(ps.of[host], x); len(ps.of[host]) == 0 {
		delete(ps.of, host)
	}
}

func (ps *promises) age(now time.Time) {
	for host, of := range ps.of {
		for x, p := range of {
			if !now.Before(p.until) {
				ps.end(host, x)
			}
		}
	}
}

// Promise keeps room for the proxy QP that a RoCE host will need when it is told of a service, or reports why there is
// none. port is the host's, by which a program that asks for another service with the same queue pair is known; partition
// is that of the service's node.
func (p *ProxyQPs) Promise(host netip.Addr, port uint16, partition uint8, now time.Time) error {
	x := promised{port, partition}
	if _, again := p.promises.of[host][x]; !again {
		if err := p.roomFor(host, now); err != nil {
			p.denied(key{Host: host}, err)
			return err
		}
	}
	p.promises.make(host, x, now.Add(promiseKept))
	return nil
}

// Release takes a promise back: the host is not told of the service that it was made for.
func (p *ProxyQPs) Release(host netip.Addr, port uint16, partition uint8) {
	p.promises.release(host, promised{port, partition})
}

// roomFor reports why there is no room for another proxy QP of a host beside those that are promised.
func (p *ProxyQPs) roomFor(host netip.Addr, now time.Time) error {
	own := p.perHost[host] + len(p.promises.of[host])
	switch {
	case p.taken()+p.promises.n >= p.cfg.Max:
		return errTotal(p.cfg.Max)
	case own >= p.cfg.PerHost && own-p.idle(host, now) >= p.cfg.PerHost:
		return errPerHost(p.cfg.PerHost)
	}
	return nil
}

// taken returns how many proxy QPs there are, or will be.
func (p *ProxyQPs) taken() int { return len(p.proxyQPs) + len(p.making) }

// idle returns how many proxy QPs of a host would make room for others.
func (p *ProxyQPs) idle(host netip.Addr, now time.Time) (n int) {
	for s := range p.Tables.Of(host) {
		if p.isOld(s.HostQP, now, evictAge) {
			n++
		}
	}
	return n
}
