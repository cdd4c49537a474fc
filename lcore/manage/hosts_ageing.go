// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"container/heap"
	"net/netip"
	"slices"
	"time"

	"causeway/lcore/frame"
	"causeway/tables"
)

const (
	// refreshUsed is for how long a host that has stand-ins in use is believed without being asked. Linux believes a
	// neighbour for half a minute on average (net/core/neighbour.c, base_reachable_time); a bridge that sends to a MAC
	// address that is gone loses messages without a sign, so it does not wait much longer.
	refreshUsed = time.Minute
	// refreshIdle is the same for a host that nothing goes to: it costs an entry, not messages.
	refreshIdle = 10 * time.Minute
	// probesMost questions go to the host's own MAC address, one each probeEvery (RFC 4861 §10, MAX_UNICAST_SOLICIT and
	// RETRANS_TIMER). After that it may have another MAC address, or be gone.
	probesMost = 3
	probeEvery = time.Second
	// lookMost bounds how many hosts are looked at each time that house is kept.
	lookMost = 4096
)

// A neighbour is what the loop remembers of a RoCE host that it has learned, beside its entry in the tables.
type neighbour struct {
	ip    netip.Addr
	heard time.Time // when it last spoke for itself
	asked int       // questions since then that it has not answered
	next  time.Time // when it is looked at next
	place int       // in the queue

	claim   *claim // another MAC address says that the address is its own
	refused turnedAway
	was     frame.MAC // where it was before it moved
	movedAt time.Time
}

// neighbours are all of them, by address and by when they are due. There is one for each host that is not static.
type neighbours struct {
	of  map[netip.Addr]*neighbour
	due dueQueue
}

// dueQueue is a heap of neighbours, the one that is due first at its top (container/heap).
type dueQueue []*neighbour

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *dueQueue) Push(x any) {
	n := x.(*neighbour)
	n.place = len(*q)
	*q = append(*q, n)
}

// Pop implements heap.Interface.
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	n := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return n
}

func (ns *neighbours) add(n *neighbour) {
	ns.of[n.ip] = n
	heap.Push(&ns.due, n)
}

func (ns *neighbours) drop(ip netip.Addr) {
	if n := ns.of[ip]; n != nil {
		delete(ns.of, ip)
		heap.Remove(&ns.due, n.place)
	}
}

func (ns *neighbours) lookAt(n *neighbour, when time.Time) {
	n.next = when
	heap.Fix(&ns.due, n.place)
}

// heard notes that a host has spoken for itself, from the MAC address that it is known by.
func (l *Loop) heard(ip netip.Addr, now time.Time) {
	n := l.neighbours.of[ip]
	if n == nil { // static
		return
	}
	n.heard, n.asked = now, 0
	if n.claim != nil {
		l.refuseClaim(n, now)
	}
}

// ageHosts looks at the hosts that are due: it asks those that have been silent for long, and forgets those that neither
// answer nor have stand-ins.
func (l *Loop) ageHosts(now time.Time) {
	asked := 0
	for range lookMost {
		if len(l.neighbours.due) == 0 || l.neighbours.due[0].next.After(now) || asked >= askMost {
			return
		}
		n := l.neighbours.due[0]
		h, _, known := l.tables.FindHost(n.ip)
		switch {
		case !known: // cannot be: they come and go together
			l.neighbours.drop(n.ip)
		case n.claim != nil:
			asked += l.judgeClaim(n, h, now)
		default:
			asked += l.age(n, h, now)
		}
	}
}

// age does what a host's silence asks for, and returns how many questions it took.
func (l *Loop) age(n *neighbour, h tables.Host, now time.Time) int {
	inUse := now.Sub(l.usedAt(n.ip, now)) < refreshUsed
	believed := refreshIdle
	if inUse {
		believed = refreshUsed
	}
	fresh := n.heard.Add(believed)
	switch {
	case n.asked == 0 && fresh.After(now):
		if soon := now.Add(refreshUsed); fresh.After(soon) { // it may come to be in use before
			fresh = soon
		}
		l.neighbours.lookAt(n, fresh)
		return 0
	case !l.onLink(n.ip): // nobody but its router would answer for it
		if l.perHost[n.ip] == 0 {
			l.ageOut(n)
			return 0
		}
		l.neighbours.lookAt(n, now.Add(refreshUsed))
		return 0
	case n.asked < probesMost:
		return l.askNeighbour(n, h, h.MAC, now, probeEvery)
	case l.perHost[n.ip] == 0:
		l.ageOut(n)
		return 0
	}
	return l.askSilent(n, h, now, inUse)
}

// askSilent asks all for a host that does not answer where it was, and that still has stand-ins: it may have a new MAC
// address. Messages for it go where it was, meanwhile.
func (l *Loop) askSilent(n *neighbour, h tables.Host, now time.Time, inUse bool) int {
	if n.asked == probesMost {
		l.count.HostsSilent++
		if l.mayLog("host_silent", 1) {
			l.log.Warn("host_silent", "ip", n.ip, "mac", frame.MAC(h.MAC), "heard", n.heard,
				"note", "it has stand-ins, but answers no questions for its MAC address")
		}
	}
	wait := lastAsk
	if !inUse {
		wait = refreshIdle
	}
	return l.askNeighbour(n, h, frame.Broadcast, now, wait)
}

// askNeighbour asks a host, or all, for its MAC address, and returns how many questions that took.
func (l *Loop) askNeighbour(n *neighbour, h tables.Host, to frame.MAC, now time.Time, wait time.Duration) int {
	if !l.askAt(frame.Link{MAC: l.cfg.MAC, VID: h.VLAN}, to, n.ip) {
		l.neighbours.lookAt(n, now.Add(houseEvery))
		return askMost // the worker's ring is full: no more this time
	}
	n.asked++
	l.neighbours.lookAt(n, now.Add(wait))
	return 1
}

// usedAt returns when something last crossed by any of a host's stand-ins; the zero time if it has none.
func (l *Loop) usedAt(host netip.Addr, now time.Time) time.Time {
	var last time.Time
	if l.perHost[host] == 0 {
		return last
	}
	for s := range l.tables.StandInsOf(host) {
		if at := l.standInUsedAt(standInKey{s.Host, s.HostQPN}, now); at.After(last) {
			last = at
		}
	}
	return last
}

func (l *Loop) ageOut(n *neighbour) {
	if l.dropHost(n.ip) {
		l.count.HostsAged++
		return
	}
	l.neighbours.lookAt(n, n.next.Add(refreshUsed)) // the tables want to keep it
}

// dropHost takes a host from the tables. One that is configured without its MAC address is asked for again.
func (l *Loop) dropHost(ip netip.Addr) bool {
	if l.tables.DeleteHost(ip) != nil {
		return false
	}
	l.neighbours.drop(ip)
	if slices.Contains(l.cfg.Resolve, ip) && l.onLink(ip) {
		l.questions = append(l.questions, question{ip: ip, wait: firstAsk})
	}
	return true
}
