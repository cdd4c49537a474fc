// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"net/netip"
	"time"

	"causeway/lcore/manage/limit"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

const (
	// evictAge is how long a proxy QP must have been idle to make room for another, unless its host is a stranger.
	evictAge = time.Minute
	// looksMost bounds how many proxy QPs are looked at to find one that makes room.
	looksMost = 256
)

// Classes of proxy QPs, by which goes first when there is no room for another: those that nothing ever came back to,
// and of these the ones of hosts that have not shown that they exist.
const (
	strangeUnanswered = iota
	unanswered
	strangeAnswered
	answered
	classes
)

// inUse are the proxy QPs that there are, and when each was in use.
type inUse struct {
	tables   Tables
	hosts    Hosts
	proxyQPs map[key]proxyQP
	order    *limit.LRU[key]
	isBehind func() bool // the port has too many queue pairs still to destroy
	log      *ratelog.Logger
}

// isOld reports whether nothing has crossed by a proxy QP for so long.
func (u *inUse) isOld(k key, now time.Time, age time.Duration) bool {
	_, exists := u.proxyQPs[k]
	return exists && now.Sub(u.lookAt(k, now)) >= age
}

// lookAt asks the tables whether a proxy QP was used, and returns when it was last seen to have been.
func (u *inUse) lookAt(k key, now time.Time) time.Time {
	u.takeUsed(k, now)
	return u.proxyQPs[k].usedAt
}

// takeUsed asks the tables whether a proxy QP was used since they were asked last.
func (u *inUse) takeUsed(k key, now time.Time) bool {
	s, exists := u.proxyQPs[k]
	if !exists {
		return false
	}
	toIB, toRoCE := u.tables.TakeUsed(k)
	if !toIB && !toRoCE {
		return false
	}
	s.usedAt, s.answered = now, s.answered || toRoCE
	u.proxyQPs[k] = s
	u.order.Put(k, u.classOf(k))
	return true
}

// LastUsed returns when anything last crossed by any of a host's proxy QPs; the zero time if it has none.
func (u *inUse) LastUsed(host netip.Addr, now time.Time) time.Time {
	var last time.Time
	for s := range u.tables.Of(host) {
		if at := u.lookAt(s.HostQP, now); at.After(last) {
			last = at
		}
	}
	return last
}

// SeenUsed returns when a proxy QP was last seen to have been used, without looking.
func (u *inUse) SeenUsed(of tables.HostQP) time.Time { return u.proxyQPs[of].usedAt }

// idle returns how many proxy QPs of a host would make room for others.
func (u *inUse) idle(host netip.Addr, now time.Time) (n int) {
	for s := range u.tables.Of(host) {
		if u.isOld(s.HostQP, now, evictAge) {
			n++
		}
	}
	return n
}

func (u *inUse) classOf(k key) int {
	confirmed, _ := u.hosts.Standing(k.Host)
	switch back := u.proxyQPs[k].answered; {
	case !confirmed && !back:
		return strangeUnanswered
	case !back:
		return unanswered
	case !confirmed:
		return strangeAnswered
	}
	return answered
}

// oldest finds the proxy QP that makes room for one of any host: of the first class that has one the one that has been
// idle for longest. nil: all are in use.
func (u *inUse) oldest(now time.Time) *key {
	if u.isBehind() {
		return nil
	}
	k, found := u.order.Oldest(looksMost, func(k key) (int, limit.Verdict) {
		used := u.takeUsed(k, now)
		class := u.classOf(k)
		switch strange := class == strangeUnanswered || class == strangeAnswered; {
		case used:
			return class, limit.Used
		case !strange && now.Sub(u.proxyQPs[k].usedAt) < evictAge:
			return class, limit.Young
		}
		return class, limit.Idle
	})
	if !found {
		return nil
	}
	return &k
}

// oldestOf finds the proxy QP of a host that has been idle for longest, if that is long enough.
func (u *inUse) oldestOf(host netip.Addr, now time.Time) (oldest *key) {
	var since time.Time
	for s := range u.tables.Of(host) {
		k := s.HostQP
		if at := u.proxyQPs[k].usedAt; u.isOld(k, now, evictAge) && (oldest == nil || at.Before(since)) {
			oldest, since = &k, at
		}
	}
	return oldest
}

// SendFrom makes all proxy QPs of a host send from a source.
func (u *inUse) SendFrom(host netip.Addr, source uint8) {
	for s := range u.tables.Of(host) {
		if s.Source == source {
			continue
		}
		s.Source = source
		if _, err := u.tables.Put(s); err != nil { // the old entry stays, and the port sends from the bridge's own
			u.log.Warn("proxy_qp_source", "host", host, "host_qpn", s.HostQPN, "error", err)
		}
	}
}
