// SPDX-License-Identifier: Apache-2.0

package command

import "causeway/lcore"

// explanations returns the commands that say what would be done with a packet.
func explanations() []Command {
	qpn := Arg{Name: "qpn", Key: "qpn", Kind: numberKind("QPN", 0, 0xffffff), Needed: true, Help: "the sender's queue pair"}
	length := Arg{Name: "length", Key: "length", Kind: numberKind("BYTES", 0, lcore.MaxPayload), Help: "of the payload; 64 without it"}
	ofFirst := vlanArg
	ofFirst.Help = "selects one of several segments; the first without it"
	nodeKind, anyGroup := addressKind, groupKind
	nodeKind.Form, nodeKind.About, nodeKind.Known = "NODE", "an InfiniBand node's IP address, or its GID", nil
	anyGroup.About = "a group's IP address, or its MGID"
	frameFile := fileKind
	frameFile.About = "a capture on the bridge's machine, as an absolute path"
	return []Command{
		{Path: "explain from roce", Args: []Arg{
			{Name: "address", Kind: addressKind, Needed: true, Help: "of the RoCE host that sends"}, qpn,
			{Name: "to", Key: "to", Kind: addressKind, Needed: true, Help: "the destination: a node or a group"},
			{Name: "to-qpn", Key: "to-qpn", Kind: numberKind("QPN", 0, 0xffffff), Help: "the destination's queue pair; not for a group"},
			{Name: "qkey", Key: "qkey", Secret: true, Kind: numberKind("QKEY", 0, 0xffffffff), Help: "that of the group, or 0x01234567, without it"}, length,
			{Name: "mac", Key: "mac", Kind: macKind, Help: "the sender's; that of show hosts without it"},
			{Name: "version", Key: "version", Kind: wordKind("VERSION", "v1 or v2", "v1", "v2"), Help: "of RoCE; v2 without it"}, ofFirst},
			Role: Admin, Help: "what the bridge would do with a frame of a RoCE host", Example: "explain from roce 10.9.0.1 qpn 0x11 to 10.9.0.7 to-qpn 0x22",
			Long: "The workers' own code runs the packet over the tables as they are. Nothing is sent, counted or changed.", Run: explainFromRoCE},
		{Path: "explain from ib", Args: []Arg{
			{Name: "node", Kind: nodeKind, Needed: true, Help: "the node that sends"}, qpn,
			{Name: "to-qpn", Key: "to-qpn", Kind: numberKind("QPN", 0, 0xffffff), Help: "the proxy QP that it sends to", Together: "destination"},
			{Name: "group", Key: "group", Kind: anyGroup, Help: "the group that it sends to", Together: "destination"},
			{Name: "lid", Key: "lid", Kind: numberKind("LID", 1, 0xbfff), Help: "the sender's; that of show nodes without it"},
			{Name: "no-grh", Key: "no-grh", Help: "the message has no GRH, so that its LID tells the sender"}, length, ofFirst},
			Role: Admin, Help: "what the bridge would do with a message of an InfiniBand node", Example: "explain from ib 10.9.0.7 qpn 0x22 to-qpn 0x700", Run: explainFromIB},
		{Path: "explain hex", Args: []Arg{{Name: "bytes", Kind: textKind("BYTES", "hexadecimal digits"), Needed: true, Rest: true, Help: "an Ethernet frame, without FCS"}},
			Role: Admin, Help: "what the bridge would do with these bytes on Ethernet", Example: "explain hex 020000000002 020000000001 0800 4500", Run: explainHex},
		{Path: "explain pcap", Args: []Arg{{Name: "file", Kind: frameFile, Needed: true, Help: "pcap or pcapng"},
			{Name: "number", Kind: numberKind("N", 1, 1_000_000), Needed: true, Help: "which packet of the file"}},
			Role: Admin, Help: "what the bridge would do with a captured frame", Example: "explain pcap /tmp/a.pcapng 1", Run: explainPcap},
	}
}
