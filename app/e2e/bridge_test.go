// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// mixedSizes are payload sizes with each length of padding, with no payload, and with the most that MTU 4200 lets
// through.
var mixedSizes = []int{0, 1, 2, 3, 4, 61, 62, 63, 64, 1024, 4095, 4096}

// commas writes sizes as udend wants them.
func commas(sizes []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]")
}

const (
	groupQKey = ib.QKeyRDMAUDP
	unicast   = "--qkey 0x01234567"
	groupV4   = "239.1.2.3"
	groupV6   = "ff0e::4242"
)

// network is the network of a bridge: its addresses, those of IB node 7 and of
// hosts A and B, one of each family.
type network struct {
	name   string
	vlan   int
	v4, v6 string // prefixes without the host's number: "10.9.0.", "fd09::"
}

var networks = []network{
	{"untagged", 0, "10.9.0.", "fd09::"},
	{"vlan", 100, "10.100.0.", "fd64::"},
}

// nodeGUID is IB node 7's.
const nodeGUID ib.GUID = 0x0002c90300000007

// config returns a bridge's configuration in this network; more is added at its end.
func (n network) config(more string) string {
	return fmt.Sprintf(`
[roce]
port      = "af_packet:%[1]s"
addresses = ["%[3]s254/24", "%[4]sfe/64"]
mtu       = %[5]d
vlan      = %[2]d
[ib]
port = "fabric:FABRIC"
[workers]
lcores = [1]
idle   = "interrupt"
[[host]]
ip   = "%[3]s7"
ip6  = "%[4]s7"
side = "ib"
gid  = "fe80::2:c903:0:7"
[[group]]
ip = "%[6]s"
[[group]]
ip = "%[7]s"
[policy]
allow = ["%[3]s0/24", "%[4]s/64", "fe80::/64"]
[log]
level = "debug"
[metrics]
listen = "%[8]s"
`, Port, n.vlan, n.v4, n.v6, hostMTU, groupV4, groupV6, metricsListen) + more
}

const topology = `
[fabric]
mtu    = 4096
socket = "SOCKET"
`

func mgid(group string) fabric.GroupConfig {
	return fabric.GroupConfig{MGID: ib.MGIDRDMACM(netip.MustParseAddr(group), ib.PKeyDefault, 2), QKey: groupQKey}
}

// bridge starts a bridge and node 7.
func (n network) bridge(t *testing.T, role fabric.Role) (*Causeway, *IBNode) {
	t.Helper()
	c, nodes := bridgeWith(t, n.config(""), topology, node7(role))
	return c, nodes[0]
}

func node7(role fabric.Role) fabric.NodeConfig {
	return fabric.NodeConfig{
		Name: "node7", GUID: nodeGUID, Role: role, Groups: []fabric.GroupConfig{mgid(groupV4), mgid(groupV6)},
	}
}

// bridgeWith starts a bridge and nodes, and ends them with the test; the bridge must then have counted every packet.
func bridgeWith(t *testing.T, config, topology string, configs ...fabric.NodeConfig) (*Causeway, []*IBNode) {
	t.Helper()
	r, _, _ := theRig(t)
	c, err := r.StartCauseway(within(t, stepTime), config, topology)
	if c == nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the bridge logged:\n%s", lastLines(c.Log()))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*IBNode
	for _, config := range configs {
		node, err := c.AttachNode(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		nodes = append(nodes, node)
	}
	if err := c.Ready(within(t, stepTime)); err != nil {
		t.Fatal(err)
	}
	return c, nodes
}

// families runs a test for IPv4 and IPv6, with A's address and the group.
func (n network) families(t *testing.T, a *Guest, test func(t *testing.T, host Peer, node, group string)) {
	t.Run("v4", func(t *testing.T) { test(t, Peer{Guest: a, IP: n.v4 + "1"}, n.v4+"7", groupV4) })
	t.Run("v6", func(t *testing.T) { test(t, Peer{Guest: a, IP: n.v6 + "1"}, n.v6+"7", groupV6) })
}

// TestUnicast: a host sends to the node and the node's answers come back to it
// through the host's proxy QP, byte for byte.
func TestUnicast(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "host to node and back by its proxy QP")
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			_, node := n.bridge(t, fabric.RoleEcho)
			n.families(t, a, func(t *testing.T, host Peer, nodeIP, _ string) {
				for _, args := range []string{unicast, unicast + " --imm 0xcafe"} {
					pingNode(t, node, host, nodeIP, args)
					proof.add(2 * len(mixedSizes))
				}
			})
		})
	}
}

func pingNode(t *testing.T, node *IBNode, host Peer, nodeIP, args string) {
	t.Helper()
	pingQPN(t, node.QP().QPN(), host, nodeIP, args)
	withImm := strings.Contains(args, "--imm")
	var proxyQP ib.QPN
	for i, size := range mixedSizes {
		m, err := node.Receive(within(t, stepTime))
		if err != nil {
			t.Fatal(err)
		}
		if _, v := stamp.Read(m.Payload); !v.Intact() || len(m.Payload) != size || m.HasImm != withImm {
			t.Errorf("message %d came to the node as %+v", i+1, m)
		}
		if i > 0 && m.SrcQP != proxyQP {
			t.Errorf("message %d came from QPN %v, those before from %v: one RoCE queue pair has one proxy QP", i+1, m.SrcQP, proxyQP)
		}
		proxyQP = m.SrcQP
	}
}

// pingQPN sends one message of each size to a node that sends each back, and checks what comes back.
func pingQPN(t *testing.T, qpn ib.QPN, host Peer, nodeIP, args string) {
	t.Helper()
	events, err := host.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s --to %s --qpn %d --count %d --size %s %s pingpong",
		host.udendArgs(), nodeIP, qpn, len(mixedSizes), commas(mixedSizes), args))
	if err != nil {
		t.Fatal(err)
	}
	withImm := strings.Contains(args, "--imm")
	for i, e := range Only(events, "received") {
		if e.SrcQP != uint32(qpn) || e.WithImm != withImm || (withImm && e.Imm != 0xcafe) || !e.WithGRH || !e.Intact {
			t.Errorf("reply %d is not the node's own: %+v", i+1, e)
		}
	}
}

// TestMulticastToIB: what a host publishes reaches the node unchanged.
func TestMulticastToIB(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "host publishes, node receives")
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			_, node := n.bridge(t, fabric.RoleListen)
			n.families(t, a, func(t *testing.T, host Peer, _, group string) {
				_, err := host.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to %s --qpn 0xffffff --gap 2 --count %d --size %s send",
					host.udendArgs(), unicast, group, len(mixedSizes), commas(mixedSizes)))
				if err != nil {
					t.Fatal(err)
				}
				receiveMixed(t, node, group)
				proof.add(len(mixedSizes))
			})
		})
	}
}

// receiveMixed takes one message of each size from the node, in any order: the
// first may be overtaken while its proxy QP is made.
func receiveMixed(t *testing.T, node *IBNode, group string) {
	t.Helper()
	var sizes []int
	for range mixedSizes {
		m, err := node.Receive(within(t, stepTime))
		if err != nil {
			t.Fatal(err)
		}
		if _, v := stamp.Read(m.Payload); !v.Intact() || m.MGID() != mgid(group).MGID {
			t.Errorf("a message came as %+v", m)
		}
		sizes = append(sizes, len(m.Payload))
	}
	if slices.Sort(sizes); !slices.Equal(sizes, mixedSizes) {
		t.Errorf("messages of %v bytes came, want %v", sizes, mixedSizes)
	}
}

// TestMulticastToRoCE: what the node publishes reaches a host unchanged, from the node's own address and QPN.
func TestMulticastToRoCE(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "node publishes, host receives, in order")
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			_, node := n.bridge(t, fabric.RoleNone)
			n.families(t, a, func(t *testing.T, host Peer, _, group string) {
				listener, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --mgid %s --count %d --seconds 15 recv",
					host.udendArgs(), unicast, group, len(mixedSizes)))
				if err != nil {
					t.Fatal(err)
				}
				if err := node.Publish(within(t, stepTime), mgid(group), mixedSizes, true); err != nil {
					t.Fatal(err)
				}
				checkPublished(t, listener, node)
				proof.add(len(mixedSizes))
			})
		})
	}
}

func checkPublished(t *testing.T, listener *UDEnd, node *IBNode) {
	t.Helper()
	events, exit, err := listener.Wait(within(t, stepTime))
	received := Only(events, "received")
	if err != nil || exit != 0 || len(received) != len(mixedSizes) {
		t.Errorf("the host received %d of %d: exit %d, %v", len(received), len(mixedSizes), exit, err)
	}
	for i, e := range received {
		qpn := uint32(node.QP().QPN())
		if e.Length != mixedSizes[i] || !e.Intact || e.SrcQP != qpn || !e.WithImm || e.Imm != qpn || !e.WithGRH {
			t.Errorf("message %d: %+v", i+1, e)
		}
	}
}
