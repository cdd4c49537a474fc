// SPDX-License-Identifier: Apache-2.0

// Package schedule says when something is due about RoCE hosts: when a learned host is probed or dropped, what becomes
// of two claims of one address, when an unknown host is searched for, and when an address is announced.
//
//	       Add                Heard
//	        ▼            ┌───────◀──────┐
//	reachable, a minute or ten ─ Age ─▶ probed, 3 times ─▶ dropped
//	        │                              └─ has proxy QPs ─▶ asked for by broadcast, each minute
//	     Contest ─▶ probed, twice ─ Heard ─▶ the claim is rejected, for 10 s
//	                     └───────── Judge ─▶ the address has moved
//
// Its caller knows the hosts' MAC addresses, sends the probes and reports the answers; the clock is its caller's.
// Nothing here may be called concurrently.
package schedule

import (
	"container/heap"
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A Host is a learned host.
type Host struct {
	IP    netip.Addr
	Heard time.Time // when its last frame came
	Asked int       // probes since then, without those about a claim

	next  time.Time     // when it is due
	wait  time.Duration // from the probe that is to be sent now until it is due again
	place int           // in the queue

	claim    *claim // another MAC address says that the address is its own
	rejected rejectedClaim
	sends    Place // where data that claimed its address came from last, and when
	sentAt   time.Time
	was      frame.MAC // where it was before it moved
	movedAt  time.Time
}

// Hosts are all learned hosts, by address and by when they are due. NewHosts makes them.
type Hosts struct {
	of  map[netip.Addr]*Host
	due queue
}

// NewHosts makes Hosts without any.
func NewHosts() *Hosts { return &Hosts{of: map[netip.Addr]*Host{}} }

// Find returns a host, nil for one that is not there.
func (hs *Hosts) Find(ip netip.Addr) *Host { return hs.of[ip] }

// Add adds a host whose frame has come just now. It must not be there.
func (hs *Hosts) Add(ip netip.Addr, now time.Time) {
	n := &Host{IP: ip, Heard: now, next: now.Add(refreshUsed)}
	hs.of[ip] = n
	heap.Push(&hs.due, n)
}

// Drop removes a host, if it is there.
func (hs *Hosts) Drop(ip netip.Addr) {
	if n := hs.of[ip]; n != nil {
		delete(hs.of, ip)
		heap.Remove(&hs.due, n.place)
	}
}

// Due returns the host that is due first, nil when none is.
func (hs *Hosts) Due(now time.Time) *Host {
	if len(hs.due) == 0 || hs.due[0].next.After(now) {
		return nil
	}
	return hs.due[0]
}

// Heard records a frame of a host from the MAC address of its entry. If another MAC address has claimed the address,
// the claim is rejected: Heard returns whose it was.
func (hs *Hosts) Heard(ip netip.Addr, now time.Time) (claimant frame.MAC, rejected bool) {
	n := hs.of[ip]
	if n == nil {
		return claimant, false
	}
	n.Heard, n.Asked = now, 0
	if n.claim == nil {
		return claimant, false
	}
	by := n.claim.to.MAC
	n.claim, n.rejected = nil, rejectedClaim{by, now.Add(defendEvery)}
	hs.lookAt(n, now.Add(refreshUsed))
	return by, true
}

// Asked notes that the probe was sent that Age or Judge wanted.
func (hs *Hosts) Asked(n *Host, now time.Time) {
	if n.claim != nil {
		n.claim.asked++
	} else {
		n.Asked++
	}
	hs.lookAt(n, now.Add(n.wait))
}

// Postpone makes a host due later.
func (hs *Hosts) Postpone(n *Host, until time.Time) { hs.lookAt(n, until) }

// Keep makes a host due a minute after it was due, that was to be dropped and could not be.
func (hs *Hosts) Keep(n *Host) { hs.lookAt(n, n.next.Add(refreshUsed)) }

func (hs *Hosts) lookAt(n *Host, when time.Time) {
	n.next = when
	heap.Fix(&hs.due, n.place)
}

// queue is a heap of hosts, the one that is due first at its top (container/heap).
type queue []*Host

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	n := x.(*Host)
	n.place = len(*q)
	*q = append(*q, n)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	n := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return n
}
