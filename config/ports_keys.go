// SPDX-License-Identifier: Apache-2.0

package config

// morePortsDoc and fabricsDoc are the tables of several ports.
var (
	morePortsDoc = tableDoc{name: morePorts, many: true, meaning: "A further InfiniBand port, of the same fabric or of another one with its own subnet manager; or `[[ib]]`, if the first is written so, too. Groups are joined and nodes' paths " +
		"resolved on all ports; [multipath.md](multipath.md) says what moves from one to another, and when.", keys: append([]key{
		{name: "port", kind: text, need: true, example: `"mlx5_1:1"`, meaning: "The port, as in `[ib]`."},
		{name: "pkey", shared: true, kind: number, def: int64(0xffff), lo: 1, hi: 0xffff, hex: true, example: "0xffff",
			meaning: "This port's P_Key, in place of that of the first `[[ib]]`, also where that is in the MGID of a group."},
		{name: "gid", kind: text, noted: "the port's first that fits", example: `"fe80::2:c903:0:1"`, meaning: "The bridge's own GID on this port, as in `[ib]`."},
		{name: "direct", kind: truth, def: true, example: "false", meaning: "As in `[ib]`."},
	}, portNameKeys()...)}
	fabricsDoc = tableDoc{name: "fabrics", shared: true, meaning: "How several `[[ib]]` are used together.", keys: []key{
		{name: "mode", kind: text, def: FabricsActive, words: []string{FabricsActive, FabricsBoth}, example: `"both"`,
			meaning: "By which ports a group's messages go, where the group does not say: `active`, one of them, while the others are warm; or `both`, all (A/B feeds)."},
		{name: "dedup", kind: text, def: DedupNone, words: []string{DedupNone, DedupImm, DedupPGM}, example: `"imm"`,
			meaning: "What tells copies of a message that come by several ports, of which the first crosses and the others are dropped (`duplicate`): `imm`, immediate " +
				"data, with which a node numbers its messages to the group; `pgm`, PGM's sequence numbers; or `none`: with `both`, copies cross."},
		{name: "hold_down", kind: number, def: int64(10), lo: 1, hi: 3600, example: "10",
			meaning: "The seconds that a group or node stays with a port at least, unless that goes down, and that a preferred port must have been good before it is active again."},
		{name: "max_loss", kind: number, def: int64(10), lo: 1, hi: 99, example: "10",
			meaning: "The percentage of lost messages above which a port is left."},
	}}
)

// portUseKeys are the keys of a group for several ports.
var portUseKeys = []key{
	{name: "fabrics", kind: text, noted: "`[fabrics] mode`", words: []string{FabricsActive, FabricsBoth}, example: `"both"`,
		meaning: "With several `[[ib]]`: by which ports the group's messages go, as in `[fabrics] mode`, which is that of all groups of a `[[range]]`."},
	{name: "dedup", kind: text, noted: "that of `[fabrics]`", words: []string{DedupNone, DedupImm, DedupPGM}, example: `"imm"`,
		meaning: "With several `[[ib]]`: what tells copies of a message, as in `[fabrics] dedup`."},
	{name: "vlans", kind: numbers, noted: "that of the segment with its `pkey`", lo: 0, hi: 4094, example: "[0]",
		meaning: "With several `[[roce]]`: the segments that have the group, by their VLAN ids (0: untagged), whatever their partitions are. On InfiniBand the group is in " +
			"that of its own `pkey` alone. Each segment gets a copy of what nodes send to it that are of the group's partition or of the segment's, and each segment's " +
			"hosts publish in the group's partition; nothing goes from one segment to another. No other group of the segments has its address."},
	{name: "segments", own: true, kind: texts, noted: "none", example: `["af_packet:eth1/0"]`,
		meaning: "The same as `vlans`, with the ports: needed where segments of several ports have one VLAN."},
}

// segmentKey names one segment where there are several ports.
var segmentKey = key{name: "segment", own: true, kind: text, noted: "that of `vlan`", example: `"af_packet:eth1/0"`,
	meaning: "In place of `vlan`, where segments of several ports have the same: the port of the segment, as in `[[roce]]`, and its VLAN id (0: untagged)."}

// portNameKeys are the keys of all [[ib]] that tell them apart.
func portNameKeys() []key {
	return []key{
		{name: "name", kind: text, noted: "that of `port`", example: `"a"`,
			meaning: "With several `[[ib]]`: the port's name, in `show fabrics`, `port prefer`, metrics and the log."},
		{name: "fabric", shared: true, kind: text, noted: "`name`", example: `"a"`,
			meaning: "With several `[[ib]]`: ports with the same are on one fabric, where a node has one GID. Each port is on a fabric of its own by default."},
	}
}
