// SPDX-License-Identifier: Apache-2.0

// Package neighbour remembers the RoCE hosts that the bridge has learned: when each last spoke for itself, when it is asked for
// its MAC address, and who else claims its address.
//
//	       Add                Heard
//	        ▼            ┌───────◀──────┐
//	believed, a minute or ten ─ Age ─▶ asked alone, 3 times ─▶ forgotten
//	        │                           └─ has stand-ins ─▶ all are asked, each minute
//	     Contest ─▶ asked alone, twice ─ Heard ─▶ the claim is refused, for 10 s
//	                        └─────────── Judge ─▶ the address has moved
//
// It decides what is due; its caller knows the hosts' MAC addresses, asks, and says what came of it. The time is the caller's,
// too. Nothing here may be called concurrently.
package neighbour

import (
	"container/heap"
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A Host is what is remembered of a host.
type Host struct {
	IP    netip.Addr
	Heard time.Time // when it last spoke for itself
	Asked int       // questions since then that it has not answered; not those about a claim

	next  time.Time     // when it is looked at next
	wait  time.Duration // from the question that is to be put now until it is looked at again
	place int           // in the queue

	claim   *claim // another MAC address says that the address is its own
	refused turnedAway
	was     frame.MAC // where it was before it moved
	movedAt time.Time
}

// A Book is all hosts, by address and by when they are due. New makes one.
type Book struct {
	of  map[netip.Addr]*Host
	due queue
}

// New makes a book without hosts.
func New() *Book { return &Book{of: map[netip.Addr]*Host{}} }

// Find returns what is remembered of a host, nil for one that is not in the book.
func (b *Book) Find(ip netip.Addr) *Host { return b.of[ip] }

// Add puts a host into the book that has spoken just now. It must not be there.
func (b *Book) Add(ip netip.Addr, now time.Time) {
	n := &Host{IP: ip, Heard: now, next: now.Add(refreshUsed)}
	b.of[ip] = n
	heap.Push(&b.due, n)
}

// Drop takes a host out of the book, if it is there.
func (b *Book) Drop(ip netip.Addr) {
	if n := b.of[ip]; n != nil {
		delete(b.of, ip)
		heap.Remove(&b.due, n.place)
	}
}

// Due returns the host that is due first, nil when none is.
func (b *Book) Due(now time.Time) *Host {
	if len(b.due) == 0 || b.due[0].next.After(now) {
		return nil
	}
	return b.due[0]
}

// Heard notes that a host has spoken for itself, from the MAC address that it is known by. If another one has claimed the
// address, the claim is refused: Heard returns whose it was.
func (b *Book) Heard(ip netip.Addr, now time.Time) (refused frame.MAC, ok bool) {
	n := b.of[ip]
	if n == nil {
		return refused, false
	}
	n.Heard, n.Asked = now, 0
	if n.claim == nil {
		return refused, false
	}
	by := n.claim.to.MAC
	n.claim, n.refused = nil, turnedAway{by, now.Add(defendEvery)}
	b.lookAt(n, now.Add(refreshUsed))
	return by, true
}

// Asked notes that the question was put that Age or Judge wanted.
func (b *Book) Asked(n *Host, now time.Time) {
	if n.claim != nil {
		n.claim.asked++
	} else {
		n.Asked++
	}
	b.lookAt(n, now.Add(n.wait))
}

// Postpone has a host looked at later, as it is.
func (b *Book) Postpone(n *Host, until time.Time) { b.lookAt(n, until) }

// Keep has a host looked at again, a minute after it was due, that was to be forgotten and could not be.
func (b *Book) Keep(n *Host) { b.lookAt(n, n.next.Add(refreshUsed)) }

func (b *Book) lookAt(n *Host, when time.Time) {
	n.next = when
	heap.Fix(&b.due, n.place)
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
