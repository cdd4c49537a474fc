// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"time"

	"causeway/lcore"
)

// Standard is the table of all commands.
var Standard = newTable(allCommands())

func allCommands() (all []Command) {
	for _, some := range [][]Command{showState(), showTraffic(), showBridge(), explanations(), live(), changes(), session()} {
		all = append(all, some...)
	}
	return all
}

// groupHelp is the help of words that several commands begin with.
var groupHelp = map[string]string{
	"show":         "show state, counters and configuration",
	"clear":        "reset counters, neighbours, proxy QPs, what the subnet manager said, or injected faults",
	"set":          "change a setting until the bridge ends",
	"add":          "add a host, a group or a service until the bridge ends",
	"remove":       "remove a host, a group or a service until the bridge ends",
	"set log":      "change what is logged",
	"port":         "choose among several InfiniBand ports",
	"fleet":        "what this bridge does of its fleet's work",
	"explain":      "say what the bridge would do with a packet, without sending it",
	"explain from": "a packet that is described",
}

// Arguments of many commands.
var (
	confirmArg = Arg{Name: "confirm", Key: "confirm", Kind: numberKind("SECONDS", 1, 86400), Help: "the change goes back by itself, unless confirm is said within this time"}
	limitArg   = Arg{Name: "limit", Key: "limit", Kind: numberKind("N", 1, 100_000), Help: "the most entries; 200 without it"}
	inArg      = Arg{Name: "in", Kind: prefixKind, Help: "only these"}
)

// showState returns the commands that show the bridge's tables.
func showState() []Command {
	return []Command{
		{Path: "show status", Help: "the bridge's state on one screen", Example: "show status", Run: runStatus,
			Long: "Ready means that every configured group is joined on both sides and the path to every configured node has been found. What the ports' " +
				"devices have lost is named, if they have."},
		{Path: "show hosts", Args: []Arg{inArg, limitArg}, Help: "RoCE hosts, and their GIDs on InfiniBand",
			Example: "show hosts 10.9.0.0/24", Run: runHosts},
		{Path: "show nodes", Args: []Arg{inArg, limitArg}, Help: "InfiniBand nodes and their paths", Example: "show nodes", Run: runNodes,
			Long: "RATE is shown where it is less than the port's. PATH is stale after an event, until the subnet manager has answered: the " +
				"node's LIDs may be another's by now, and what it sends without a GRH is of an unknown source. It is lost when the " +
				"subnet manager knows no path to the node."},
		{Path: "show proxy-qps", Args: []Arg{inArg, limitArg}, Help: "proxy QPs on InfiniBand, and the RoCE hosts' queue pairs that they represent",
			Example: "show proxy-qps 10.9.0.1 limit 20", Run: runProxyQPs,
			Long: "Q_KEY is shown to admins. LAST USED is when the proxy QP last carried a packet; the bridge checks from time to time, not at each packet."},
		{Path: "show groups", Args: []Arg{inArg, limitArg}, Help: "multicast groups, their state and packets",
			Example: "show groups 239.1.2.3", Run: runGroups,
			Long: "Several groups may have one address; packets are counted by address."},
		{Path: "show services", Help: "services of rdma_cm, and the results of requests", Example: "show services", Run: runServices},
		{Path: "show sidr", Args: []Arg{inArg, limitArg}, Help: "pending requests for services", Example: "show sidr", Run: runRequests},
		{Path: "show neighbours", Args: []Arg{inArg, limitArg}, Help: "MAC addresses of RoCE hosts, and when each was last seen",
			Example: "show neighbours", Run: runNeighbours,
			Long: "reachable: seen not long ago. probed: asked, no answer yet. silent: no answer, but it has proxy QPs. contested: another MAC " +
				"address claims the IP address. unresolved: asked, never answered. stranger: has sent, but never answered; it gets few proxy QPs."},
		{Path: "show streams", Args: []Arg{limitArg}, Help: "PGM streams and their losses", Example: "show streams", Run: runStreams,
			Long: "Only groups with pgm = true are tracked."},
	}
}

// showTraffic returns the commands that show counters of packets.
func showTraffic() []Command {
	return []Command{
		{Path: "show workers", Help: "worker cores: load, packets and rates", Example: "show workers", Run: runWorkers,
			Long: "BUSY is the share of a worker's polls that found packets. BUSY and the rates are of the last second. The note says " +
				"what idle workers do ([workers] idle)."},
		{Path: "show cores", Help: "lcores: main, workers, management", Example: "show cores", Run: runCores,
			Long: "SHARE is the part of a core's time that the thread used, during a quarter of a second. main has no thread. others are all threads " +
				"that are no lcores, management among them unless it has a core of its own ([workers] management)."},
		{Path: "show segments", Help: "the RoCE segments, their partitions and limits", Example: "show segments", Run: runSegments,
			Long: "A segment is a VLAN of the Ethernet port, and P_KEY the partition that its messages cross to and from; without one they cross to all. " +
				"Each has an equal part of the limits of hosts and proxy QPs, so that one that floods leaves the others theirs."},
		{Path: "show ports", Help: "the two ports and their counters", Example: "show ports", Run: runPorts,
			Long: "Of several InfiniBand ports each has a line."},
		{Path: "show bond", Help: "the members of a bonded Ethernet port", Example: "show bond", Run: runBond,
			Long: "FOR is since when a member has carried frames, or has not, and CHANGES how often that has changed. With LACP, USED members are in " +
				"the aggregator in use; PARTNER is the other end's priority, system and port, ITS BITS are that one's. Of the bits, A is active, T the short timeout, G may be aggregated, " +
				"S in sync, C collecting, D distributing, d defaulted, E expired."},
		{Path: "show fabrics", Help: "several InfiniBand ports: their state, and what goes by each", Example: "show fabrics", Run: runFabrics,
			Long: "ACTIVE counts the groups whose messages go by the port, MISSING those that are not joined on it yet. SM is whether the subnet manager answers."},
		{Path: "show bridges", Help: "the other bridges on the subnet", Example: "show bridges", Run: runBridges,
			Long: "What comes from their GIDs, LIDs and MAC addresses has crossed a bridge, and is dropped (loop_bridge). FOR is since when one is known. NAME, FLEET and IS are of those between the same two fabrics that are not of this one's fleet: only one of two carries, " +
				"unless they are beside each other ([bridge] beside) and have nothing in COMMON."},
		{Path: "show fleet", Help: "the members of the fleet, and what each does", Example: "show fleet", Run: runFleet,
			Long: "FOLLOWS is the number of the assignment that a member keeps to, and HEARD since when nothing has come from it. A drained member has no " +
				"shards. One that is silent for longer than a lease loses its shards to their successors."},
		{Path: "show shards", Help: "who has which shard of the fleet's work", Example: "show shards", Run: runShards,
			Long: "A host shard is what a part of the RoCE hosts send, chosen by their MAC addresses. SUCCESSOR has it when OWNER is gone."},
		{Path: "show drops", Args: []Arg{{Name: "all", Key: "all", Help: "also reasons that have not occurred"}},
			Help: "why packets were dropped", Example: "show drops | match crc", Run: runDrops},
		{Path: "show rates", Help: "packets and bits per second, over one and ten seconds", Example: "watch 1 show rates", Run: runRates},
		{Path: "show latency", Help: "the time that packets spend in the bridge", Example: "show latency", Run: runLatency,
			Long: "From the reception of a burst until the other port takes it. Each figure is an upper bound."},
		{Path: "show flows", Help: "flow rules (rte_flow) that steer frames of a shared port to the bridge", Example: "show flows", Run: runFlows},
		{Path: "show injection", Help: "faults that are injected", Example: "show injection", Run: runInjections},
	}
}

// showBridge returns the commands that show the program.
func showBridge() []Command {
	return []Command{
		{Path: "show config", Args: []Arg{{Name: "toml", Key: "toml", Help: "as a file that check accepts, and that means the same"}}, Help: "the configuration in force", Example: "show config | match groups", Run: runConfig,
			Long: "Includes changes by commands. Q_Keys are shown to admins only, and the console's token to them only with toml."},
		{Path: "show log", Args: []Arg{{Name: "lines", Kind: numberKind("LINES", 1, 10_000), Help: "the number of lines; 50 without it"}},
			Help: "the last lines of the log", Example: "show log 20", Run: runLog},
		{Path: "show memory", Help: "use of packet buffers, tables and the heap", Example: "show memory", Run: runMemory},
		{Path: "show version", Help: "the program's version and uptime", Example: "show version", Run: runVersion},
	}
}

var vlanArg = Arg{Name: "vlan", Key: "vlan", Kind: segmentKind, Help: "selects one of several segments"}

var filterArgs = []Arg{
	{Name: "direction", Key: "direction", Kind: directions, Help: "only packets in this direction"},
	{Name: "side", Key: "side", Kind: wordKind("SIDE", "roce or ib", "ib", "roce"), Help: "only on this side of the bridge"},
	{Name: "host", Key: "host", Kind: textKind("ADDRESS", "an IP address or a GID"), Help: "only packets from or to this host or node"},
	{Name: "group", Key: "group", Kind: groupKind, Help: "only packets to this group"},
	{Name: "qpn", Key: "qpn", Kind: numberKind("QPN", 1, 0xffffff), Help: "only packets from or to this queue pair"},
	{Name: "vlan", Key: "vlan", Kind: numberKind("VLAN", 0, 4094), Help: "only packets of this segment, on both sides; 0 is the untagged one"},
	{Name: "point", Key: "point", Kind: wordKind("POINT", "a point in the datapath", points()...), Help: "only packets at this point"},
	{Name: "drop", Key: "drop", Kind: dropKind, Help: "only packets dropped for this reason"},
}

// points returns the names of the points where packets are mirrored.
func points() (names []string) {
	for p := lcore.Received; p <= lcore.Own; p++ {
		names = append(names, p.String())
	}
	slices.Sort(names)
	return names
}

// live returns the commands that run until they are ended.
func live() []Command {
	const day = 24 * time.Hour
	count := Arg{Name: "count", Key: "count", Kind: numberKind("N", 1, 1_000_000), Help: "end after this many packets"}
	last := Arg{Name: "for", Key: "for", Kind: durationKind(day), Help: "end after this time"}
	return []Command{
		{Path: "top", Args: []Arg{
			{Name: "every", Key: "every", Kind: durationKind(time.Hour), Help: "the interval; 1s without it"},
			{Name: "count", Key: "count", Kind: numberKind("N", 1, 1_000_000), Help: "end after this many updates"},
			{Name: "vlan", Key: "vlan", Kind: segmentKind, Help: "the hosts and nodes of one segment only"}},
			Help: "live rates, and the busiest groups and hosts", Example: "top every 2s", Stream: streamTop,
			Long: "Hosts are counted in a sample of the packets, so their rates are estimates."},
		{Path: "events", Args: []Arg{
			{Name: "last", Key: "last", Kind: numberKind("N", 0, 1000), Help: "begin with so many of the last ones; 10 without it"},
			{Name: "count", Key: "count", Kind: numberKind("N", 1, 1_000_000), Help: "end after this many"}, last},
			Help: "follow what happens: links, groups, hosts, faults, changes", Example: "events | match link", Stream: streamEvents,
			Long: "The events of the log, each in a line, with their details; set log level says which there are. A client that reads too slowly is " +
				"told how many it has lost."},
		{Path: "trace", Args: append(append([]Arg{}, filterArgs...), mirroredPort, count, last), Role: Admin,
			Help: "explain packet by packet what the bridge does", Example: "trace port 1 drop any count 5", Stream: streamTrace,
			Long: "Ends after 10 packets, unless count or for says otherwise."},
		{Path: "capture", Args: append(append([]Arg{{Name: "to", Key: "to", Kind: fileKind, Help: "write pcapng to this file, instead of a line for each packet"}},
			filterArgs...), mirroredPort, count, last, Arg{Name: "snap", Key: "snap", Kind: numberKind("BYTES", 64, 9000), Help: "keep this much of each packet; all without it"}),
			Role: Admin, Help: "capture packets at both ports", Example: "capture to /tmp/a.pcapng drop icrc for 10s", Stream: streamCapture,
			Long: "The file must not exist. With \"to -\", ctl writes pcapng to its standard output: causeway ctl capture to - count 100 | " +
				"tshark -r -. Ends after 1000 packets, unless count or for says otherwise."},
	}
}

// changes returns the commands that change the bridge.
func changes() []Command {
	return append(setCommands(), append(entryCommands(), []Command{
		{Path: "clear counters", Role: Admin, Help: "reset the counters of show drops and show workers", Example: "clear counters", Run: clearCounters,
			Long: "For all sessions. Metrics are not affected."},
		{Path: "clear latency", Role: Admin, Help: "reset the latency histograms", Example: "clear latency", Run: clearLatency,
			Long: "Also those of the metrics."},
		{Path: "clear neighbour", Args: []Arg{{Name: "address", Kind: addressKind, Needed: true, Help: "of a RoCE host"},
			vlanArg}, Role: Admin,
			Help: "remove a learned RoCE host", Example: "clear neighbour 10.9.0.1", Run: clearNeighbour,
			Long: "Static hosts, and hosts with proxy QPs, are not removed."},
		{Path: "clear proxy-qp", Args: []Arg{{Name: "address", Kind: addressKind, Needed: true, Help: "of a RoCE host"},
			{Name: "qpn", Kind: numberKind("QPN", 1, 0xffffff), Help: "of the host's queue pair; all without it"},
			vlanArg}, Role: Admin,
			Help: "remove a RoCE host's proxy QPs", Example: "clear proxy-qp 10.9.0.1 0x11", Run: clearProxyQP,
			Long: "The next message of a queue pair makes a new one, with another number on InfiniBand."},
		{Path: "clear subnet", Role: Admin, Help: "ask the subnet manager again for everything", Example: "clear subnet", Run: clearSubnet,
			Long: "The paths to nodes, memberships of groups, aliases and subscriptions: for when it was wrong, and is not any more. By " +
				"itself the bridge asks for paths each minute, and for the rest twice as often. Messages are carried as before until it has answered."},
		{Path: "clear injection", Args: []Arg{{Name: "direction", Kind: directions, Help: "only in this direction"}}, Role: Admin,
			Help: "stop injecting faults", Example: "clear injection", Run: clearInjection},
		{Path: "reload", Args: []Arg{{Name: "check", Key: "check", Help: "only show what would change", Together: "what"},
			{Name: "undo", Key: "undo", Help: "go back to the configuration before the last change", Together: "what"}, confirmArg}, Role: Admin,
			Help: "read the configuration file again, and apply it", Example: "reload check", Run: runReload,
			Long: "All or nothing: when a change needs a restart, that is reported and nothing changes. Entries that commands have added " +
				"and that are not in the file are removed. check lists every change and whether it needs a restart, and fails if one does. undo takes back the last change, by " +
				"whatever way it was made; another undo makes it again."},
		{Path: "confirm", Role: Admin, Help: "keep a change that would go back by itself", Example: "confirm", Run: runConfirm,
			Long: "After a change with confirm SECONDS, such as add group 239.1.2.4 confirm 60. Until then show status names it, no other change " +
				"but reload undo is made, and write does not save it. A restart forgets it, as every change that is in no file."},
		{Path: "write", Role: Admin, Help: "save the configuration in force to the configuration file", Example: "write", Run: runWrite,
			Long: "Only entries that came or went are different in it; comments and all else stay. With the file's permissions; the file before is kept beside it, with the ending .bak. " +
				"A file that has changed since the bridge has read it is left as it is. A bridge that may not write to its file, such as the " +
				"packaged one, leaves it to ctl on its machine: in a session of sudo causeway ctl, which asks, or by sudo causeway ctl write."},
		{Path: "port prefer", Args: []Arg{{Name: "port", Kind: portKind, Needed: true, Help: "the one that everything goes by"}}, Role: Admin,
			Help: "choose among several InfiniBand ports", Example: "port prefer mlx5_1:1", Run: preferPort,
			Long: "Groups and nodes that the port reaches go by it at once, and after a failure when it has been good again for [fabrics] hold_down. " +
				"Until the bridge ends, or port prefer none."},
		{Path: "fleet drain", Role: Admin, Help: "leave the fleet's work to the other members, and keep running", Example: "fleet drain", Run: drainFleet,
			Long: "Returns when they have it. What nodes send to this bridge's proxy QPs goes on to cross. What would lose messages now stays, and passes when it can."},
		{Path: "fleet pass", Role: Admin, Help: "have shards pass now that wait until they can without a loss", Example: "fleet pass", Run: passShards,
			Long: "Those of this bridge that show shards has as passing. Some messages of these may be lost."},
		{Path: "fleet resume", Role: Admin, Help: "undo fleet drain", Example: "fleet resume", Run: resumeFleet},
		{Path: "fleet weight", Args: []Arg{{Name: "weight", Kind: numberKind("WEIGHT", 1, 1000), Needed: true, Help: "beside the others'"}}, Role: Admin,
			Help: "change this bridge's part of the fleet's work", Example: "fleet weight 50", Run: weighFleet, Long: "Until the bridge ends: [fleet] weight is what it begins with."},
		{Path: "fleet move", Args: shardAndMember, Role: Admin, Help: "have another member own a shard now", Example: "fleet move host/5 bridge-1", Run: moveShard,
			Long: "Until the work is divided anew, because a member comes or goes. No member gets more than its part: another shard may move back."},
		{Path: "fleet pin", Args: shardAndMember, Role: Admin, Help: "have a member own a shard always", Example: "fleet pin host/5 bridge-2", Run: pinShard,
			Long: "Whenever that member takes part, and even beyond its part. It is kept in etcd, for all members."},
		{Path: "fleet unpin", Args: shardAndMember[:1], Role: Admin, Help: "undo fleet pin", Example: "fleet unpin host/6", Run: unpinShard},
		{Path: "drain", Role: Admin, Help: "leave all groups and nodes to another bridge, and keep running", Example: "drain", Run: runDrain,
			Long: "The bridge leaves its groups and services, and no longer answers for nodes' addresses or defends them. Packets that " +
				"still arrive cross. /readyz fails until \"resume\"."},
		{Path: "resume", Role: Admin,
			Help: "undo drain", Example: "resume", Run: runResume,
			Long: "The bridge joins its groups and announces its nodes, and is ready again when all are there."},
		{Path: "halt", Role: Admin, Confirm: "The bridge ends.",
			Help: "leave all groups, send the packets that are inside, and end", Example: "halt", Run: runHalt,
			Long: "As SIGTERM does. At a terminal it asks before. A service manager that restarts the bridge after an orderly end starts it again."},
	}...)...)
}

// setCommands returns the commands that set something that is not an entry of the configuration.
func setCommands() []Command {
	return []Command{
		{Path: "set injection", Args: []Arg{
			{Name: "direction", Kind: directions, Needed: true, Help: "the direction to inject into"},
			{Name: "drop", Key: "drop", Kind: shareKind, Help: "packets to drop"},
			{Name: "duplicate", Key: "duplicate", Kind: shareKind, Help: "packets to send twice"},
			{Name: "reorder", Key: "reorder", Kind: shareKind, Help: "packets to reorder"},
			{Name: "delay", Key: "delay", Kind: durationKind(time.Second), Help: "the delay of delayed packets"},
			{Name: "delayed", Key: "delayed", Kind: shareKind, Help: "packets to delay; all, when only delay is given"},
			{Name: "seed", Key: "seed", Kind: numberKind("N", 0, 1<<63), Help: "repeats the same faults; random without it"},
			{Name: "for", Key: "for", Kind: durationKind(24 * time.Hour), Help: "then it ends by itself; a minute without it"}},
			Role: Admin, Help: "inject faults into one direction", Example: "set injection roce_to_ib drop 1% delay 2ms delayed 0.1 seed 7",
			Long: "Replaces what was injected there before. Packets dropped by it are counted as injected.", Run: setInjection},
		{Path: "set log level", Args: []Arg{{Name: "level", Kind: wordKind("LEVEL", "debug, info, warn or error", "debug", "info", "warn", "error"),
			Needed: true, Help: "the lowest level to log"}}, Role: Admin, Help: "set the level of the log", Example: "set log level debug", Run: setLogLevel},
		{Path: "set policing", Args: []Arg{{Name: "group", Kind: groupKind, Needed: true, Help: "a configured group"},
			{Name: "rate", Kind: rateKind, Needed: true, Help: "the limit, in each direction"},
			{Name: "mgid", Key: "mgid", Kind: gidKind, Help: "selects one of several groups with this address"}, confirmArg},
			Role: Admin, Help: "limit the rate of a configured group", Example: "set policing 239.1.2.3 50k", Run: setPolicing},
	}
}

// entryCommands returns the commands that add and remove entries of the configuration.
func entryCommands() []Command {
	return []Command{
		{Path: "add host", Args: []Arg{
			{Name: "address", Kind: addressKind, Needed: true, Help: "of the host or node"},
			{Name: "gid", Key: "gid", Kind: gidKind, Help: "it is an InfiniBand node with this GID", Together: "side"},
			{Name: "mac", Key: "mac", Kind: macKind, Help: "it is a RoCE host with this MAC address", Together: "side"},
			{Name: "resolve", Key: "resolve", Help: "it is a RoCE host; its MAC address is resolved", Together: "side"},
			{Name: "lid", Key: "lid", Kind: numberKind("LID", 1, 0xbfff), Help: "of a node; the subnet administrator is asked without it"},
			{Name: "sl", Key: "sl", Kind: numberKind("SL", 0, 15), Help: "of a node with a LID"},
			{Name: "pkey", Key: "pkey", Kind: numberKind("PKEY", 1, 0xffff), Help: "of a node"},
			{Name: "vlan", Key: "vlan", Kind: segmentKind, Help: "of a RoCE host"}, confirmArg},
			Role: Admin, Help: "add a static host or an InfiniBand node", Example: "add host 10.9.0.8 gid fe80::2:c903:0:8", Run: addHost},
		{Path: "add group", Args: []Arg{
			{Name: "group", Kind: groupKind, Needed: true, Help: "its IP address on RoCE"},
			{Name: "mgid", Key: "mgid", Kind: textKind("MGID", "rdmacm, ipoib, or a multicast GID"), Help: "its GID on InfiniBand; rdmacm without it"},
			{Name: "direction", Key: "direction", Kind: wordKind("DIRECTION", "both, to-ib or to-roce", "both", "to-ib", "to-roce"), Help: "both without it"},
			{Name: "ethernet", Key: "ethernet", Kind: textKind("ETHERNET", "roce or udp:PORT"), Help: "what it is on Ethernet; roce without it"},
			{Name: "ttl", Key: "ttl", Kind: numberKind("TTL", 1, 255), Help: "of the datagrams of udp:PORT"},
			{Name: "pkey", Key: "pkey", Kind: numberKind("PKEY", 1, 0xffff), Help: "that of [ib] without it; where there are several segments, it is one's"},
			{Name: "rate", Key: "rate", Kind: rateKind, Help: "the limit, in each direction"}, confirmArg},
			Role: Admin, Help: "add a group", Example: "add group 239.1.2.4 mgid rdmacm rate 50k", Run: addGroup},
		{Path: "add service", Args: []Arg{{Name: "ports", Kind: portsKind, Needed: true, Help: "of the service"},
			{Name: "vlan", Key: "vlan", Kind: segmentKind, Help: "of the only segment that it is for"}, confirmArg}, Role: Admin,
			Help: "bridge an rdma_cm service", Example: "add service 7174", Run: addService},
		{Path: "remove host", Args: []Arg{{Name: "address", Kind: addressKind, Needed: true, Help: "of a configured host or node"},
			{Name: "vlan", Key: "vlan", Kind: segmentKind, Help: "selects one of several RoCE hosts with this address"}, confirmArg}, Role: Admin,
			Help: "remove a static host or an InfiniBand node", Example: "remove host 10.9.0.8", Run: removeHost},
		{Path: "remove group", Args: []Arg{{Name: "group", Kind: groupKind, Needed: true, Help: "a configured group"},
			{Name: "mgid", Key: "mgid", Kind: gidKind, Help: "selects one of several groups with this address"}, confirmArg},
			Role: Admin, Help: "remove a group", Example: "remove group 239.1.2.4", Run: removeGroup},
		{Path: "remove service", Args: []Arg{{Name: "ports", Kind: portsKind, Needed: true, Help: "as configured"},
			{Name: "vlan", Key: "vlan", Kind: segmentKind, Help: "as configured"}, confirmArg}, Role: Admin,
			Help: "stop bridging an rdma_cm service", Example: "remove service 7174", Run: removeService},
	}
}

// session returns the commands about the session.
func session() []Command {
	return []Command{
		{Path: "watch", Args: []Arg{{Name: "command", Kind: textKind("[SECONDS] COMMAND", "a command"), Needed: true, Rest: true, Help: "the command to repeat"}},
			Help: "repeat a command", Example: "watch 1 show drops", Local: LocalWatch,
			Long: "Every 2 seconds, or as given. Ends with q, Ctrl-C or Enter."},
		{Path: "help", Args: []Arg{{Name: "words", Kind: textKind("COMMAND", "a command, or its beginning"), Rest: true, Help: "the command to explain"}},
			Help: "explain a command, or list all", Example: "help show hosts", Local: LocalHelp},
		{Path: "history", Help: "the lines of this session, and in causeway ctl of the ones before", Example: "history", Local: LocalHistory},
		{Path: "paging", Args: []Arg{{Name: "state", Kind: wordKind("STATE", "on or off", "off", "on"), Needed: true, Help: "whether to stop at each screen"}},
			Help: "turn paging of long results on or off", Example: "paging off", Local: LocalPaging},
		{Path: "login", Args: []Arg{{Name: "token", Secret: true, Kind: textKind("TOKEN", "the token of [console]"), Help: "without it, it is read without echo"}},
			Help: "become admin with the configured token", Example: "login", Local: LocalLogin},
		{Path: "quit", Help: "end the session", Example: "quit", Local: LocalQuit},
		{Path: "exit", Help: "end the session", Example: "exit", Local: LocalQuit},
	}
}
