// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"

	"causeway/ibside/ib"
	"causeway/tables"
)

// bridgeUnknown lets messages of unknown sources cross.
func bridgeUnknown(w *fixture) { w.config.BridgeUnknown = true }

// staleLIDs is after an event upon which the subnet may have given LIDs to others.
func staleLIDs(w *fixture) { w.nodes[0].LIDs = tables.LIDsStale }

// otherPartition binds the segment to a partition that the node is not in.
func otherPartition(w *fixture) {
	w.config.Bound, w.nodes[0].Partition = true, 3
}

// nodeByIPv4 adds a node whose GID is IPv4-mapped, as RoCE devices have it.
func nodeByIPv4(w *fixture) {
	anEthernetPort(w)
	w.nodes = append(w.nodes, tables.Node{
		IP4: netip.MustParseAddr("10.10.0.20"), GID: ib.GIDFromAddr(netip.MustParseAddr("10.20.0.20")), LID: 20,
	})
}

var rdmaNode = inIPv4(netip.MustParseAddr("10.20.0.20"), netip.MustParseAddr("10.20.0.1"))

// ibCases are about messages from the IB port, in the order of the checks.
var ibCases = []ibCase{
	{"from a node of another partition", "wrong_partition", received(), otherPartition},
	{"from a node of the segment's partition", "", received(fromNode(node4GID, node4LID)), otherPartition},
	{"a message", "", received(), nil},
	{"no GRH", "", received(noGRH), nil},
	{"from QP 0", "srcqp", received(func(m *message) { m.SrcQP = 0 }), nil},
	{"from QP 1", "srcqp", received(func(m *message) { m.SrcQP = 1 }), nil},
	{"from the multicast QPN", "srcqp", received(func(m *message) { m.SrcQP = ib.QPMulticast }), nil},
	{"a GRH of version 4", "grh_class", received(func(m *message) { m.GRH[0] = 0x46 }), nil},
	{"a GRH of zeros", "grh_class", received(func(m *message) { m.GRH = [40]byte{} }), nil},
	{"an IPv4 header at an InfiniBand port", "grh_class", received(rdmaNode), nil},
	{"an IPv4 header at a RoCE port", "", received(rdmaNode), nodeByIPv4},
	{"an IPv4 header behind stale zeros", "", received(rdmaNode, func(m *message) { m.GRH[0] = 0 }), nodeByIPv4},
	{"an IPv4 header behind a stale version 6", "", received(rdmaNode, func(m *message) { m.GRH[0] = 0x6a }), nodeByIPv4},
	{"an IPv4 header of wrong checksum behind a stale version 6", "node_unknown",
		received(rdmaNode, func(m *message) { m.GRH[0], m.GRH[30] = 0x6a, m.GRH[30]^1 }), nodeByIPv4},
	{"neither IPv4 nor IPv6", "grh_class", received(func(m *message) { m.GRH = [40]byte{} }), nodeByIPv4},
	{"a GRH at a RoCE port", "", received(), nodeByIPv4},
	{"from the bridge's own GID", "loop_self", received(fromNode(bridgeGID, nodeLID)), nil},
	{"from another GID of the bridge's", "loop_self", received(fromNode(aliasGID, nodeLID)), nil},
	{"from the bridge's own LID", "loop_self", received(noGRH, func(m *message) { m.SLID = bridgeLID }), nil},
	{"from another of the bridge's LIDs", "loop_self", received(noGRH, func(m *message) { m.SLID = bridgeLID + 1 }), nil},
	{"from the fourth LID of a node", "", received(noGRH, func(m *message) { m.SLID = node4LID + 3 }), nil},
	{"from the LID before that of a node", "node_unknown", received(noGRH, func(m *message) { m.SLID = nodeLID - 1 }), nil},
	{"from a router's LID", "node_unknown", received(noGRH, toSix, func(m *message) { m.SLID = localLID }), nil},
	{"from a router's LID, with a GRH", "", received(fromNode(localGID, localLID), toSix), nil},
	{"from a LID that may be another's by now", "node_unknown", received(noGRH), staleLIDs},
	{"from a LID that may be another's by now, with a GRH", "", received(), staleLIDs},
	{"to a group, by the bridge itself", "loop_self", received(toGroup(mgidOf(group4)), fromNode(bridgeGID, bridgeLID)), nil},
	{"to a QPN that is no proxy QP", "proxy_qp_unknown", received(func(m *message) { m.QPN = 0x999 }), nil},
	{"the largest payload", "", received(func(m *message) { m.Payload = pattern(1024) }), func(w *fixture) { w.config.RoCEMTU = 1024 }},
	{"more than the largest payload", "mtu_exceeded", received(func(m *message) { m.Payload = pattern(1025) }), func(w *fixture) { w.config.RoCEMTU = 1024 }},
	{"no payload", "", received(func(m *message) { m.Payload = nil }), nil},
	{"to a group", "", received(toGroup(mgidOf(group4))), nil},
	{"to a group that is not bridged", "mc_unknown", received(toGroup(mgidOf(noGroup))), nil},
	{"to a group that is closed this way", "mc_direction", received(toGroup(mgidOf(groupOut))), nil},
	{"the largest payload of a group", "", received(toGroup(mgidOf(group4)), func(m *message) { m.Payload = pattern(1024) }), nil},
	{"more than the largest payload of a group", "mtu_exceeded", received(toGroup(mgidOf(group4)), func(m *message) { m.Payload = pattern(1025) }), nil},
	{"from an unknown GID", "node_unknown", received(fromNode(mustGID("fe80::99"), nodeLID)), nil},
	{"from an unknown LID", "node_unknown", received(noGRH, func(m *message) { m.SLID = 99 }), nil},
	{"from an unknown GID, by policy", "", received(fromNode(mustGID("fe80::99"), nodeLID)), bridgeUnknown},
	{"from an unknown LID, by policy", "", received(noGRH, func(m *message) { m.SLID = 99 }), bridgeUnknown},
	{"from an unknown GID to a group, by policy", "", received(fromNode(mustGID("fe80::99"), nodeLID), toGroup(mgidOf(group4))), bridgeUnknown},
	{"from an unknown GID to an IPv6 host, by a bridge of IPv4", "node_no_ip",
		received(fromNode(mustGID("fe80::99"), nodeLID), func(m *message) { m.QPN = proxyQPN + 1 }),
		func(w *fixture) { bridgeUnknown(w); w.config.Addresses = w.config.Addresses[:1] }},
	{"from the bridge's own GID, whatever the policy", "loop_self", received(fromNode(aliasGID, nodeLID)), bridgeUnknown},
	{"from another bridge", "loop_bridge", received(fromNode(peerGID, peerLID)), nil},
	{"from another bridge's LID", "loop_bridge", received(noGRH, func(m *message) { m.SLID = peerLID }), nil},
	{"from a node with IPv4 only to an IPv4 host", "", received(fromNode(node4GID, node4LID)), nil},
	{"from a node with IPv4 only to an IPv6 host", "node_no_ip", received(fromNode(node4GID, node4LID), func(m *message) { m.QPN = proxyQPN + 1 }), nil},
	{"from a node with IPv6 only to an IPv4 host", "node_no_ip", received(fromNode(localGID, localLID)), nil},
	{"from a node with IPv6 only to an IPv4 group", "node_no_ip", received(fromNode(localGID, localLID), toGroup(mgidOf(group4))), nil},
}
