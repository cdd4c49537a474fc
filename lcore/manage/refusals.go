// SPDX-License-Identifier: Apache-2.0

package manage

import "time"

// Refusals say when something new was last refused because its table was full; zero: never.
type Refusals struct{ Hosts, ProxyQPs time.Time }

// refusals notice them by the counters, which count other reasons, too: those that grow while a table is full.
type refusals struct {
	last            Refusals
	hosts, proxyQPs uint64
}

func (r *refusals) notice(now time.Time, hostsFull, proxyQPsFull bool, c *Counters) Refusals {
	if hostsFull && c.HostsRejected > r.hosts {
		r.last.Hosts = now
	}
	if proxyQPsFull && c.ProxyQPsDenied > r.proxyQPs {
		r.last.ProxyQPs = now
	}
	r.hosts, r.proxyQPs = c.HostsRejected, c.ProxyQPsDenied
	return r.last
}
