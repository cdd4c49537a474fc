// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"time"

	"causeway/lcore"
)

// Standard is the table of all commands.
var Standard = NewTable(allCommands())

func allCommands() (all []Command) {
	for _, some := range [][]Command{showState(), showTraffic(), showBridge(), live(), changes(), session()} {
		all = append(all, some...)
	}
	return all
}

// groupHelp is the help of words that commands begin with.
var groupHelp = map[string]string{
	"show":    "look at the bridge",
	"clear":   "forget counts, neighbours or injected faults",
	"set":     "change something until the bridge ends",
	"add":     "add a host, a group or a service until the bridge ends",
	"remove":  "remove a host, a group or a service until the bridge ends",
	"set log": "change the log",
}

// Arguments that many commands have.
var (
	limitArg = Arg{Name: "limit", Key: "limit", Kind: numberKind("N", 1, 100_000), Help: "entries, at most; 200 without it"}
	inArg    = Arg{Name: "in", Kind: prefixKind, Help: "only these"}
)

// showState are the commands about what the bridge knows.
func showState() []Command {
	return []Command{
		{Path: "show status", Help: "how the bridge stands, on one screen", Example: "show status", Run: runStatus,
			Long: "Ready means that every group is joined on both sides and every configured node has its path."},
		{Path: "show hosts", Args: []Arg{inArg, limitArg}, Help: "RoCE hosts, and how each is seen on InfiniBand",
			Example: "show hosts 10.9.0.0/24", Run: runHosts},
		{Path: "show nodes", Args: []Arg{inArg, limitArg}, Help: "InfiniBand nodes, and their paths", Example: "show nodes", Run: runNodes},
		{Path: "show qps", Args: []Arg{inArg, limitArg}, Help: "RoCE hosts' queue pairs, and the stand-ins on InfiniBand",
			Example: "show qps 10.9.0.1 limit 20", Run: runStandIns,
			Long: "USED is when something was last seen to have crossed by the stand-in; the bridge looks now and then, not at each packet."},
		{Path: "show groups", Args: []Arg{inArg, limitArg}, Help: "multicast groups, their state and what has crossed",
			Example: "show groups 239.1.2.3", Run: runGroups,
			Long: "Several groups may have one address; what has crossed is counted by address."},
		{Path: "show services", Help: "rdma_cm services, and what became of requests", Example: "show services", Run: runServices},
		{Path: "show sidr", Args: []Arg{inArg, limitArg}, Help: "requests for services that are under way", Example: "show sidr", Run: runRequests},
		{Path: "show neighbours", Args: []Arg{inArg, limitArg}, Help: "MAC addresses of RoCE hosts, and when each was heard",
			Example: "show neighbours", Run: runNeighbours,
			Long: "reachable: heard not long ago. probed: asked, no answer yet. silent: no answer, but it has stand-ins. contested: another MAC " +
				"address claims the address. unresolved: asked for, never heard."},
		{Path: "show streams", Args: []Arg{limitArg}, Help: "PGM streams, and what each has lost", Example: "show streams", Run: runStreams,
			Long: "Only groups with pgm = true are looked at."},
	}
}

// showTraffic are the commands about packets.
func showTraffic() []Command {
	return []Command{
		{Path: "show workers", Help: "worker cores: load, packets and rates", Example: "show workers", Run: runWorkers,
			Long: "BUSY is the part of a worker's loops, in the last second, that moved something. Rates are of the last second."},
		{Path: "show ports", Help: "the two ports and their counters", Example: "show ports", Run: runPorts},
		{Path: "show drops", Args: []Arg{{Name: "all", Key: "all", Help: "reasons that have not occurred, too"}},
			Help: "why packets were dropped", Example: "show drops | match crc", Run: runDrops},
		{Path: "show rates", Help: "packets and bits a second, now and over ten seconds", Example: "watch 1 show rates", Run: runRates},
		{Path: "show latency", Help: "how long packets stay in the bridge", Example: "show latency", Run: runLatency,
			Long: "From a burst's reception to its hand-over to the other door. Each figure is a quantile's upper bound."},
		{Path: "show flows", Help: "rules by which a shared port gives frames to the bridge", Example: "show flows", Run: runFlows},
		{Path: "show injection", Help: "faults that are injected", Example: "show injection", Run: runInjections},
	}
}

// showBridge are the commands about the program.
func showBridge() []Command {
	return []Command{
		{Path: "show config", Help: "the configuration in force", Example: "show config | match groups", Run: runConfig,
			Long: "What commands have changed is in it. The console's token is not shown."},
		{Path: "show log", Args: []Arg{{Name: "lines", Kind: numberKind("LINES", 1, 10_000), Help: "how many; 50 without it"}},
			Help: "the last lines of the log", Example: "show log 20", Run: runLog},
		{Path: "show memory", Help: "packets, tables and the heap: taken and free", Example: "show memory", Run: runMemory},
		{Path: "show version", Help: "the program's version, and for how long it has run", Example: "show version", Run: runVersion},
	}
}

var filterArgs = []Arg{
	{Name: "direction", Key: "direction", Kind: directions, Help: "packets that go this way"},
	{Name: "door", Key: "door", Kind: wordKind("DOOR", "roce or ib", "ib", "roce"), Help: "what is seen at this door"},
	{Name: "host", Key: "host", Kind: textKind("ADDRESS", "of a host or node: an IP address or a GID"), Help: "packets of, or for, a host or node"},
	{Name: "group", Key: "group", Kind: groupKind, Help: "packets for a group"},
	{Name: "qpn", Key: "qpn", Kind: numberKind("QPN", 1, 0xffffff), Help: "packets of, or for, a queue pair"},
	{Name: "point", Key: "point", Kind: wordKind("POINT", "where on its way", points()...), Help: "what is seen there"},
	{Name: "drop", Key: "drop", Kind: dropKind, Help: "packets dropped for this reason"},
}

// points are where a packet can be seen.
func points() (names []string) {
	for p := lcore.Received; p <= lcore.Own; p++ {
		names = append(names, p.String())
	}
	slices.Sort(names)
	return names
}

// live are the commands that go on.
func live() []Command {
	const day = 24 * time.Hour
	count := Arg{Name: "count", Key: "count", Kind: numberKind("N", 1, 1_000_000), Help: "end after so many packets"}
	last := Arg{Name: "for", Key: "for", Kind: durationKind(day), Help: "end after this time"}
	return []Command{
		{Path: "top", Args: []Arg{
			{Name: "every", Key: "every", Kind: durationKind(time.Hour), Help: "between two pictures; 1s without it"},
			{Name: "count", Key: "count", Kind: numberKind("N", 1, 1_000_000), Help: "end after so many pictures"}},
			Help: "a live picture: rates, the busiest groups and hosts", Example: "top every 2s", Stream: streamTop,
			Long: "Hosts are counted by looking at a part of the packets, so their rates are estimates."},
		{Path: "trace", Args: append(append([]Arg{}, filterArgs...), count, last), Role: Admin,
			Help: "explain what the bridge does with packets, one by one", Example: "trace host 10.9.0.1 drop any count 5", Stream: streamTrace,
			Long: "Ends after 10 packets, unless count or for says otherwise."},
		{Path: "capture", Args: append(append([]Arg{{Name: "to", Key: "to", Kind: fileKind, Help: "write pcapng there, instead of a line for each packet"}},
			filterArgs...), count, last, Arg{Name: "snap", Key: "snap", Kind: numberKind("BYTES", 64, 9000), Help: "keep so much of each packet; all without it"}),
			Role: Admin, Help: "capture packets at both doors", Example: "capture to /tmp/a.pcapng drop icrc for 10s", Stream: streamCapture,
			Long: "The file must not be there yet. With \"to -\", ctl writes pcapng to its standard output: causeway ctl capture to - count 100 | " +
				"tshark -r -. Ends after 1000 packets, unless count or for says otherwise."},
	}
}

// changes are the commands that change the bridge.
func changes() []Command {
	return append(setCommands(), append(entryCommands(), []Command{
		{Path: "clear counters", Role: Admin, Help: "count from zero in show drops and show workers", Example: "clear counters", Run: clearCounters,
			Long: "For all sessions. Metrics go on as they were."},
		{Path: "clear latency", Role: Admin, Help: "measure latency anew", Example: "clear latency", Run: clearLatency,
			Long: "Metrics count on from zero, too."},
		{Path: "clear neighbour", Args: []Arg{{Name: "address", Kind: addressKind, Needed: true, Help: "of a RoCE host"}}, Role: Admin,
			Help: "forget what was learnt of a RoCE host", Example: "clear neighbour 10.9.0.1", Run: clearNeighbour,
			Long: "Static hosts stay, and hosts that have stand-ins."},
		{Path: "clear injection", Args: []Arg{{Name: "direction", Kind: directions, Help: "only this way"}}, Role: Admin,
			Help: "inject no more faults", Example: "clear injection", Run: clearInjection},
		{Path: "reload", Args: []Arg{{Name: "check", Key: "check", Help: "only say what would change"}}, Role: Admin,
			Help: "read the configuration file again, and follow it", Example: "reload check", Run: runReload,
			Long: "All of it or nothing: what needs a restart is named, and then nothing changes. What commands have added and the file " +
				"has not goes. check lists every change and says of each whether it needs a restart; it fails where one does."},
		{Path: "drain", Role: Admin,
			Help: "leave everything to another bridge, and stay", Example: "drain", Run: runDrain,
			Long: "Groups and services are left, and nodes' addresses answered for no more, nor defended. What still comes to the bridge " +
				"crosses. /readyz says no until \"resume\"."},
		{Path: "resume", Role: Admin,
			Help: "take up again what drain has left", Example: "resume", Run: runResume,
			Long: "Groups are joined, nodes announced; the bridge is ready again when all is there."},
		{Path: "halt", Role: Admin,
			Help: "leave all groups, send what is inside, and end", Example: "halt", Run: runHalt,
			Long: "As SIGTERM does. There is no question first, neither at a terminal nor for a line that comes by a pipe. A service manager that restarts the bridge after an orderly end starts it again."},
	}...)...)
}

// setCommands set what is no entry of the configuration.
func setCommands() []Command {
	return []Command{
		{Path: "set injection", Args: []Arg{
			{Name: "direction", Kind: directions, Needed: true, Help: "the way that it is for"},
			{Name: "drop", Key: "drop", Kind: shareKind, Help: "packets to drop"},
			{Name: "duplicate", Key: "duplicate", Kind: shareKind, Help: "packets to send twice"},
			{Name: "reorder", Key: "reorder", Kind: shareKind, Help: "packets to let others overtake"},
			{Name: "delay", Key: "delay", Kind: durationKind(time.Second), Help: "how long delayed packets wait"},
			{Name: "delayed", Key: "delayed", Kind: shareKind, Help: "packets to delay; all, when only delay is there"},
			{Name: "seed", Key: "seed", Kind: numberKind("N", 0, 1<<63), Help: "for the same faults again; by chance without it"}},
			Role: Admin, Help: "inject faults into one direction", Example: "set injection roce_to_ib drop 1% delay 2ms delayed 0.1 seed 7",
			Long: "Takes the place of what was injected there before. Packets that it drops are counted as injected.", Run: setInjection},
		{Path: "set log level", Args: []Arg{{Name: "level", Kind: wordKind("LEVEL", "debug, info, warn or error", "debug", "info", "warn", "error"),
			Needed: true, Help: "the least important lines"}}, Role: Admin, Help: "say more or less in the log", Example: "set log level debug", Run: setLogLevel},
		{Path: "set policing", Args: []Arg{{Name: "group", Kind: groupKind, Needed: true, Help: "a configured group"},
			{Name: "rate", Kind: rateKind, Needed: true, Help: "the most that crosses, each way"},
			{Name: "mgid", Key: "mgid", Kind: gidKind, Help: "the one of several with this address"}},
			Role: Admin, Help: "limit the rate of a configured group", Example: "set policing 239.1.2.3 50k", Run: setPolicing},
	}
}

// entryCommands add and remove entries of the configuration.
func entryCommands() []Command {
	return []Command{
		{Path: "add host", Args: []Arg{
			{Name: "address", Kind: addressKind, Needed: true, Help: "of the host or node"},
			{Name: "gid", Key: "gid", Kind: gidKind, Help: "it is an InfiniBand node with this GID", Together: "side"},
			{Name: "mac", Key: "mac", Kind: macKind, Help: "it is a RoCE host with this MAC address", Together: "side"},
			{Name: "ask", Key: "ask", Help: "it is a RoCE host; its MAC address is asked for", Together: "side"},
			{Name: "lid", Key: "lid", Kind: numberKind("LID", 1, 0xbfff), Help: "of a node; the subnet is asked without it"},
			{Name: "sl", Key: "sl", Kind: numberKind("SL", 0, 15), Help: "of a node with a LID"},
			{Name: "vlan", Key: "vlan", Kind: numberKind("VLAN", 0, 4094), Help: "of a RoCE host"}},
			Role: Admin, Help: "add a static host or an InfiniBand node", Example: "add host 10.9.0.8 gid fe80::2:c903:0:8", Run: addHost},
		{Path: "add group", Args: []Arg{
			{Name: "group", Kind: groupKind, Needed: true, Help: "its address on RoCE"},
			{Name: "mgid", Key: "mgid", Kind: textKind("MGID", "rdmacm, ipoib, or a multicast GID"), Help: "its GID on InfiniBand; rdmacm without it"},
			{Name: "direction", Key: "direction", Kind: wordKind("WAY", "both, to-ib or to-roce", "both", "to-ib", "to-roce"), Help: "both without it"},
			{Name: "rate", Key: "rate", Kind: rateKind, Help: "the most that crosses, each way"}},
			Role: Admin, Help: "add a group", Example: "add group 239.1.2.4 mgid rdmacm rate 50k", Run: addGroup},
		{Path: "add service", Args: []Arg{{Name: "ports", Kind: portsKind, Needed: true, Help: "of the service"}}, Role: Admin,
			Help: "let an rdma_cm service cross", Example: "add service 7174", Run: addService},
		{Path: "remove host", Args: []Arg{{Name: "address", Kind: addressKind, Needed: true, Help: "of a configured host or node"}}, Role: Admin,
			Help: "remove a static host or an InfiniBand node", Example: "remove host 10.9.0.8", Run: removeHost},
		{Path: "remove group", Args: []Arg{{Name: "group", Kind: groupKind, Needed: true, Help: "a configured group"},
			{Name: "mgid", Key: "mgid", Kind: gidKind, Help: "the one of several with this address"}},
			Role: Admin, Help: "remove a group", Example: "remove group 239.1.2.4", Run: removeGroup},
		{Path: "remove service", Args: []Arg{{Name: "ports", Kind: portsKind, Needed: true, Help: "as they were configured"}}, Role: Admin,
			Help: "let an rdma_cm service cross no more", Example: "remove service 7174", Run: removeService},
	}
}

// session are the commands about the session.
func session() []Command {
	return []Command{
		{Path: "watch", Args: []Arg{{Name: "command", Kind: textKind("[SECONDS] COMMAND", "a command"), Needed: true, Rest: true, Help: "what to watch"}},
			Help: "give a command again and again", Example: "watch 1 show drops", Local: LocalWatch,
			Long: "Every 2 seconds, or as written. Ends with q, Ctrl-C or Enter."},
		{Path: "help", Args: []Arg{{Name: "words", Kind: textKind("COMMAND", "a command, or its beginning"), Rest: true, Help: "what to explain"}},
			Help: "explain a command, or list them all", Example: "help show hosts", Local: LocalHelp},
		{Path: "history", Help: "the lines of this session", Example: "history", Local: LocalHistory},
		{Path: "paging", Args: []Arg{{Name: "state", Kind: wordKind("STATE", "on or off", "off", "on"), Needed: true, Help: "whether to stop"}},
			Help: "stop at each full screen, or do not", Example: "paging off", Local: LocalPaging},
		{Path: "login", Args: []Arg{{Name: "token", Kind: textKind("TOKEN", "the token of [console]"), Help: "without it, it is asked for unseen"}},
			Help: "become admin, by the configured token", Example: "login", Local: LocalLogin},
		{Path: "quit", Help: "end the session", Example: "quit", Local: LocalQuit},
		{Path: "exit", Help: "end the session", Example: "exit", Local: LocalQuit},
	}
}
