// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"slices"
)

// kind is the type that a key's value must have.
type kind uint8

const (
	text    kind = iota // "..."
	number              // 12, 0xffff
	truth               // true, false
	texts               // ["...", "..."]
	numbers             // [1, 2]
	mapping             // { 46 = 5 }: number to number
)

// key describes one key of the file. Nothing else knows a default.
type key struct {
	table   string // set by linked
	name    string
	kind    kind
	def     any      // string, int64, bool, []string or []int64; nil: empty or not set
	need    bool     // an error when it is missing
	lo, hi  int64    // number, numbers: the range; mapping: of the values
	keyHi   int64    // mapping: its keys run from 0 to keyHi
	words   []string // text, texts: only these are allowed
	hex     bool     // number: shown in hexadecimal
	noted   string   // the default in words, where def alone does not say it
	tooLow  string   // number: what is wrong below the range
	example string   // a right value, for messages about wrong ones
	meaning string
	inRange string // the meaning in [[range]], for a key of groupKeys; "": that of [[group]]
	live    bool   // a running bridge takes another value; linked sets it for all keys of a live table
	secret  bool   // not shown
	shared  bool   // all members of a fleet have the same; linked sets it for all keys of a shared table
	own     bool   // in a shared table: each member has its own
}

// tableDoc is one table of the file.
type tableDoc struct {
	name    string
	many    bool // [[name]]
	need    bool
	meaning string
	live    bool // a running bridge takes other values of all its keys, and other entries
	shared  bool // all members of a fleet have the same
	keys    []key
}

// tables lists the tables in the order in which a file usually has them, each with all its keys.
var tables = linked([]tableDoc{
	{name: "bridge", meaning: "The bridge itself.", keys: []key{
		{name: "name", kind: text, def: "causeway", example: `"causeway-1"`,
			meaning: "The name of this bridge in logs, metrics, the console and to other bridges."},
		{name: "beside", live: true, kind: texts, noted: "none", example: `["causeway-2"]`,
			meaning: "Names of bridges or fleets that may be between the same two fabrics, and are not of this one's fleet; each names the other. Their groups, ranges and nodes must differ. Without it, and where they do not differ, the bridge that came later carries nothing (`rival_first`)."},
	}},
	{name: "roce", need: true, meaning: "The Ethernet side. As `[[roce]]`, once for each, it has several segments: VLANs of one port or of several, each with a partition of " +
		"InfiniBand (`pkey`), 8 at most. Nothing crosses from one to another, and a host is known by its segment and address: two segments may have the same addresses. " +
		"While the bridge runs, segments may come and go; of one that stays, known by its `port` and `vlan`, only what says so below may change. A port is opened with its first segment, and closed with its last.", keys: []key{
		{name: "port", kind: text, need: true, live: true, example: `"af_packet:eth1"`,
			meaning: "The Ethernet port, in a further `[[roce]]` by default that of the first: `mlx5:PCI-ADDRESS`, `af_packet:INTERFACE`, `tap:NEW-INTERFACE`, `tap:NEW-INTERFACE,remote=INTERFACE`, " +
				"`memif:SOCKET` with `,role=server` or `,id=N`, `pcap:FILE` or `pcap:IN,OUT`, `ring`, or `null`. `bond:active-backup,PORT,PORT` and " +
				"`bond:lacp,PORT,PORT` are 2 to 8 ports of `af_packet` or of `tap` as one. With `mlx5` and with `,remote=` " +
				"the bridge shares the interface with the kernel: the bridge receives all RoCE packets, the kernel everything else, and the two " +
				"must not have the same addresses. A tap with `,remote=` serves one worker and sets INTERFACE's MTU to `mtu`, at most 1504. " +
				"While the bridge runs, all can be opened but an `mlx5` port that the bridge did not have when it started."},
		{name: "addresses", kind: texts, need: true, example: `["10.9.0.254/24"]`,
			meaning: "The bridge's own addresses with their prefix lengths. Their subnets are on the link."},
		{name: "mtu", shared: true, kind: number, def: int64(1500), lo: minMTU, hi: 9216, tooLow: "is too small for any IB MTU",
			example: "4200",
			meaning: "The netdev's MTU in bytes. The IB MTU towards RoCE is the largest that fits in mtu - 80: 1500 gives 1024, " +
				"4200 gives 4096."},
		{name: "versions", shared: true, kind: texts, def: []string{"v2"}, words: []string{"v2", "v1"}, example: `["v2"]`,
			meaning: "The RoCE versions in use: `v2` is UDP port 4791, `v1` ethertype 0x8915."},
		{name: "vlan", shared: true, kind: number, def: int64(0), lo: 0, hi: 4094, example: "100",
			meaning: "The 802.1Q VLAN id; 0 is untagged."},
		{name: "pkey", shared: true, kind: number, noted: "any", lo: 1, hi: 0xffff, hex: true, example: "0xffff",
			meaning: "The P_Key of the one partition that messages of this segment cross to and from, whatever else there is (`wrong_partition`): nodes " +
				"with another `pkey` are out of its reach, and groups are those with this `pkey`. Needed where there are several segments; without it, " +
				"messages cross to and from all partitions. On Ethernet the P_Key stays 0xffff."},
		{name: "allow", shared: true, live: true, kind: texts, noted: "none", example: `["10.9.0.0/24"]`,
			meaning: "Prefixes whose hosts may send across from this segment, besides those of `[policy] allow`, which are of all segments."},
		{name: "ttl", shared: true, kind: number, def: int64(64), lo: 1, hi: 255, example: "64",
			meaning: "The TTL or hop limit of packets to RoCE whose GRH is missing or has a hop limit below 2."},
		{name: "querier", kind: truth, def: false, live: true, example: "true",
			meaning: "Whether the bridge is an IGMPv3 and MLDv2 querier on the RoCE side: it sends general queries every 125 seconds, unless a querier " +
				"with a lower address does. Snooping switches forward reports to queriers only, so a `[[range]]` needs this bridge as the querier, " +
				"or another one and a switch port to this bridge that receives reports."},
	}},
	{name: "ib", need: true, meaning: "The InfiniBand side. Several ports are written as `[[ib]]`, once for each: the first takes all keys, further ones those of " +
		"`[[ib_port]]`.", keys: append([]key{
		{name: "port", kind: text, need: true, example: `"mlx5_0:1"`,
			meaning: "The InfiniBand port: `DEVICE:PORT`, or `fabric:` for the embedded software fabric, or `fabric:FILE` for one " +
				"described in a file, relative to this one, or `fabric:SOCKET` to be a port of the software fabric of another process, at the " +
				"`socket` of its file. What is at the path decides between the two; where nothing is, a path that ends in `.sock` is a socket. " +
				"Without a fabric there the bridge does not start, as without a device (exit code 75). When the fabric ends later, the port is down, and attaches again " +
				"by itself when one is there. Bridges on one fabric need different `[bridge] name`s, of which their GUIDs are made."},
		{name: "pkey", shared: true, kind: number, def: int64(0xffff), lo: 1, hi: 0xffff, hex: true, example: "0xffff",
			meaning: "The P_Key on InfiniBand, where a host or group has no other; bit 15 is full membership. While the port's table does not have a P_Key, " +
				"the bridge waits for it, unready. A bridge uses 8 partitions at most from its start to its end: a reload that would " +
				"bring more is rejected. RoCE always uses 0xffff."},
		{name: "gid", kind: text, noted: "the port's first that fits", example: `"fe80::2:c903:0:1"`,
			meaning: "The bridge's own GID, one of the port's. The default is the first; where the device's link layer is Ethernet, that of its " +
				"first IPv4 address. Only for `DEVICE:PORT`."},
		{name: "host_gids", kind: texts, noted: "none", example: `["fe80::2:c903:0:100/120"]`,
			meaning: "Prefixes of the port's other GIDs (alias GUIDs; where the link layer is Ethernet, further addresses of its network " +
				"interface) that the bridge assigns to RoCE hosts as their source GIDs, one each, first come, first served. A GID that equals a " +
				"host's address always belongs to that host; a host without a GID uses the bridge's. Only for `DEVICE:PORT`, and with one port."},
		{name: "alias_gids", kind: truth, def: false, example: "true",
			meaning: "Whether the bridge registers RoCE hosts' GUIDs with the subnet administrator as alias GUIDs of the port, as many as it has " +
				"room for, so that their GIDs resolve to the bridge: those of IPv6 addresses with the subnet's prefix, and those of MAC addresses " +
				"(the default GID of RoCE interfaces). With `host_gids`, only GIDs in these prefixes. Any RoCE host can claim an address, and so " +
				"an entry. Only for `DEVICE:PORT` with InfiniBand as link layer, and with one port."},
		{name: "direct", kind: truth, def: true, example: "false",
			meaning: "Whether workers write and read an mlx5 HCA's queues themselves, where its link layer is InfiniBand, and do not call its library for " +
				"each message. With many proxy QPs in use that takes less than half of the time. With `false`, and on all other devices, they call libibverbs. `show ports` has what is in use."},
		{name: "nodes", shared: true, kind: text, def: "configured", words: []string{"configured", "learn"}, example: `"learn"`,
			meaning: "Where the IB nodes come from: the `[[host]]` entries alone, or `learn`: all others are learned, as many as `[workers] " +
				"nodes` leaves room for. A node is asked for when it sends a message, or when a RoCE host asks for its address. The kernel's " +
				"neighbours on IPoIB tell which GID has an address, the subnet administrator tells the path to it. Addresses must be in " +
				"`[policy] allow`, in a subnet of `[roce] addresses` and of the IPoIB interface. A `[[host]]` wins, and a RoCE host keeps an " +
				"address that it has. Only for `DEVICE:PORT` with InfiniBand as link layer and an IPoIB interface, and with one port."},
		{name: "node_idle", kind: number, def: int64(600), lo: 10, hi: 31_536_000, example: "600",
			meaning: "The seconds after which a learned node is removed that neither sends nor receives, nor answers on IPoIB."},
		{name: "ipoib", kind: text, noted: "that of the port", example: `"ib0"`,
			meaning: "The IPoIB interface that nodes are learned from. The default is the one of the port in the partition `pkey`."},
	}, portNameKeys()...)},
	morePortsDoc,
	fabricsDoc,
	{name: "workers", meaning: "The packet path: its cores, its memory and its bounds.", keys: []key{
		{name: "lcores", kind: numbers, def: []int64{1}, lo: 0, hi: 127, example: "[2, 3]",
			meaning: "The logical cores of the workers, one each. Nothing else should run on them. They belong on the NUMA node of the " +
				"Ethernet port and of the HCA."},
		{name: "management", kind: number, noted: "none", lo: 0, hi: 1023, example: "0",
			meaning: "A core for the management loop alone, which is not one of `lcores`: its thread stays there, on the workers' NUMA node, and " +
				"is an lcore of DPDK (`show cores`). By default the system chooses a core, as for all other threads."},
		{name: "idle", kind: text, def: "auto", words: []string{"auto", "poll", "sleep", "interrupt"}, example: `"poll"`,
			meaning: "What an idle worker does. With `poll` it goes on looking for packets, which has the least latency and uses the whole " +
				"core. With `interrupt` it sleeps until a port wakes it, which uses next to nothing; both ports must be able to: `memif`, " +
				"`pcap`, `null` and `ring` cannot. With `sleep` it looks for packets every 70 microseconds, with any port, which uses a fifth of " +
				"a core. `auto` is `poll` where all of `lcores` are isolated (`isolcpus`), else `interrupt`, and `sleep` where a port cannot " +
				"wake anybody. Under load workers poll in any case."},
		{name: "memory_mib", kind: number, def: int64(512), lo: 64, hi: 1 << 20, example: "512",
			meaning: "The memory for packets and tables, in MiB."},
		{name: "rx_descs", kind: number, noted: "1024; 8192 with `af_packet`", lo: 64, hi: 32768, example: "1024",
			meaning: "Receive descriptors of each Ethernet queue; a power of two. With `af_packet` these are frames of the kernel's ring, which " +
				"has as many to send: the default lasts for 10 ms at 0.8 million frames a second, and takes 25 MiB of each queue at an MTU of " +
				"1500, 67 MiB at 4200. A process that may lock less memory has smaller rings (`ethernet_port` in the log)."},
		{name: "tx_descs", kind: number, def: int64(1024), lo: 64, hi: 32768, example: "1024",
			meaning: "Transmit descriptors of each Ethernet queue; a power of two."},
		{name: "mbufs", kind: number, noted: "24576 a core", lo: 1024, hi: 1 << 24, example: "24576",
			meaning: "Packet buffers in the mempool that both ports share. The default is 16384 for each core of `lcores`, and with an HCA " +
				"`recv_buffers` (8192) besides; but no more than half of `memory_mib` holds, unless that is less than 16384 in all."},
		{name: "recv_buffers", kind: number, noted: "1 ms at full rate", lo: 64, hi: 32768, example: "8192",
			meaning: "Receive buffers that each worker keeps posted at the HCA, out of `mbufs`: messages that come while a worker is busy wait " +
				"there, and are lost (`out_of_buffer`) when there are none left. The default is 8192, or what a slow port carries in 1 ms; of all " +
				"workers a third of `mbufs` at most. Where the HCA holds fewer, it has as many as it can (`receive_buffers` in the log)."},
		{name: "proxy_qps", kind: number, def: int64(4096), lo: 1, hi: 1 << 20, example: "4096",
			meaning: "The most proxy QPs at a time. A proxy QP is a UD QP on InfiniBand that represents one queue pair of a RoCE host."},
		{name: "proxy_qps_per_host", live: true, kind: number, def: int64(512), lo: 1, hi: 1 << 20, example: "512",
			meaning: "The most proxy QPs of one RoCE host, so that no host can use them all; by default at most `proxy_qps`. A host that has no " +
				"room for another gets \"no QP\" as answer when it asks for a service."},
		{name: "proxy_qps_unconfirmed", live: true, kind: number, def: int64(4), lo: 0, hi: 1 << 20, example: "4",
			meaning: "The most proxy QPs of a RoCE host in a subnet of `[roce] addresses` that has not answered ARP or ND yet (`src_unconfirmed`), so that " +
				"forged addresses cannot use them all; 0 is no limit. The bridge asks a host when it asks for an address of the bridge's or a node's, " +
				"and when it sends. A host that answers neither ARP nor ND needs a `[[host]]` entry with its `mac`."},
		{name: "proxy_qp_rate", live: true, kind: number, noted: "`proxy_qps`", lo: 0, hi: 1 << 20, example: "4096",
			meaning: "The most proxy QPs that are made in a second (`proxy_qp_rate`); as many at once. Hosts that have not answered ARP or ND, and those " +
				"behind routers, share a quarter of it. 0 is no limit."},
		{name: "proxy_qp_rate_per_host", live: true, kind: number, noted: "`proxy_qps_per_host`", lo: 0, hi: 1 << 20, example: "512",
			meaning: "The same for one RoCE host."},
		{name: "proxy_qp_depth", kind: number, def: int64(128), lo: 16, hi: 32768, example: "128",
			meaning: "The depth of a proxy QP's send queue in an HCA, in messages; a power of two. The queues take most of the HCA's and the kernel's " +
				"memory for proxy QPs."},
		{name: "proxy_qp_idle", live: true, kind: number, def: int64(86400), lo: 0, hi: 31_536_000, example: "86400",
			meaning: "The seconds after which an unused proxy QP is destroyed; 0 is never. Its QPN is then free, " +
				"and the RoCE queue pair gets a new proxy QP with the next message that it sends."},
		{name: "pgm_streams", kind: number, def: int64(1024), lo: 4, hi: 1 << 20, example: "1024",
			meaning: "The PGM streams that a worker tracks, in groups that have `pgm`; rounded up to a power of two. Each takes about 530 bytes."},
		{name: "pgm_idle", kind: number, def: int64(300), lo: 0, hi: 31_536_000, example: "300",
			meaning: "The seconds after which a worker stops tracking a silent PGM stream; 0 is never."},
		{name: "hosts", kind: number, def: int64(16384), lo: 1, hi: 1 << 20, example: "16384",
			meaning: "The most RoCE hosts known at a time."},
		{name: "nodes", kind: number, def: int64(4096), lo: 1, hi: 1 << 20, example: "4096",
			meaning: "The most IB nodes at a time: the `[[host]]` entries with `side = \"ib\"`, including those added while the bridge runs, and learned ones."},
		{name: "groups", kind: number, def: int64(1024), lo: 1, hi: 1 << 16, example: "1024",
			meaning: "The most groups at a time: those of the file, those added while the bridge runs, and learned ones."},
	}},
	{name: "host", many: true, live: true, shared: true, meaning: "A static entry for an IB node or a RoCE host. IB nodes need one, unless they are learned (`[ib] nodes`); RoCE hosts are " +
		"learned. Learning never overwrites a static entry.", keys: []key{
		{name: "ip", kind: text, example: `"10.9.0.7"`,
			meaning: "The host's address, IPv4 or IPv6. Either this or `ip6` is needed."},
		{name: "ip6", kind: text, example: `"fd09::7"`,
			meaning: "The host's IPv6 address, if `ip` is its IPv4 address."},
		{name: "side", kind: text, need: true, words: []string{"ib", "roce"}, example: `"ib"`,
			meaning: "The fabric that the host is on."},
		{name: "gid", kind: text, example: `"fe80::2:c903:0:7"`,
			meaning: "IB only, needed: the node's port GID."},
		{name: "more_gids", kind: texts, noted: "none", example: `["fe80::2:c903:0:107"]`,
			meaning: "IB only, with several `[[ib]]`: the node's port GIDs on the second and further fabrics, in the order of `[[ib]]`, `\"\"` where it has none. " +
				"`gid` is then that on the first; alone it is looked for on all."},
		{name: "lid", kind: number, noted: "from the SA", lo: 1, hi: 0xbfff, hex: true, example: "7",
			meaning: "IB only, with one port: the node's LID, its only one. The subnet manager knows more: all LIDs of the port, the MTU and rate of the path, and when they change."},
		{name: "sl", kind: number, def: int64(0), lo: 0, hi: 15, example: "0",
			meaning: "IB only: the service level of the path to the node."},
		{name: "pkey", kind: number, noted: "see the text", lo: 1, hi: 0xffff, hex: true, example: "0x8001",
			meaning: "With `ib`: the P_Key for messages to the node, which must be in the IB port's table, and the only one that the node's requests for " +
				"services may have. Where there are several `[[roce]]`, it says which of them reaches the node, and only nodes that have it can ask for services of RoCE hosts. Without it, the P_Key is that by which the node's last message came, and at first that of `[ib]`."},
		{name: "bridge", kind: truth, def: false, example: "true",
			meaning: "IB only: the host is another Causeway. Its packets have crossed a bridge already and do not cross back (`loop_bridge`). Bridges find each other by the subnet administrator; only where the log has `bridges_unknown` or `no_subnet_client` must it be said."},
		{name: "mac", kind: text, noted: "by ARP or ND", example: `"02:00:00:00:00:07"`,
			meaning: "RoCE only: the host's MAC address."},
		{name: "vlan", kind: number, noted: "that of `[roce]`", lo: 0, hi: 4094, example: "100",
			meaning: "RoCE only: the host's VLAN id, which also says in which segment it is. Needed where there are several `[[roce]]`."}, segmentKey,
	}},
	{name: "group", many: true, live: true, shared: true, meaning: "A bridged multicast group. No other groups cross, except those of a `[[range]]`. Several groups may have the same " +
		"address, such as those of several ports, if at most one of them has a direction to InfiniBand.", keys: slices.Concat([]key{
		{name: "ip", kind: text, need: true, example: `"239.1.2.3"`,
			meaning: "The IP multicast group on RoCE."},
	}, groupKeys, portUseKeys)},
	{name: "range", many: true, live: true, shared: true, meaning: "Groups that are bridged as long as they have members. A `[[group]]` within the range keeps its own settings.", keys: slices.Concat([]key{
		{name: "ip", kind: text, need: true, example: `"239.2.0.0/16"`,
			meaning: "The prefix of the IP multicast groups on RoCE. Ranges do not overlap."},
		{name: "from", kind: texts, def: []string{"reports"}, words: []string{"reports", "sa"}, example: `["reports"]`,
			meaning: "What adds a group: `reports`, IGMP or MLD reports of RoCE hosts; `sa`, the creation of the group on the subnet, " +
				"from the subnet manager's notices 66 and 67. A group that only `sa` adds ends with its last IB member, because the bridge joins " +
				"it as a non-member, if the bridge itself is the port's client of the SA."},
		{name: "most", kind: number, def: int64(256), lo: 1, hi: 1 << 16, example: "256",
			meaning: "The most groups of the range at a time; further ones are rejected (`range_full`). One RoCE host has at most as many as are left for others (`host_full`)."},
	}, rangeKeys())},
	{name: "service", many: true, live: true, shared: true, meaning: "rdma_cm UD services, proxied by SIDR in both directions. Requests to other ports do not cross.", keys: []key{
		{name: "port", kind: number, noted: "none", lo: 1, hi: 65535, example: "7174",
			meaning: "The service's port in RDMA_PS_UDP."},
		{name: "ports", kind: text, noted: "none", example: `"7000-7100"`,
			meaning: "A range of ports, inclusive. A `[[service]]` has `port` or `ports`."},
		scopeKey, segmentKey,
	}},
	{name: "translate", many: true, live: true, shared: true, meaning: "Hosts that have other IP addresses on InfiniBand, where the IPoIB subnet is not the RoCE side's: " +
		"the same host bits behind another prefix, for RoCE hosts and IB nodes alike. Everything else in this file names the RoCE side's " +
		"addresses. The bridge rewrites the addresses in rdma_cm's requests; nothing else that it carries has IP addresses on InfiniBand.", keys: []key{
		{name: "roce", kind: text, need: true, example: `"10.9.0.0/24"`,
			meaning: "The prefix on the RoCE side, as in the rest of the file."},
		{name: "ib", kind: text, need: true, example: `"10.10.9.0/24"`,
			meaning: "The prefix on InfiniBand, of the same length. Servers there accept a request only if they have a route to its source through their " +
				"IPoIB interface. With `DEVICE:PORT`, the source of a request is the RoCE host only if the port's network interface has that " +
				"host's InfiniBand address; otherwise it is an address of the bridge."},
		scopeKey, segmentKey,
	}},
	{name: "policy", live: true, shared: true, meaning: "Which sources may send across. The default is to deny: packets of a source that is in no prefix are dropped (`acl`).", keys: []key{
		{name: "allow", kind: texts, noted: "none: deny all", example: `["10.9.0.0/24"]`,
			meaning: "The prefixes whose hosts may send across, in all segments; `[roce] allow` are those of one."},
		{name: "unknown_source", kind: text, def: "drop", words: []string{"drop", "bridge"}, example: `"drop"`,
			meaning: "What happens to a message from InfiniBand whose source is not a `[[host]]`: `drop` (`node_unknown`), or `bridge`: it crosses with " +
				"the bridge's own address as the source, so that RoCE hosts receive it but cannot answer (`source_bridged` counts these). With " +
				"`bridge`, every other bridge of the subnet needs a `[[host]]` with `bridge = true`."},
	}},
	{name: "qos", live: true, shared: true, meaning: "Traffic classes. The default chain is SL = DSCP >> 3, and for packets without a traffic class " +
		"DSCP = (SL & 7) << 3; PCP = SL & 7. A mapping lists only the values that differ.", keys: []key{
		{name: "dscp_to_sl", kind: mapping, noted: "DSCP >> 3", keyHi: 63, lo: 0, hi: 15, example: "{ 46 = 5 }",
			meaning: "The SL for a DSCP."},
		{name: "sl_to_dscp", kind: mapping, noted: "(SL & 7) << 3", keyHi: 15, lo: 0, hi: 63, example: "{ 5 = 46 }",
			meaning: "The DSCP for an SL, for packets from InfiniBand without a GRH."},
		{name: "sl_to_pcp", kind: mapping, noted: "SL & 7", keyHi: 15, lo: 0, hi: 7, example: "{ 5 = 5 }",
			meaning: "The 802.1p priority (PCP) for an SL, on a VLAN."},
	}},
	fleetDoc,
	{name: "metrics", meaning: "Prometheus metrics, health and status over HTTP; metrics.md describes them.", keys: []key{
		{name: "listen", kind: text, noted: "off", example: `"127.0.0.1:9432"`,
			meaning: "The address and port on which metrics, health and status are served, over HTTP without a password."},
		{name: "pprof", kind: truth, def: false, example: "true",
			meaning: "Whether Go's profiles are served there, too, below /debug/pprof/. They reveal what the program does, and " +
				"taking them costs CPU time, so an address that other machines can reach needs `insecure`, too."},
		{name: "insecure", kind: truth, def: false, example: "true",
			meaning: "Whether `pprof` is allowed on an address that other machines can reach."},
	}},
	{name: "console", meaning: "The operators' console.", keys: []key{
		{name: "listen", kind: texts, noted: "off", example: `["unix:/run/causeway/console.sock"]`,
			meaning: "Where the console listens: `unix:PATH`, or an address and port. On a Unix socket, everybody has " +
				"read access, and root, the bridge's own user and group, and the group `causeway` may make changes. Over TCP, everybody has read " +
				"access, so an address that other machines can reach needs a `token`. 0.0.0.0 is IPv4 only, [::] IPv4 and IPv6. `causeway ctl` " +
				"connects to unix:/run/causeway/console.sock."},
		{name: "token", kind: text, noted: "none", secret: true, example: `"a-long-random-text"`,
			meaning: "The token that `login` requires on a TCP connection before it may make changes; 16 bytes or more. Telnet does not encrypt: over an " +
				"untrusted network, use ssh and `causeway ctl`."},
	}},
	{name: "log", meaning: "Logging, to standard error.", keys: []key{
		{name: "level", live: true, kind: text, def: "info", words: []string{"debug", "info", "warn", "error"}, example: `"info"`,
			meaning: "The lowest level of messages that are logged."},
		{name: "format", kind: text, def: "text", words: []string{"text", "json"}, example: `"text"`,
			meaning: "The format of messages."},
	}},
})

// scopeKey is the key of what may be for one segment.
var scopeKey = key{name: "vlan", kind: number, noted: "all", lo: 0, hi: 4094, example: "0",
	meaning: "The VLAN of the one `[[roce]]` that it is for; 0 is the untagged one. Without it, it is for all."}

// groupKeys are the keys that [[group]] and [[range]] share.
var groupKeys = []key{
	{name: "mgid", kind: text, def: "rdmacm", example: `"rdmacm"`, inRange: "The groups on InfiniBand, as in `[[group]]`; not a literal MGID.",
		meaning: "The group on InfiniBand. `rdmacm`: the MGID that rdma_join_multicast derives from the address; `ipoib`: that of IP over " +
			"InfiniBand; `port`: ff15:a01b with the UDP port and the whole IPv4 address; `ib`: ff15:4001 with P_Key 0; or a " +
			"literal MGID; or a template such as `ff15:4001:{pkey}::{ip28}` with `{scope}` (1 hexadecimal digit), `{pkey}`, `{port}` " +
			"(4 each), `{ip28}`, `{ip32}` (2 words, the low bits of the address), `{ip80}` (5 words)."},
	{name: "scope", kind: number, def: int64(2), lo: 1, hi: 14, example: "2",
		meaning: "The MGID's scope, as the IPoIB interface there has it: 2 is link-local, 5 site-local. For `rdmacm`, `ipoib` and " +
			"templates."},
	{name: "port", kind: number, noted: "none", lo: 1, hi: 65535, example: "4711",
		meaning: "The UDP port in the MGID, for `port` and templates."},
	{name: "ethernet", kind: text, def: "roce", example: `"udp:4711"`,
		meaning: "What the group is on Ethernet. `roce`: RoCE. `udp:PORT`: plain UDP to the group's address and PORT, which hosts without RDMA " +
			"send and receive by sockets; a datagram's payload is that of the message on InfiniBand. Groups of one address are told apart by " +
			"their ports."},
	{name: "ttl", kind: number, def: int64(64), lo: 1, hi: 255, example: "64",
		meaning: "The TTL or hop limit of datagrams that the bridge sends, with `udp:PORT`. 64 passes routers; 1, what sockets have by default, does not."},
	{name: "direction", kind: text, def: "both", words: []string{"both", "to-ib", "to-roce"}, example: `"both"`,
		meaning: "The directions in which the group's packets cross."},
	{name: "qkey", kind: number, noted: "0x01234567; 0x00000b1b with `ipoib`", lo: 0, hi: 0xffffffff, hex: true,
		example: "0x01234567", meaning: "The group's Q_Key on both sides. Bit 31 must be clear."},
	{name: "pkey", kind: number, noted: "that of `[ib]`", lo: 1, hi: 0xffff, hex: true, example: "0xffff",
		meaning: "The group's P_Key on InfiniBand. It must be in the IB port's table."},
	{name: "rate", kind: text, noted: "not policed", example: `"1M pps"`, inRange: "The most packets a second of each group, as in `[[group]]`.",
		meaning: "The most packets a second, each way: a number, then k, M or G, then `pps`. Packets above the rate are dropped (`policed`); " +
			"unused tokens expire after ten milliseconds."},
	{name: "rewrite_imm", kind: truth, def: true, example: "true",
		meaning: "Whether immediate data equal to the sender's QPN becomes the QPN of its proxy QP, as rdma_cm applications expect."},
	{name: "sources", kind: texts, noted: "all", example: `["10.9.0.7"]`,
		meaning: "The RoCE hosts whose messages the bridge asks switches and routers for, by IGMPv3 or MLDv2, 64 at most. Routers carry a source-specific group, of " +
			"232.0.0.0/8 or ff3x::/32, for no one who does not name sources. Which hosts may send, `[policy] allow` says."},
	{name: "pgm", kind: truth, def: false, example: "true",
		meaning: "Whether the group's messages are PGM (RFC 3208): the bridge counts gaps, duplicates, late data and repairs of each stream, and " +
			"neither changes nor drops anything."},
}

// rangeKeys returns groupKeys with their meanings in [[range]].
func rangeKeys() []key {
	list := slices.Clone(groupKeys)
	for i := range list {
		list[i].meaning = cmp.Or(list[i].inRange, "As in `[[group]]`.")
	}
	return list
}

// linked tells each key its table.
func linked(ts []tableDoc) []tableDoc {
	for _, t := range ts {
		for i := range t.keys {
			k := &t.keys[i]
			k.table, k.live, k.shared = t.name, t.live || k.live, k.shared || t.shared && !k.own
		}
	}
	return ts
}

// tableNamed returns the description of a table, or nil.
func tableNamed(name string) *tableDoc {
	i := slices.IndexFunc(tables, func(t tableDoc) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return &tables[i]
}

// header returns the table's header line.
func (t *tableDoc) header() string {
	if t.many {
		return "[[" + t.name + "]]"
	}
	return "[" + t.name + "]"
}

// findKey returns the description of a key, or nil.
func findKey(table, name string) *key {
	t := tableNamed(table)
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &t.keys[i]
}

// keyNames returns the names of a table's keys: all, or those that are needed.
func (t *tableDoc) keyNames(neededOnly bool) []string {
	var names []string
	for _, k := range t.keys {
		if k.need || !neededOnly {
			names = append(names, k.name)
		}
	}
	return names
}
