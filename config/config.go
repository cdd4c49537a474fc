// SPDX-License-Identifier: Apache-2.0

// Package config turns a TOML file into a Config that the bridge can run with.
//
//	file ─▶ toml ─▶ keys known? types right? ─▶ sections ─▶ cross checks ─▶ Config
//	          └────────────┴─────────────────────┴────────────┴──▶ Problems
//
// A file is read to its end whatever it contains: every problem is reported, in line order, each
// with what to write instead. Only a syntax error of TOML hides what comes after it. A Config exists
// only when there is no problem at all, so its user need not check anything again.
//
// The table in keys.go is the one list of keys, types, defaults and meanings: the reader, the
// defaults and docs/configuration.md all come from it.
package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"causeway/ibside/ib"
)

// Config is a valid configuration of one bridge. Nothing in it changes after Parse; another one comes of Extend and the like.
type Config struct {
	Name       string
	RoCE       RoCE
	IB         IB
	Workers    Workers
	Hosts      []Host
	Groups     []Group
	Ranges     []Range
	Services   []Service
	Translates []Translate
	Policy     Policy
	QoS        QoS
	Metrics    Metrics
	Console    Console
	Log        Log

	// Notes are remarks that do not keep the bridge from running, such as a key that is
	// understood but has no effect yet. Each is one line, in the form of a Problem.
	Notes []Problem

	// values are the keys of single tables as the file has them, defaults included, by "table.key": what Diff compares.
	values map[string]string
}

// RoCE is the Ethernet side.
type RoCE struct {
	Port      EthPort
	Addresses []netip.Prefix // the bridge's own addresses; Addr() is the address, not the network
	MTU       int            // of the netdev, bytes of an IP packet
	IBMTU     ib.MTU         // largest UD payload towards RoCE, by the kernel's own rule
	V1, V2    bool           // which RoCE versions are spoken; at least one is
	VLAN      uint16         // 802.1Q id; 0: untagged
	TTL       uint8          // for packets whose GRH has no usable hop limit
	Querier   bool           // the bridge asks for listeners where nobody else does
}

// EthPort names an Ethernet port: "af_packet:eth1" has the driver af_packet and the argument eth1.
type EthPort struct {
	Driver string // mlx5, af_packet, tap, memif, pcap, ring or null
	Arg    string // a PCI address, an interface, or the driver's own arguments; "" for ring and null
}

// tapRemote stands before the interface that a tap shares with the kernel.
const tapRemote = ",remote="

// sharingTap reports whether the port is a tap that shares an interface with the kernel.
func (p EthPort) sharingTap() bool { return p.Driver == "tap" && strings.Contains(p.Arg, tapRemote) }

// String returns the port as the file has it.
func (p EthPort) String() string {
	if p.Arg == "" {
		return p.Driver
	}
	return p.Driver + ":" + p.Arg
}

// IB is the InfiniBand side.
type IB struct {
	Port IBPort
	PKey ib.PKey
	GID  ib.GID // the bridge's own; zero: the port's first that fits

	// HostGIDs: the port's other GIDs in there are for RoCE hosts to be seen under, one each.
	HostGIDs []netip.Prefix
	// AliasGIDs: RoCE hosts' GUIDs are registered as aliases of the port.
	AliasGIDs bool
}

// IBPort names a port of an HCA, or the embedded software fabric.
type IBPort struct {
	Fabric bool   // the embedded fabric; File may say what is in it
	File   string // "" for the built-in one
	Device string // an RDMA device, such as mlx5_0
	Num    uint8  // its port, from 1
}

// Workers sizes the bench.
type Workers struct {
	LCores          []int // one worker each
	Sleep           bool  // an idle worker sleeps a little instead of polling on
	MemoryMiB       int
	RxDescs         int // per queue
	TxDescs         int
	Mbufs           int // in the one mempool
	Standins        int // of all hosts together
	StandinsPerHost int
	Hosts           int // RoCE hosts known at a time
	Nodes           int // IB nodes at a time
	Groups          int // configured and learnt, at a time

	StandinDepth int           // messages that a stand-in may have under way in an HCA; a power of two
	StandinIdle  time.Duration // a stand-in that nothing crosses by for so long ends; 0: never

	PGMStreams int           // that a worker keeps an eye on
	PGMIdle    time.Duration // a stream that is silent for so long is forgotten; 0: never
}

// Side is the fabric that a host is on.
type Side uint8

// The two fabrics.
const (
	SideIB Side = iota + 1
	SideRoCE
)

// Host is a static entry: an IB node or a RoCE host that is not left to be learnt.
type Host struct {
	IP, IP6 netip.Addr // IPv4 and IPv6; at least one is valid
	Side    Side

	// InfiniBand only.
	GID ib.GID
	LID ib.LID // 0: the subnet administrator is asked
	SL  ib.SL

	Bridge bool // another bridge: what it sends has been through a bridge

	// RoCE only.
	MAC    [6]byte
	HasMAC bool   // false: resolved by ARP or ND
	VLAN   uint16 // 802.1Q id; 0: untagged
}

// Addrs returns the host's one or two addresses.
func (h Host) Addrs() []netip.Addr {
	var a []netip.Addr
	for _, ip := range []netip.Addr{h.IP, h.IP6} {
		if ip.IsValid() {
			a = append(a, ip)
		}
	}
	return a
}

// Direction says which ways a group is open: a set of ToIB and ToRoCE.
type Direction uint8

// The ways.
const (
	ToIB Direction = 1 << iota
	ToRoCE
	Both = ToIB | ToRoCE
)

// Group is one bridged multicast group.
type Group struct {
	IP         netip.Addr
	MGID       ib.GID
	Direction  Direction
	QKey       ib.QKey
	PKey       ib.PKey
	RatePPS    uint64 // 0: not policed
	PGM        bool   // its messages are PGM's, and looked at
	RewriteImm bool   // an immediate equal to the sender's QPN becomes the stand-in's
}

// Service is rdma_cm UD services, by their ports in RDMA_PS_UDP: both ends included, and the same for one port.
type Service struct {
	First, Last uint16
}

// Policy says what may cross. It is default deny.
type Policy struct {
	Allow []netip.Prefix

	// BridgeUnknown: what an unknown IB source sends crosses with the bridge's own address; else it is dropped.
	BridgeUnknown bool
}

// Allows reports whether packets from a may cross.
func (p Policy) Allows(a netip.Addr) bool {
	return slices.ContainsFunc(p.Allow, func(n netip.Prefix) bool { return n.Contains(a) })
}

// QoS maps traffic classes. Each array is complete: the default chain with the file's changes.
type QoS struct {
	SLOfDSCP [64]ib.SL
	DSCPOfSL [16]uint8
	PCPOfSL  [16]uint8
}

// Listen is an address to listen on, as net.Listen takes it.
type Listen struct {
	Network string // "tcp", "tcp4" or "unix"
	Address string
}

// Metrics is the Prometheus endpoint; an empty Network is none.
type Metrics struct {
	Listen Listen
	Pprof  bool // profiles are served, too
}

// Console is where the operators' console listens.
type Console struct {
	Listen []Listen
	Token  string // what makes admins of those who come by TCP; "": nothing does
}

// Log is how the bridge logs.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}
