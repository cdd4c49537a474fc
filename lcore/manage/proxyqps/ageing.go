// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"

	"causeway/tables"
)

const (
	// sweepsPerAge is how often a proxy QP is looked at before it is too old: the age is right to such a part.
	sweepsPerAge = 8
	// longestSweep is the longest time between two looks at the same proxy QP.
	longestSweep = 10 * time.Second
	// removeMost bounds how many proxy QPs end at a time: others wait for the port, too.
	removeMost = 128
	// evictAge is how long a proxy QP must have been idle to make room for another of its host's.
	evictAge = time.Minute
)

// A sweep looks at all proxy QPs, some of them each tick.
type sweep struct {
	keys    []key // not yet looked at
	perTick int
}

// Tick looks at some proxy QPs, and ends those that nothing has crossed by for too long.
func (p *ProxyQPs) Tick(now time.Time) {
	p.promises.age(now)
	if p.cfg.Idle == 0 {
		return
	}
	if len(p.sweep.keys) == 0 {
		p.beginSweep()
	}
	removed := 0
	for range min(p.sweep.perTick, len(p.sweep.keys)) {
		k := p.sweep.keys[len(p.sweep.keys)-1]
		p.sweep.keys = p.sweep.keys[:len(p.sweep.keys)-1]
		if !p.isOld(k, now, p.cfg.Idle) {
			continue
		}
		p.remove(k, "idle")
		p.count.ProxyQPsAged++
		if removed++; removed == removeMost {
			return // the rest is looked at in the next tick
		}
	}
}

func (p *ProxyQPs) beginSweep() {
	for k := range p.proxyQPs {
		p.sweep.keys = append(p.sweep.keys, k)
	}
	ticks := max(1, int(min(p.cfg.Idle/sweepsPerAge, longestSweep)/p.cfg.Every))
	p.sweep.perTick = (len(p.sweep.keys) + ticks - 1) / ticks
}

// isOld reports whether nothing has crossed by a proxy QP for so long.
func (p *ProxyQPs) isOld(k key, now time.Time, age time.Duration) bool {
	_, exists := p.proxyQPs[k]
	return exists && now.Sub(p.lookAt(k, now)) >= age
}

// lookAt asks the tables whether a proxy QP was used, and returns when it was last seen to have been.
func (p *ProxyQPs) lookAt(k key, now time.Time) time.Time {
	s, exists := p.proxyQPs[k]
	if exists && p.Tables.TakeUsed(k) {
		s.usedAt = now
		p.proxyQPs[k] = s
	}
	return s.usedAt
}

// LastUsed returns when anything last crossed by any of a host's proxy QPs; the zero time if it has none.
func (p *ProxyQPs) LastUsed(host netip.Addr, now time.Time) time.Time {
	var last time.Time
	if p.perHost[host] == 0 {
		return last
	}
	for s := range p.Tables.Of(host) {
		if at := p.lookAt(s.HostQP, now); at.After(last) {
			last = at
		}
	}
	return last
}

// SeenUsed returns when a proxy QP was last seen to have been used, without looking.
func (p *ProxyQPs) SeenUsed(of tables.HostQP) time.Time { return p.proxyQPs[of].usedAt }

// evict ends the proxy QP of a host that has been idle for longest, if that is long enough.
func (p *ProxyQPs) evict(host netip.Addr, now time.Time) bool {
	var oldest key
	var since time.Time
	for s := range p.Tables.Of(host) {
		k := s.HostQP
		if at := p.proxyQPs[k].usedAt; p.isOld(k, now, evictAge) && (since.IsZero() || at.Before(since)) {
			oldest, since = k, at
		}
	}
	if since.IsZero() {
		return false
	}
	p.remove(oldest, "evicted")
	p.count.ProxyQPsAged++
	return true
}
