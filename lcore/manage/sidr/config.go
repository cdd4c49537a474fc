// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Config says which services are proxied, and for which hosts. SetPorts, SetAllow and SetTranslate change what may
// change.
type Config struct {
	Port     ibside.Services // nil: the IB port cannot; then every request is rejected
	Ports    []ibside.PortRange
	Allow    []netip.Prefix // RoCE hosts that may request services, and offer them
	RoCEPKey ib.PKey

	// Translate gives the addresses by which InfiniBand knows RoCE hosts and IB nodes, where these differ from the
	// RoCE side's.
	Translate ib.Translations
}

// serves reports whether a port is one of a configured service.
func (c *Config) serves(port uint16) bool {
	return slices.ContainsFunc(c.Ports, func(r ibside.PortRange) bool { return r.Contains(port) })
}

// allows reports whether policy lets a RoCE host request services, and offer them.
func (c *Config) allows(host netip.Addr) bool {
	return slices.ContainsFunc(c.Allow, func(p netip.Prefix) bool { return p.Contains(host) })
}

// Nodes are the IB nodes.
type Nodes interface {
	Has(ip netip.Addr) bool
	GID(ip netip.Addr) ib.GID
	// PKey returns the P_Key that is configured for a node; 0: none.
	PKey(ip netip.Addr) ib.PKey
}

// Hosts are the RoCE hosts.
type Hosts interface {
	Find(ip netip.Addr) (tables.Host, bool)
	// Learn notes where a host is, by data from it. An error and a Rejection say why it is not believed.
	Learn(ip netip.Addr, mac frame.MAC, vlan uint16, version uint8, now time.Time) (punt.Rejection, error)
	// Ask asks for a host's MAC address. It reports false when the request could not be sent.
	Ask(ip netip.Addr) bool
	// Standing reports whether a host has shown that it exists.
	Standing(ip netip.Addr) (confirmed, onLink bool)
	// Confirm asks a host whether it is there that has not shown it.
	Confirm(ip netip.Addr, mac frame.MAC, vlan uint16, now time.Time)
	// AnswersFor reports whether an address is the bridge's own or a node's.
	AnswersFor(ip netip.Addr) bool
	// IsSpoofed reports whether the sender from an address is not the one that the configuration gives it to.
	IsSpoofed(ip netip.Addr, mac frame.MAC, count bool) bool
}

// Partitions are the IB port's, by number.
type Partitions interface {
	PKey(number uint8) ib.PKey
	// Matching returns the partition of a P_Key; false: the bridge is not in it.
	Matching(ib.PKey) (uint8, bool)
}

// ProxyQPs are what services get on the other side.
type ProxyQPs interface {
	// ForService calls then with the QPN, at once or in a later turn of the loop.
	ForService(s proxyqps.Service, now time.Time, then func(ib.QPN, error))
	// Promise keeps room for what a host will need that is told of a service of a partition. Release takes that back.
	Promise(host netip.Addr, port uint16, partition uint8, now time.Time) error
	Release(host netip.Addr, port uint16, partition uint8)
}

// Deps are what SIDR works with.
type Deps struct {
	Nodes    Nodes
	Hosts    Hosts
	ProxyQPs ProxyQPs
	Local    *local.Addresses
	Frames   *punt.Workers
	Ask      *ask.Asker
	Log      *ratelog.Logger
	// Wanted has a node learned that has an address. It reports false when there is none to be learned.
	Wanted func(ip netip.Addr, now time.Time) bool
	// Partitions are those of the IB port; PartitionOf returns the number of a node's.
	Partitions  Partitions
	PartitionOf func(node ib.GID) uint8
	// Changed is called when Waiting has changed outside of a call of SetPorts.
	Changed func()
}
