// SPDX-License-Identifier: Apache-2.0

// Package config turns a TOML file into a Config that the bridge can run with.
//
//	file ─▶ toml ─▶ keys known? types right? ─▶ sections ─▶ cross checks ─▶ Config
//	          └────────────┴─────────────────────┴────────────┴──▶ Problems
//
// Parse reports all problems of a file in line order, each with what to write instead. Only a TOML syntax error hides
// what follows it. A Config exists only when there is no problem, so its users need not check it again.
//
// The tables in keys.go are the one list of keys, types, defaults and meanings. The parser, the defaults and
// docs/configuration.md use it.
package config

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"causeway/ibside/ib"
)

// Config is a valid configuration of one bridge. It does not change after Parse; Extend and the like return another
// one.
type Config struct {
	Name       string
	Beside     []string // other bridges or fleets that may be between the same fabrics
	RoCE       RoCE     // the first segment
	More       []RoCE   // the others, in the order of the file
	IB         IB
	MoreIB     []IB // further ports
	Fabrics    Fabrics
	Workers    Workers
	Hosts      []Host
	Groups     []Group
	Ranges     []Range
	Services   []Service
	Translates []Translate
	Policy     Policy
	QoS        QoS
	Metrics    Metrics
	Fleet      Fleet
	Console    Console
	Log        Log

	// Notes are remarks that do not keep the bridge from running, one line each, in the form of a Problem.
	Notes []Problem

	// values are the values of single tables in the form of the file, with defaults, by "table.key". Diff compares
	// them.
	values map[string]string

	origin origin // for Save
}

// RoCE is a segment of the Ethernet side: a VLAN of a port.
type RoCE struct {
	Port      EthPort
	Addresses []netip.Prefix // the bridge's own addresses; Addr() is the address, not the network
	MTU       int            // of the netdev, bytes of an IP packet
	IBMTU     ib.MTU         // largest UD payload to RoCE, by the kernel's rule
	V1, V2    bool           // the RoCE versions in use; at least one is set
	VLAN      uint16         // 802.1Q id; 0: untagged
	PKey      ib.PKey        // of the one partition that its messages cross to and from; 0: all do
	TTL       uint8          // of packets to RoCE whose GRH has no usable hop limit
	Allow     []netip.Prefix // hosts of this segment alone that may send across, besides those of Policy
	Querier   bool           // the bridge is an IGMP and MLD querier unless another one is active

	several bool // there are several ports, so that its name has the port
}

// EthPort names an Ethernet port: "af_packet:eth1" has the driver af_packet and the argument eth1.
type EthPort struct {
	Driver string // mlx5, af_packet, tap, memif, pcap, ring, null or bond
	Arg    string // a PCI address, an interface, or the driver's own arguments; "" for ring and null
}

// tapRemote precedes the interface that a tap shares with the kernel.
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

	HostGIDs []netip.Prefix // the bridge assigns the port's other GIDs in these prefixes to RoCE hosts, one each
	Learn    bool           // nodes that are not configured are learned
	NodeIdle time.Duration  // a learned node that is unused and does not answer goes after so long
	IPoIB    string         // the interface that they are learned from; "": that of the port

	Name   string // of the port, among several
	Fabric string // ports with the same one are on one

	AliasGIDs bool // the bridge registers RoCE hosts' GUIDs as alias GUIDs of the port
	Direct    bool // workers may use the device's queues without its library
}

// IBPort names a port of an HCA, or the embedded software fabric.
type IBPort struct {
	Fabric bool   // the embedded fabric, which File describes
	File   string // "" for the built-in one
	Device string // an RDMA device, such as mlx5_0
	Num    uint8  // its port, from 1
}

// String returns the port as the file has it.
func (p IBPort) String() string {
	if p.Fabric {
		return "fabric:" + p.File
	}
	return p.Device + ":" + strconv.Itoa(int(p.Num))
}

// Idle is what a worker does that has nothing to do, as the file has it.
type Idle string

// What an idle worker does.
const (
	IdleAuto      Idle = "auto"
	IdlePoll      Idle = "poll"
	IdleSleep     Idle = "sleep"
	IdleInterrupt Idle = "interrupt"
)

// Workers sizes the datapath.
type Workers struct {
	LCores                          []int // one worker each
	Management                      *int  // the CPU of management's thread; nil: any
	Idle                            Idle
	MemoryMiB                       int
	RxDescs                         int // per queue
	TxDescs                         int
	Mbufs                           int // in the one mempool
	RecvBuffers                     int // of each worker at the HCA; 0: the port's default
	ProxyQPs                        int // of all hosts
	ProxyQPsPerHost                 int
	ProxyQPsUnconfirmed             int // of a host that has not answered ARP or ND; 0: no limit
	ProxyQPRate, ProxyQPRatePerHost int // new ones in a second, in all and of one host; 0: no limit
	Hosts                           int // RoCE hosts known at a time
	Nodes                           int // IB nodes at a time
	Groups                          int // configured and learned, at a time

	ProxyQPDepth int           // depth of its send queue in an HCA; a power of two
	ProxyQPIdle  time.Duration // an unused proxy QP is destroyed after this time; 0: never

	PGMStreams int           // that a worker tracks
	PGMIdle    time.Duration // a silent stream is dropped after this time; 0: never
}

// Side is the fabric that a host is on.
type Side uint8

// The two fabrics.
const (
	SideIB Side = iota + 1
	SideRoCE
)

var sideNames = []string{SideIB: "ib", SideRoCE: "roce"}

// Host is a static entry: an IB node, or a RoCE host that is not learned.
type Host struct {
	IP, IP6 netip.Addr // IPv4 and IPv6; at least one is valid
	Side    Side

	// InfiniBand only.
	GID  ib.GID
	GIDs HostGIDs
	LID  ib.LID // 0: from the subnet administrator
	SL   ib.SL
	PKey ib.PKey // 0: that by which its last message came

	Bridge bool // another bridge, whose packets must not cross again

	// RoCE only.
	MAC    [6]byte
	HasMAC bool    // false: resolved by ARP or ND
	VLAN   uint16  // 802.1Q id; 0: untagged
	Port   EthPort // of its segment, where the VLAN does not tell
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

// Direction says in which directions a group's packets cross: a set of ToIB and ToRoCE.
type Direction uint8

// The directions.
const (
	ToIB Direction = 1 << iota
	ToRoCE
	Both = ToIB | ToRoCE
)

var directionNames = []string{ToIB: "to-ib", ToRoCE: "to-roce", Both: "both"}

// String returns the direction as the file has it.
func (d Direction) String() string { return directionNames[d] }

// Group is one bridged multicast group.
type Group struct {
	IP         netip.Addr
	UDPPort    uint16 // on Ethernet the group is plain UDP to this port; 0: RoCE
	TTL        uint8  // of plain UDP
	MGID       ib.GID
	Direction  Direction
	QKey       ib.QKey
	PKey       ib.PKey
	RatePPS    uint64       // 0: not policed
	PGM        bool         // its messages are PGM, whose streams the workers track
	RewriteImm bool         // an immediate equal to the sender's QPN becomes the proxy QP's
	Sources    []netip.Addr // that the bridge is a member for on RoCE, in order; none: all
	Fabrics    string       // how it uses several ports, and what tells copies; "": as [fabrics] says
	Dedup      string
	VLANs      []uint16 // the segments that have it, in order; none, here and in Segments: that of its P_Key
	Segments   []Place  // the same, with their ports
}

// Service is a range of rdma_cm UD services, by their ports in RDMA_PS_UDP, inclusive.
type Service struct {
	First, Last uint16
	Scope
}

// Policy says which sources may send across. The default is deny.
type Policy struct {
	Allow []netip.Prefix // of all segments

	// BridgeUnknown: packets of an unknown IB source cross with the bridge's own address as the source; else they are
	// dropped.
	BridgeUnknown bool
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
	Pprof  bool // serve profiles, too

	Insecure bool // profiles may be served to other machines
}

// Console is the operators' console.
type Console struct {
	Listen []Listen
	Token  string // login with it allows changes over TCP; "": nothing does
}

// Log says how the bridge logs.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}
