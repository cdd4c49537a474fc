// SPDX-License-Identifier: Apache-2.0

// Package proxyqps makes and ends proxy QPs: UD QPs on the IB side, each of which represents one RoCE (host, QPN).
//
//	pending packet ─ HandlePending ─▶ its source is learned ─▶ making ─ ask ─▶ the IB port makes a QP
//	                                        │                    │ inbox ◀───────┘
//	                                        │                    └─▶ tables ─▶ the packet is requeued
//	                                        └─ it has a proxy QP; its host has moved ─▶
//	a service's answer ─ ForService ─▶ making
//	                                   nothing crosses by it for long: Tick ─▶ tables ─ ask ─▶ destroyed
//
// The port's calls wait for an HCA's firmware, so each runs in a goroutine of its own (ask). A proxy QP that is being
// made counts as made in all limits; what ends its host meanwhile, ends it, too.
//
// Anybody on Ethernet can forge addresses, and so want proxy QPs without end. Those that nothing came back to make room
// for others (eviction.go). A host gets a few until it has shown that it exists, and strangers share a part of those
// that are made in a second; the rest is left to the others (admission.go).
//
// All methods belong to the loop's goroutine.
package proxyqps

import (
	"iter"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Tables are where the proxy QPs go.
type Tables interface {
	Put(tables.ProxyQP) (id uint32, err error)
	Delete(tables.HostQP) error
	Find(tables.HostQP) (s tables.ProxyQP, id uint32, ok bool)
	Of(host netip.Addr) iter.Seq[tables.ProxyQP]
	TakeUsed(tables.HostQP) (toIB, toRoCE bool)
}

// A Port is the IB port.
type Port interface {
	CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error)
	DestroyProxyQP(qp uint32) error
}

// Hosts are the RoCE hosts, which are learned from data.
type Hosts interface {
	// Standing reports whether a host has shown that it exists, and whether it is in a subnet of the bridge's, where it
	// can be asked to. Confirm asks it, at the MAC address that its packet came from.
	Standing(ip netip.Addr) (confirmed, onLink bool)
	Confirm(ip netip.Addr, mac frame.MAC, vlan uint16, now time.Time)
	// Find returns a host that is known.
	Find(ip netip.Addr) (tables.Host, bool)
	// Learn notes where a host is, by data from it. An error and a Rejection say why it is not believed.
	Learn(ip netip.Addr, mac frame.MAC, vlan uint16, version uint8, now time.Time) (punt.Rejection, error)
}

// Sources are the GIDs that hosts' proxy QPs send from.
type Sources interface {
	// Give returns the number of a host's source, which is its own from now on if there is one for it.
	Give(host netip.Addr) uint8
	Drop(host netip.Addr)
}

// Config is what proxy QPs need to know. SetLimits and SetAllow change what may change.
type Config struct {
	Max int
	Limits
	Every   time.Duration // between two calls of Tick
	Workers int
	Waiting int // packets that wait for proxy QPs, at most; 0: WaitMost
	PKey    func(partition uint8) ib.PKey
}

// Limits are those that may change.
type Limits struct {
	PerHost     int
	Unconfirmed int           // of one host, until it has shown that it exists
	Rate        int           // new ones in a second; 0: no limit
	RatePerHost int           // the same of one host
	Idle        time.Duration // a proxy QP that nothing crosses by for so long ends; 0: never
}

// Deps are what proxy QPs work with, besides the parts that Connect passes.
type Deps struct {
	Tables Tables
	Port   Port // called from other goroutines
	// IsShort reports whether an error of CreateProxyQP says that the device makes no more queue pairs than there are.
	IsShort func(error) bool
	Ask     *ask.Asker
	Log     *ratelog.Logger
}

// Counters counts what became of proxy QPs.
type Counters struct {
	ProxyQPsMade    uint64
	ProxyQPsAged    uint64 // ended, because nothing crossed by them
	ProxyQPsEvicted uint64 // ended, to make room for another host's
	ProxyQPsDenied  uint64
}
