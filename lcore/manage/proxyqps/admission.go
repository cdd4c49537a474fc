// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/limit"
	"causeway/lcore/manage/punt"
)

// strangersShare is the part of all new proxy QPs that hosts may have that have not shown that they exist: one in so
// many. The rest is for the others, whatever addresses are forged.
const strangersShare = 4

// lookAgain is the time between two looks for one of a host's proxy QPs to make room, when all were in use: a host that
// is at its limit and wants ever more costs no more than that.
const lookAgain = 100 * time.Millisecond

// rates bound how fast proxy QPs are made.
type rates struct {
	all, strangers limit.Rate
	perHost        int
	hosts          map[netip.Addr]*limit.Rate // those that are not full
}

func (r *rates) set(all, perHost int) {
	r.all.Set(all)
	r.strangers.Set((all + strangersShare - 1) / strangersShare)
	r.perHost = perHost
	for _, h := range r.hosts {
		h.Set(perHost)
	}
}

// refusal says which rate keeps a host from another proxy QP; nil: none.
func (r *rates) refusal(host netip.Addr, stranger bool, now time.Time) *refusal {
	h := r.hosts[host]
	switch {
	case stranger && !r.strangers.Allows(now):
		return &refusal{punt.RejectUnconfirmed, errStrangers{}}
	case h != nil && !h.Allows(now):
		return &refusal{punt.RejectRate, errHostRate(r.perHost)}
	case !r.all.Allows(now):
		return &refusal{punt.RejectRate, errRate}
	}
	return nil
}

func (r *rates) take(host netip.Addr, stranger bool, now time.Time) {
	r.all.Take(now)
	if stranger {
		r.strangers.Take(now)
	}
	if r.perHost == 0 {
		return
	}
	h := r.hosts[host]
	if h == nil {
		full := limit.NewRate(r.perHost)
		h = &full
		r.hosts[host] = h
	}
	h.Take(now)
}

// age forgets the hosts whose buckets are full again.
func (r *rates) age(now time.Time) {
	for host, h := range r.hosts {
		if h.IsFull(now) {
			delete(r.hosts, host)
		}
	}
}

// A refusal is why a host gets no proxy QP.
type refusal struct {
	why punt.Rejection
	err error
}

// An applicant is a host that needs another proxy QP, and where its packet came from.
type applicant struct {
	host netip.Addr
	mac  frame.MAC
	vlan uint16
}

// An admission is what a new proxy QP needs: a place, which another one may have to leave, and a turn.
type admission struct {
	room     room
	promised bool // there is a place for it, and no need for a turn
	stranger bool
}

// admit reports what another proxy QP of a host needs, and changes nothing. A host that has not shown that it exists is
// asked to.
func (p *ProxyQPs) admit(x applicant, now time.Time) (admission, *refusal) {
	a := admission{promised: len(p.promises.of[x.host]) > 0}
	if !a.promised {
		if no := p.introduce(x, &a, now); no != nil {
			return a, no
		}
	}
	room, err := p.roomFor(x.host, p.promises.n-len(p.promises.of[x.host]), now)
	if err != nil { // a limit is what an operator must know, whatever the rate
		return a, &refusal{punt.RejectFull, err}
	}
	if !a.promised {
		if no := p.rates.refusal(x.host, a.stranger, now); no != nil {
			return a, no
		}
	}
	a.room = room
	return a, nil
}

// introduce finds out whether a host is a stranger, and asks it whether it is there. A stranger in a subnet of the
// bridge's gets a few proxy QPs until it answers; one behind a router cannot be asked.
func (p *ProxyQPs) introduce(x applicant, a *admission, now time.Time) *refusal {
	confirmed, onLink := p.hosts.Standing(x.host)
	if a.stranger = !confirmed; confirmed {
		return nil
	}
	if !onLink {
		return nil
	}
	p.hosts.Confirm(x.host, x.mac, x.vlan, now)
	if n := p.perHost[x.host] + len(p.promises.of[x.host]); n >= p.cfg.Unconfirmed {
		return &refusal{punt.RejectUnconfirmed, errUnconfirmed(p.cfg.Unconfirmed)}
	}
	return nil
}

// enter takes what a new proxy QP was admitted to.
func (p *ProxyQPs) enter(host netip.Addr, a admission, now time.Time) {
	if !a.promised {
		p.rates.take(host, a.stranger, now)
	}
	p.makeRoom(a.room, host, now)
}

// A room is the place of another proxy QP: a free one, or that of a proxy QP that leaves, or of a promise that is
// broken.
type room struct {
	leaves *key
	breaks *promiseKey
}

// makeRoom has the one who has the place leave it, for a host.
func (p *ProxyQPs) makeRoom(r room, by netip.Addr, now time.Time) {
	if r.leaves != nil {
		p.evict(*r.leaves, by, now)
	}
	if r.breaks != nil {
		p.promises.end(r.breaks.host, r.breaks.promised)
		p.underPressure(r.breaks.host, by, now)
	}
}

// roomFor finds a place for another proxy QP of a host beside so many that are promised. The error says why there is
// none.
func (p *ProxyQPs) roomFor(host netip.Addr, promised int, now time.Time) (room, error) {
	if p.perHost[host] >= p.cfg.PerHost {
		if now.Sub(p.crowded[host]) < lookAgain {
			return room{}, errPerHost(p.cfg.PerHost)
		}
		leaves := p.oldestOf(host, now)
		if leaves == nil {
			p.crowded[host] = now
			return room{}, errPerHost(p.cfg.PerHost)
		}
		return room{leaves: leaves}, nil
	}
	return p.roomOfAny(host, promised, now)
}

// roomOfAny finds the same for a host that is within its own limit.
func (p *ProxyQPs) roomOfAny(host netip.Addr, promised int, now time.Time) (room, error) {
	if p.taken()+promised < p.Most(now) {
		return room{}, nil
	}
	if leaves := p.oldest(now); leaves != nil {
		return room{leaves: leaves}, nil
	}
	if p.taken() < p.Most(now) {
		if breaks := p.promises.toBreak(host, p.perHost[host], now); breaks != nil {
			return room{breaks: breaks}, nil
		}
	}
	return room{}, p.ceiling.errFull(now)
}
