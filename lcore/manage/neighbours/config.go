// SPDX-License-Identifier: Apache-2.0

// Package neighbours learns the RoCE hosts, answers ARP and ND for IB nodes, and announces addresses.
//
//	ARP, ND ─▶ Learn ─▶ tables        a request for a node's or the bridge's address ─▶ an answer (proxy ARP, proxy ND)
//	data ────▶        Tick ─▶ probes of silent hosts; searches for configured ones; announcements
//
// What it believes: configuration before the wire. No station on Ethernet becomes the bridge or an IB node, and a
// static host stays where it is. An address in the bridge's subnets is learned from ARP, ND and data; any other, behind
// a router, from data only, and from whatever MAC address. When two MAC addresses claim one address, the holder is
// probed, and keeps it if it answers. Package schedule has the times.
//
// All methods belong to the loop's goroutine.
package neighbours

import (
	"fmt"
	"iter"
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Tables are where the hosts go.
type Tables interface {
	Put(tables.Host) (id uint32, err error)
	Delete(ip netip.Addr) error
	Find(ip netip.Addr) (h tables.Host, id uint32, ok bool)
	All() iter.Seq[tables.Host]
	Len() int
}

// NodeTables have the IB nodes that the subnet has.
type NodeTables interface {
	Find(ip netip.Addr) (n tables.Node, id uint32, ok bool)
}

// Nodes are the IB nodes.
type Nodes interface {
	Has(ip netip.Addr) bool
	// Addrs yields the addresses of all nodes.
	Addrs() iter.Seq[netip.Addr]
}

// ProxyQPs are what hosts are in use by.
type ProxyQPs interface {
	Of(host netip.Addr) int
	LastUsed(host netip.Addr, now time.Time) time.Time
	// EvictStranger ends those of a host that has not shown that it exists, and returns it.
	EvictStranger(now time.Time) (host netip.Addr, found bool)
	RemoveHost(host netip.Addr, why string)
}

// Config is what neighbours need to know. SetHosts and SetConfirm change what may change.
type Config struct {
	Max     int           // RoCE hosts; the tables have room for some more: see put
	Version uint8         // RoCE version of hosts that have sent no data yet
	Hosts   []tables.Host // static
	Resolve []netip.Addr  // hosts that are asked for their MAC address
	Confirm bool          // hosts are strangers until they have answered
}

// Deps are what neighbours work with.
type Deps struct {
	Tables     Tables
	NodeTables NodeTables
	Nodes      Nodes
	ProxyQPs   ProxyQPs
	Local      *local.Addresses
	Frames     *punt.Workers
	Log        *ratelog.Logger
	// Wanted is called when a RoCE host asks for an address that the bridge does not answer for; stranger: one that has never
	// answered. Claimed is called when a station claims a node's.
	Wanted  func(ip netip.Addr, stranger bool, now time.Time)
	Claimed func(ip netip.Addr, now time.Time)
	// Ready reports whether the bridge is ready.
	Ready func() bool
}

// Counters counts what became of hosts, and of ARP and ND.
type Counters struct {
	ARPAnswered        uint64
	NDAnswered         uint64
	HostsLearned       uint64
	HostsMoved         uint64
	HostFlaps          uint64 // moves back to where the host had just moved from
	HostConflicts      uint64 // claims of an address whose holder still answers
	HostsRejected      uint64 // no room for another
	HostsEvicted       uint64 // removed for another host, or by an operator
	HostsConfirmed     uint64 // answered a request for the first time
	HostsAged          uint64 // removed, because they neither answer nor send
	HostsSilent        uint64 // times that a host with proxy QPs stopped answering
	HostsAsked         uint64 // requests for a MAC address
	AddressesAnnounced uint64
	AddressesDefended  uint64 // announced again, because a station on Ethernet claimed them
	NodesAbsent        uint64 // requests for nodes that the subnet does not have: not answered
	Spoofs             uint64 // contradicted a static entry or claimed an address of the other side
}

type errHosts int

func (n errHosts) Error() string {
	return fmt.Sprintf("manage: there are %d RoCE hosts, which is the limit; raise [workers] hosts", int(n))
}

// errContradicts is a claim that contradicts what is known.
type errContradicts struct {
	ip netip.Addr
	by frame.MAC
}

func (e errContradicts) Error() string {
	return fmt.Sprintf("manage: %v contradicts what is known of the host %v", e.by, e.ip)
}
