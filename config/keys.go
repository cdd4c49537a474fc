// SPDX-License-Identifier: Apache-2.0

package config

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

// key describes one key of the file. The whole list is keys; nothing else knows a default.
type key struct {
	table   string
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
	live    bool // a running bridge takes another value; see also tableDoc.live
	secret  bool // shown to nobody
}

// tableDoc is one table of the file.
type tableDoc struct {
	name    string
	many    bool // [[name]]
	need    bool
	meaning string
	live    bool // a running bridge takes other values of all its keys, and other entries
}

// tables lists the tables in the order in which a file usually has them.
var tables = []tableDoc{
	{name: "bridge", meaning: "The bridge itself."},
	{name: "roce", need: true, meaning: "The Ethernet side."},
	{name: "ib", need: true, meaning: "The InfiniBand side."},
	{name: "workers", meaning: "The packet path: its cores, its memory and its bounds."},
	{name: "host", many: true, live: true, meaning: "A static entry for an IB node or a RoCE host. IB nodes need one; RoCE hosts are " +
		"learnt. A static entry is never overwritten by what is learnt."},
	{name: "group", many: true, live: true, meaning: "A bridged multicast group. No other group crosses, but those of a `[[range]]`. Several may have one " +
		"address, such as those of several ports, if at most one leads to InfiniBand."},
	{name: "range", many: true, live: true, meaning: "Groups that are bridged for as long as somebody wants them. A `[[group]]` in it stays as it is."},
	{name: "service", many: true, live: true, meaning: "rdma_cm UD services, proxied by SIDR in both directions. No other port's requests cross."},
	{name: "translate", many: true, live: true, meaning: "Hosts that InfiniBand knows by other IP addresses, where the IPoIB subnet is not the RoCE side's: " +
		"the same host bits behind another prefix, for RoCE hosts and IB nodes alike. Everything else in this file names the RoCE side's " +
		"addresses. The addresses that rdma_cm's requests name are rewritten; nothing else that the bridge carries has IP addresses on InfiniBand."},
	{name: "policy", live: true, meaning: "What may cross. The default is to deny: a source that no prefix covers is dropped (`acl`)."},
	{name: "qos", live: true, meaning: "Traffic classes. The default chain is SL = DSCP >> 3, and for packets without a traffic class " +
		"DSCP = (SL & 7) << 3; PCP = SL & 7. A mapping names only what differs."},
	{name: "metrics", meaning: "Prometheus metrics, health and status over HTTP; metrics.md describes them."},
	{name: "console", meaning: "The operators' console."},
	{name: "log", meaning: "Logging, to standard error."},
}

// keys is every key of the file.
var keys = []key{
	{table: "bridge", name: "name", kind: text, def: "causeway", example: `"causeway-1"`,
		meaning: "Names this bridge in logs, metrics and the console."},

	{table: "roce", name: "port", kind: text, need: true, example: `"af_packet:eth1"`,
		meaning: "The Ethernet port: `mlx5:PCI-ADDRESS`, `af_packet:INTERFACE`, `tap:NEW-INTERFACE`, `tap:NEW-INTERFACE,remote=INTERFACE`, " +
			"`memif:SOCKET` with `,role=server` or `,id=N`, `pcap:FILE` or `pcap:IN,OUT`, `ring`, or `null`. With `mlx5` and with `,remote=` " +
			"the kernel has the interface, too: the bridge takes RoCE alone, all of it, and the rest stays with the kernel, whose addresses " +
			"must not be the bridge's. A tap with `,remote=` is for one worker and gives INTERFACE this `mtu`, 1504 at most."},
	{table: "roce", name: "addresses", kind: texts, need: true, example: `["10.9.0.254/24"]`,
		meaning: "The bridge's own addresses with their prefix lengths. They also say which subnets are on the link."},
	{table: "roce", name: "mtu", kind: number, def: int64(1500), lo: minMTU, hi: 9216, tooLow: "is too small for any IB MTU",
		example: "4200",
		meaning: "The netdev's MTU in bytes. The IB MTU towards RoCE is the largest that fits in mtu - 80: 1500 gives 1024, " +
			"4200 gives 4096."},
	{table: "roce", name: "versions", kind: texts, def: []string{"v2"}, words: []string{"v2", "v1"}, example: `["v2"]`,
		meaning: "The RoCE versions spoken: `v2` is UDP port 4791, `v1` ethertype 0x8915."},
	{table: "roce", name: "vlan", kind: number, def: int64(0), lo: 0, hi: 4094, example: "100",
		meaning: "The 802.1Q VLAN id; 0 is untagged."},
	{table: "roce", name: "ttl", kind: number, def: int64(64), lo: 1, hi: 255, example: "64",
		meaning: "The TTL or hop limit of packets to RoCE whose GRH has none, or one below 2."},

	{table: "roce", name: "querier", kind: truth, def: false, live: true, example: "true",
		meaning: "Whether the bridge asks the RoCE side each 125 seconds who listens to which group (IGMPv3, MLDv2), where no querier with a " +
			"lower address does. Snooping switches pass reports on to queriers only, so a `[[range]]` needs one: this bridge or a router " +
			"there, and then a port of the switches that reports go out of to this bridge."},

	{table: "ib", name: "port", kind: text, need: true, example: `"mlx5_0:1"`,
		meaning: "The InfiniBand port: `DEVICE:PORT`, or `fabric:` for the embedded software fabric, or `fabric:FILE` for one " +
			"described in a file, looked for beside this one."},
	{table: "ib", name: "pkey", kind: number, def: int64(0xffff), lo: 1, hi: 0xffff, hex: true, example: "0xffff",
		meaning: "The P_Key on InfiniBand; bit 15 is full membership. RoCE always uses 0xffff."},
	{table: "ib", name: "gid", kind: text, noted: "the port's first that fits", example: `"fe80::2:c903:0:1"`,
		meaning: "The bridge's own GID, one of the port's. By default the first; where the device's link layer is Ethernet, that of its " +
			"first IPv4 address. Only for `DEVICE:PORT`."},
	{table: "ib", name: "host_gids", kind: texts, noted: "none", example: `["fe80::2:c903:0:100/120"]`,
		meaning: "Which of the port's other GIDs (alias GUIDs; where the link layer is Ethernet, further addresses of its network " +
			"interface) are for RoCE hosts to be seen under, one each, as they come. A GID that is a host's own address is that host's in " +
			"any case; a host without one is seen under the bridge's own. Only for `DEVICE:PORT`."},
	{table: "ib", name: "alias_gids", kind: truth, def: false, example: "true",
		meaning: "Whether RoCE hosts' GUIDs are registered with the subnet administrator as alias GUIDs of the port, as many as it has " +
			"room for, so that their GIDs resolve to the bridge: of IPv6 addresses with the subnet's prefix, and of MAC addresses " +
			"(the default GID of RoCE interfaces). With `host_gids`, only GIDs in there. Any RoCE host can claim an address, and so " +
			"an entry. Only for `DEVICE:PORT` with InfiniBand as link layer."},

	{table: "workers", name: "lcores", kind: numbers, def: []int64{1}, lo: 0, hi: 127, example: "[2, 3]",
		meaning: "The logical cores of the workers, one each. Keep other work off them."},
	{table: "workers", name: "idle", kind: text, def: "poll", words: []string{"poll", "sleep"}, example: `"poll"`,
		meaning: "What a worker without work does: `poll` on, which has the least latency and takes the whole core, or `sleep` " +
			"briefly."},
	{table: "workers", name: "memory_mib", kind: number, def: int64(512), lo: 64, hi: 1 << 20, example: "512",
		meaning: "The memory for packets and tables, in MiB."},
	{table: "workers", name: "rx_descs", kind: number, def: int64(1024), lo: 64, hi: 32768, example: "1024",
		meaning: "Receive descriptors of each Ethernet queue; a power of two."},
	{table: "workers", name: "tx_descs", kind: number, def: int64(1024), lo: 64, hi: 32768, example: "1024",
		meaning: "Transmit descriptors of each Ethernet queue; a power of two."},
	{table: "workers", name: "mbufs", kind: number, def: int64(16384), lo: 1024, hi: 1 << 24, example: "16384",
		meaning: "Packet buffers in the mempool that both doors share."},
	{table: "workers", name: "standins", kind: number, def: int64(4096), lo: 1, hi: 1 << 20, example: "4096",
		meaning: "The most stand-ins (UD QPs on InfiniBand that stand for RoCE queue pairs) at a time."},
	{table: "workers", name: "standins_per_host", live: true, kind: number, def: int64(64), lo: 1, hi: 1 << 20, example: "64",
		meaning: "The most stand-ins of one RoCE host, so that no host can use them up."},
	{table: "workers", name: "standin_depth", kind: number, def: int64(128), lo: 16, hi: 32768, example: "128",
		meaning: "The messages that a stand-in may have under way in an HCA; a power of two. Fewer take less of the HCA's and the kernel's " +
			"memory, of which a stand-in's queue takes most."},
	{table: "workers", name: "standin_idle", live: true, kind: number, def: int64(86400), lo: 0, hi: 31_536_000, example: "86400",
		meaning: "The seconds after which a stand-in ends that nothing has crossed by; 0 is never. Its number on InfiniBand is then nobody's, " +
			"and the RoCE queue pair gets another with the next message it sends."},
	{table: "workers", name: "pgm_streams", kind: number, def: int64(1024), lo: 4, hi: 1 << 20, example: "1024",
		meaning: "The PGM streams that a worker keeps an eye on, in groups that have `pgm`; rounded up to a power of two. Each takes some 530 bytes."},
	{table: "workers", name: "pgm_idle", kind: number, def: int64(300), lo: 0, hi: 31_536_000, example: "300",
		meaning: "The seconds of silence after which a PGM stream is forgotten; 0 is never."},
	{table: "workers", name: "hosts", kind: number, def: int64(16384), lo: 1, hi: 1 << 20, example: "16384",
		meaning: "The most RoCE hosts known at a time."},
	{table: "workers", name: "nodes", kind: number, def: int64(4096), lo: 1, hi: 1 << 20, example: "4096",
		meaning: "The most IB nodes at a time: the `[[host]]` entries with `side = \"ib\"`, those added while the bridge runs among them."},
	{table: "workers", name: "groups", kind: number, def: int64(1024), lo: 1, hi: 1 << 16, example: "1024",
		meaning: "The most groups at a time: those of the file, those added while the bridge runs, and those learnt."},

	{table: "host", name: "ip", kind: text, example: `"10.9.0.7"`,
		meaning: "The host's address, IPv4 or IPv6. Either this or `ip6` is needed."},
	{table: "host", name: "ip6", kind: text, example: `"fd09::7"`,
		meaning: "The host's IPv6 address, where `ip` is its IPv4 address."},
	{table: "host", name: "side", kind: text, need: true, words: []string{"ib", "roce"}, example: `"ib"`,
		meaning: "The fabric that the host is on."},
	{table: "host", name: "gid", kind: text, example: `"fe80::2:c903:0:7"`,
		meaning: "IB only, needed: the node's port GID."},
	{table: "host", name: "lid", kind: number, noted: "asked of the SA", lo: 1, hi: 0xbfff, hex: true, example: "7",
		meaning: "IB only: the node's LID."},
	{table: "host", name: "sl", kind: number, def: int64(0), lo: 0, hi: 15, example: "0",
		meaning: "IB only: the service level of the path to the node."},
	{table: "host", name: "bridge", kind: truth, def: false, example: "true",
		meaning: "IB only: the host is another Causeway. What it sends has crossed already, and does not cross back (`loop_bridge`)."},
	{table: "host", name: "mac", kind: text, noted: "by ARP or ND", example: `"02:00:00:00:00:07"`,
		meaning: "RoCE only: the host's MAC address."},
	{table: "host", name: "vlan", kind: number, noted: "that of `[roce]`", lo: 0, hi: 4094, example: "100",
		meaning: "RoCE only: the host's VLAN id."},

	{table: "group", name: "ip", kind: text, need: true, example: `"239.1.2.3"`,
		meaning: "The IP multicast group on RoCE."},
	{table: "group", name: "mgid", kind: text, def: "rdmacm", example: `"rdmacm"`,
		meaning: "The group on InfiniBand. `rdmacm`: the MGID that rdma_join_multicast makes there; `ipoib`: that of IP over " +
			"InfiniBand; `port`: ff15:a01b with the UDP port and the whole IPv4 address; `ib`: ff15:4001 with P_Key 0; or a " +
			"literal MGID; or a template such as `ff15:4001:{pkey}::{ip28}` with `{scope}` (1 hexadecimal digit), `{pkey}`, `{port}` " +
			"(4 each), `{ip28}`, `{ip32}` (2 words, the low bits of the address), `{ip80}` (5 words)."},
	{table: "group", name: "scope", kind: number, def: int64(2), lo: 1, hi: 14, example: "2",
		meaning: "The MGID's scope, as the IPoIB interface there has it: 2 is link-local, 5 site-local. For `rdmacm`, `ipoib` and " +
			"templates."},
	{table: "group", name: "port", kind: number, noted: "none", lo: 1, hi: 65535, example: "4711",
		meaning: "The UDP port in the MGID, for `port` and templates."},
	{table: "group", name: "direction", kind: text, def: "both", words: []string{"both", "to-ib", "to-roce"}, example: `"both"`,
		meaning: "The way or ways in which the group is open."},
	{table: "group", name: "qkey", kind: number, noted: "0x01234567; 0x00000b1b with `ipoib`", lo: 0, hi: 0xffffffff, hex: true,
		example: "0x01234567", meaning: "The group's Q_Key on both sides. Bit 31 must be clear."},
	{table: "group", name: "pkey", kind: number, noted: "that of `[ib]`", lo: 1, hi: 0xffff, hex: true, example: "0xffff",
		meaning: "The group's P_Key on InfiniBand."},
	{table: "group", name: "rate", kind: text, noted: "not policed", example: `"1M pps"`,
		meaning: "The most packets a second, each way: a number, then k, M or G, then `pps`. Those beyond are dropped (`policed`); what is not " +
			"used for ten milliseconds is lost."},
	{table: "group", name: "rewrite_imm", kind: truth, def: true, example: "true",
		meaning: "Immediate data equal to the sender's QPN becomes the QPN of its stand-in, as rdma_cm's applications expect."},

	{table: "group", name: "pgm", kind: truth, def: false, example: "true",
		meaning: "The group's messages are PGM's (RFC 3208): each stream's gaps, duplicates, late data and repairs are counted. Nothing is changed " +
			"or dropped."},

	{table: "range", name: "ip", kind: text, need: true, example: `"239.2.0.0/16"`,
		meaning: "The prefix of the IP multicast groups on RoCE. Ranges do not overlap."},
	{table: "range", name: "from", kind: texts, def: []string{"reports"}, words: []string{"reports", "sa"}, example: `["reports"]`,
		meaning: "Who wants a group: `reports`, the RoCE hosts that report it by IGMP or MLD; `sa`, the IB nodes that have it on the subnet, " +
			"as the subnet manager's notices 66 and 67 tell. In a group that only the subnet has, the bridge is a guest: it ends with its " +
			"last other member, where the port is one that the bridge asks the SA for itself."},
	{table: "range", name: "most", kind: number, def: int64(256), lo: 1, hi: 1 << 16, example: "256",
		meaning: "The most groups of the range at a time; those beyond are refused, by name (`range_full`)."},
	{table: "range", name: "idle", kind: number, def: int64(600), lo: 260, hi: 31_536_000, example: "600",
		meaning: "The seconds after which a group ends that no RoCE host reports, though a querier asks. Without a querier silence says nothing: " +
			"then a group ends when all hosts that reported it have left."},
	{table: "range", name: "mgid", kind: text, def: "rdmacm", example: `"rdmacm"`,
		meaning: "The groups on InfiniBand, as in `[[group]]`; not a literal MGID."},
	{table: "range", name: "scope", kind: number, def: int64(2), lo: 1, hi: 14, example: "2",
		meaning: "As in `[[group]]`."},
	{table: "range", name: "port", kind: number, noted: "none", lo: 1, hi: 65535, example: "4711",
		meaning: "As in `[[group]]`."},
	{table: "range", name: "direction", kind: text, def: "both", words: []string{"both", "to-ib", "to-roce"}, example: `"both"`,
		meaning: "As in `[[group]]`."},
	{table: "range", name: "qkey", kind: number, noted: "0x01234567; 0x00000b1b with `ipoib`", lo: 0, hi: 0xffffffff, hex: true, example: "0x01234567",
		meaning: "As in `[[group]]`."},
	{table: "range", name: "pkey", kind: number, noted: "that of `[ib]`", lo: 1, hi: 0xffff, hex: true, example: "0xffff",
		meaning: "As in `[[group]]`."},
	{table: "range", name: "rate", kind: text, noted: "not policed", example: `"1M pps"`,
		meaning: "The most packets a second of each group, as in `[[group]]`."},
	{table: "range", name: "rewrite_imm", kind: truth, def: true, example: "true",
		meaning: "As in `[[group]]`."},
	{table: "range", name: "pgm", kind: truth, def: false, example: "true",
		meaning: "As in `[[group]]`."},

	{table: "service", name: "port", kind: number, noted: "none", lo: 1, hi: 65535, example: "7174",
		meaning: "The service's port in RDMA_PS_UDP."},
	{table: "service", name: "ports", kind: text, noted: "none", example: `"7000-7100"`,
		meaning: "Several ports, both ends included. A `[[service]]` has `port` or `ports`."},

	{table: "translate", name: "roce", kind: text, need: true, example: `"10.9.0.0/24"`,
		meaning: "The prefix on the RoCE side, as the rest of the file has it."},
	{table: "translate", name: "ib", kind: text, need: true, example: `"10.10.9.0/24"`,
		meaning: "The prefix on InfiniBand, of the same length. Servers there accept a request only if its source has a route by their IPoIB " +
			"interface. With `DEVICE:PORT` a request names the RoCE host as its source only where the port's network interface has that " +
			"host's address on this side; else it names an address of the bridge's own."},

	{table: "policy", name: "allow", kind: texts, noted: "none: deny all", example: `["10.9.0.0/24"]`,
		meaning: "The prefixes whose hosts may send across."},

	{table: "policy", name: "unknown_source", kind: text, def: "drop", words: []string{"drop", "bridge"}, example: `"drop"`,
		meaning: "What becomes of a message from InfiniBand whose source is no `[[host]]`: `drop` (`node_unknown`), or `bridge`: it crosses with " +
			"the bridge's own address, so that RoCE hosts receive it but cannot answer (`source_bridged` counts them). With `bridge`, every other " +
			"bridge of the subnet needs a `[[host]]` with `bridge = true`."},

	{table: "qos", name: "dscp_to_sl", kind: mapping, noted: "DSCP >> 3", keyHi: 63, lo: 0, hi: 15, example: "{ 46 = 5 }",
		meaning: "The SL for a DSCP."},
	{table: "qos", name: "sl_to_dscp", kind: mapping, noted: "(SL & 7) << 3", keyHi: 15, lo: 0, hi: 63, example: "{ 5 = 46 }",
		meaning: "The DSCP for an SL, where a packet from InfiniBand has no GRH."},
	{table: "qos", name: "sl_to_pcp", kind: mapping, noted: "SL & 7", keyHi: 15, lo: 0, hi: 7, example: "{ 5 = 5 }",
		meaning: "The 802.1p priority for an SL, on a VLAN."},

	{table: "metrics", name: "listen", kind: text, noted: "off", example: `"127.0.0.1:9432"`,
		meaning: "The address and port to serve metrics, health and status on, over HTTP without a password."},
	{table: "metrics", name: "pprof", kind: truth, def: false, example: "true",
		meaning: "Whether Go's profiles of the program are to be had there, too, below /debug/pprof/. They show what the program is doing, and " +
			"taking them costs time."},

	{table: "console", name: "listen", kind: texts, noted: "off", example: `["unix:/run/causeway/console.sock"]`,
		meaning: "Where the console listens: `unix:PATH`, or an address and port. By a Unix socket everybody may " +
			"look, and root, the bridge's own user and group, and the group `causeway` may change things. By TCP everybody may look, so an " +
			"address that others than this machine reach needs a `token`. 0.0.0.0 is IPv4 alone, [::] IPv4 and IPv6. `causeway ctl` asks at unix:/run/causeway/console.sock."},
	{table: "console", name: "token", kind: text, noted: "none", secret: true, example: `"a-long-random-text"`,
		meaning: "What `login` wants of those who come by TCP and would change things; 16 bytes or more. Telnet does not encrypt: by an " +
			"untrusted network, use ssh and `causeway ctl`."},

	{table: "log", name: "level", live: true, kind: text, def: "info", words: []string{"debug", "info", "warn", "error"}, example: `"info"`,
		meaning: "The least important messages logged."},
	{table: "log", name: "format", kind: text, def: "text", words: []string{"text", "json"}, example: `"text"`,
		meaning: "The form of a message."},
}

// isLive reports whether a running bridge takes another value of the key.
func (k *key) isLive() bool { return k.live || tableNamed(k.table).live }

// IsLive reports whether a running bridge takes another value of a key.
func IsLive(table, key string) bool {
	k := findKey(table, key)
	return k != nil && k.isLive()
}

// LiveKeys lists the keys that a running bridge takes another value of, as "table.key".
func LiveKeys() []string {
	var names []string
	for i := range keys {
		if k := &keys[i]; k.isLive() {
			names = append(names, k.table+"."+k.name)
		}
	}
	return names
}

// findKey returns the description of a key, or nil.
func findKey(table, name string) *key {
	for i := range keys {
		if keys[i].table == table && keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// keyNames returns the names of a table's keys.
func keyNames(table string) []string {
	var names []string
	for i := range keys {
		if keys[i].table == table {
			names = append(names, keys[i].name)
		}
	}
	return names
}
