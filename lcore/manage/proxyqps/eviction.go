// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
)

// pressureEvery is how long there must have been room for all before the next time is logged.
const pressureEvery = 10 * time.Second

// evict ends a proxy QP to make room for one of another host, or of the same.
func (p *ProxyQPs) evict(k key, by netip.Addr, now time.Time) {
	if _, still := p.proxyQPs[k]; !still {
		return
	}
	if p.remove(k, "evicted"); k.Host == by {
		p.count.ProxyQPsAged++
		return
	}
	p.count.ProxyQPsEvicted++
	p.underPressure(k.Host, by, now)
}

// underPressure logs that one host's proxy QP, or its promise of one, has made room for another's.
func (p *ProxyQPs) underPressure(host, by netip.Addr, now time.Time) {
	if now.Sub(p.pressed) >= pressureEvery {
		p.Log.Warn("proxy_qps_under_pressure", "limit", p.Most(now), "evicted", host, "for", by,
			"note", "all proxy QPs are taken: idle ones, first those that nothing came back to, make room for new ones")
	}
	p.pressed = now
}

// EvictStranger ends all proxy QPs of a host that has not shown that it exists, the one that has been idle for longest,
// to make room for another host, and returns it.
func (p *ProxyQPs) EvictStranger(now time.Time) (host netip.Addr, found bool) {
	k := p.oldest(now)
	if k == nil {
		return host, false
	}
	if confirmed, _ := p.hosts.Standing(k.Host); confirmed {
		return host, false
	}
	p.RemoveHost(k.Host, "evicted")
	return k.Host, true
}

// Remove ends the proxy QPs of a host's queue pair, or with 0 those of all, and returns how many there were.
func (p *ProxyQPs) Remove(host netip.Addr, qpn ib.QPN) (n int) {
	var keys []key
	for s := range p.Tables.Of(host) {
		if qpn == 0 || s.HostQPN == qpn {
			keys = append(keys, s.HostQP)
		}
	}
	for _, k := range keys {
		p.remove(k, "cleared")
	}
	return len(keys)
}
