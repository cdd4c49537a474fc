// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"
)

const (
	// looksPerAge is how often a stand-in is looked at before it is too old: the age is right to such a part.
	looksPerAge = 8
	// longestRound is the longest time between two looks at the same stand-in.
	longestRound = 10 * time.Second
	// removeMost bounds how many stand-ins end at a time: a queue pair takes a tenth of a millisecond to destroy.
	removeMost = 128
	// pressureAge is how long a stand-in must have been idle to give way to another of its host's.
	pressureAge = time.Minute
)

// rounds is the way of ageing through the stand-ins: a part of them each time that house is kept.
type rounds struct {
	keys []standInKey // those that this round has still to look at
	part int          // how many each time
}

// ageStandIns looks at some stand-ins, and ends those that nothing has crossed by for too long.
func (l *Loop) ageStandIns(now time.Time) {
	if l.cfg.StandInIdle == 0 {
		return
	}
	if len(l.round.keys) == 0 {
		l.beginRound()
	}
	removed := 0
	for range min(l.round.part, len(l.round.keys)) {
		key := l.round.keys[len(l.round.keys)-1]
		l.round.keys = l.round.keys[:len(l.round.keys)-1]
		if !l.isOld(key, now, l.cfg.StandInIdle) {
			continue
		}
		l.removeStandIn(key, "idle")
		l.count.StandInsAged++
		if removed++; removed == removeMost {
			return // the rest of the part is looked at with the next
		}
	}
}

func (l *Loop) beginRound() {
	for key := range l.standIns {
		l.round.keys = append(l.round.keys, key)
	}
	turns := max(1, int(min(l.cfg.StandInIdle/looksPerAge, longestRound)/houseEvery))
	l.round.part = (len(l.round.keys) + turns - 1) / turns
}

// isOld reports whether nothing has crossed by a stand-in for so long.
func (l *Loop) isOld(key standInKey, now time.Time, age time.Duration) bool {
	_, there := l.standIns[key]
	return there && now.Sub(l.standInUsedAt(key, now)) >= age
}

// standInUsedAt returns when a stand-in was last seen to have been used, having looked.
func (l *Loop) standInUsedAt(key standInKey, now time.Time) time.Time {
	s, there := l.standIns[key]
	if there && l.tables.TakeUsed(key.host, key.qpn) {
		s.usedAt = now
		l.standIns[key] = s
	}
	return s.usedAt
}

// makeRoom ends the stand-in of a host that has been idle for longest, if that is long enough.
func (l *Loop) makeRoom(host netip.Addr, now time.Time) bool {
	var oldest standInKey
	var since time.Time
	for s := range l.tables.StandInsOf(host) {
		key := standInKey{s.Host, s.HostQPN}
		if at := l.standIns[key].usedAt; l.isOld(key, now, pressureAge) && (since.IsZero() || at.Before(since)) {
			oldest, since = key, at
		}
	}
	if since.IsZero() {
		return false
	}
	l.removeStandIn(oldest, "gave way")
	l.count.StandInsAged++
	return true
}

// removeStandIn ends a stand-in: first on the shelves, so that no worker finds it any more. What a worker still has in
// its hands the door drops.
func (l *Loop) removeStandIn(key standInKey, why string) {
	s := l.standIns[key]
	if err := l.tables.DeleteStandIn(key.host, key.qpn); err != nil {
		l.log.Error("standin_delete", "host", key.host, "host_qpn", key.qpn, "error", err)
		return
	}
	delete(l.standIns, key)
	if l.perHost[key.host]--; l.perHost[key.host] <= 0 {
		delete(l.perHost, key.host)
		l.port.sources.Drop(key.host)
	}
	if err := l.door.DestroyStandIn(s.qp); err != nil {
		l.log.Warn("standin_leaked", "qpn", s.qpn, "error", err)
	}
	l.log.Debug("standin_removed", "host", key.host, "host_qpn", key.qpn, "qpn", s.qpn, "why", why)
}
