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
// made counts as made in all limits; what ends its host meanwhile, ends it, too. All methods belong to the loop's
// goroutine.
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
	TakeUsed(tables.HostQP) bool
}

// A Port is the IB port.
type Port interface {
	CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error)
	DestroyProxyQP(qp uint32) error
}

// Hosts are the RoCE hosts, which are learned from data.
type Hosts interface {
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
	Max     int
	PerHost int
	Idle    time.Duration // a proxy QP that nothing crosses by for so long ends; 0: never
	Every   time.Duration // between two calls of Tick
	Workers int
	PKey    func(partition uint8) ib.PKey
}

// Deps are what proxy QPs work with, besides the parts that Connect passes.
type Deps struct {
	Tables Tables
	Port   Port // called from other goroutines
	Ask    *ask.Asker
	Log    *ratelog.Logger
}

// Counters counts what became of proxy QPs.
type Counters struct {
	ProxyQPsMade   uint64
	ProxyQPsAged   uint64 // ended, because nothing crossed by them
	ProxyQPsDenied uint64
}
