// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"

	"causeway/lcore/manage/limit"
)

// promiseKept is how long there is room for the proxy QP of a RoCE host that asks for a service: half of it until the
// answer, half until the host sends, for a program may first get all its connections.
const promiseKept = time.Minute

// promiseFirm is how long a promise to a host that has shown that it exists is kept in any case: programs send sooner.
const promiseFirm = 5 * time.Second

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

// A promiseKey identifies a promise.
type promiseKey struct {
	host netip.Addr
	promised
}

// Classes of promises, by which are broken first when there is no room for others.
const (
	toStranger = iota
	toKnown
	promiseClasses
)

// promises are those to each RoCE host.
type promises struct {
	of    map[netip.Addr]map[promised]promise
	n     int // in all
	order *limit.LRU[promiseKey]
	hosts Hosts
}

func newPromises() promises {
	return promises{of: map[netip.Addr]map[promised]promise{}, order: limit.NewLRU[promiseKey](promiseClasses)}
}

func (ps *promises) make(host netip.Addr, x promised, class int, until time.Time) {
	if ps.of[host] == nil {
		ps.of[host] = map[promised]promise{}
	}
	before, again := ps.of[host][x]
	if !again {
		ps.n++
	}
	ps.of[host][x] = promise{until, before.services + 1}
	ps.order.Put(promiseKey{host, x}, class)
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
	ps.order.Remove(promiseKey{host, x})
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

// isFirm reports whether a promise to a host that is no stranger is kept in any case.
func (ps *promises) isFirm(k promiseKey, now time.Time) bool {
	return ps.of[k.host][k.promised].until.Sub(now) > promiseKept-promiseFirm
}

// class returns the class of a host's promises.
func (ps *promises) class(host netip.Addr) int {
	if confirmed, _ := ps.hosts.Standing(host); confirmed {
		return toKnown
	}
	return toStranger
}

// toBreak finds the promise that makes room for another proxy QP of a host that has so many: the oldest one to a
// stranger; or, unless the host is one itself, to a host that has more promises than this one has of all. Who asks for
// services without end, and never sends, keeps no more room from others than they have. nil: there is none.
func (ps *promises) toBreak(by netip.Addr, has int, now time.Time) *promiseKey {
	own, stranger := has+len(ps.of[by]), ps.class(by) == toStranger
	k, found := ps.order.Oldest(looksMost, func(k promiseKey) (int, limit.Verdict) {
		switch class := ps.class(k.host); {
		case class == toKnown && stranger:
			return class, limit.Young
		case k.host == by || class == toKnown && (len(ps.of[k.host]) <= own || ps.isFirm(k, now)):
			return class, limit.Used
		default:
			return class, limit.Idle
		}
	})
	if !found {
		return nil
	}
	return &k
}

// Promise keeps room for the proxy QP that a RoCE host will need when it is told of a service, or reports why there is
// none. port is the host's, by which a program that asks for another service with the same queue pair is known;
// partition is that of the service's node.
func (p *ProxyQPs) Promise(host netip.Addr, port uint16, partition uint8, now time.Time) error {
	x := promised{port, partition}
	if _, again := p.promises.of[host][x]; !again {
		err := p.promiseStranger(host, now)
		if err == nil {
			err = p.roomToPromise(host, now)
		}
		if err != nil {
			p.denied(key{Host: host}, err)
			return err
		}
	}
	p.promises.make(host, x, p.promises.class(host), now.Add(promiseKept))
	return nil
}

// promiseStranger reports why a host gets no promise that has not shown that it exists: promises are as few as proxy
// QPs, because room that is kept is nobody else's.
func (p *ProxyQPs) promiseStranger(host netip.Addr, now time.Time) error {
	confirmed, onLink := p.hosts.Standing(host)
	switch n := p.perHost[host] + len(p.promises.of[host]); {
	case confirmed:
		return nil
	case onLink && n >= p.cfg.Unconfirmed:
		return errUnconfirmed(p.cfg.Unconfirmed)
	case !p.rates.strangers.Allows(now):
		return errStrangers{}
	}
	p.rates.strangers.Take(now)
	return nil
}

// Release takes a promise back: the host is not told of the service that it was made for.
func (p *ProxyQPs) Release(host netip.Addr, port uint16, partition uint8) {
	p.promises.release(host, promised{port, partition})
}

// roomToPromise makes room for another proxy QP of a host beside those that are promised, or reports why there is none.
func (p *ProxyQPs) roomToPromise(host netip.Addr, now time.Time) error {
	own := p.perHost[host] + len(p.promises.of[host])
	if own >= p.cfg.PerHost && own-p.idle(host, now) >= p.cfg.PerHost {
		return errPerHost(p.cfg.PerHost)
	}
	room, err := p.roomOfAny(host, p.promises.n, now)
	if err == nil {
		p.makeRoom(room, host, now)
	}
	return err
}

// taken returns how many proxy QPs there are, or will be.
func (p *ProxyQPs) taken() int { return len(p.proxyQPs) + len(p.making) }
