// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"causeway/app/e2e/agent/client"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// mckeyGroups are bridged at once, besides the IPv6 group.
var mckeyGroups = []string{groupV4, "239.1.2.4", "239.1.2.5"}

// mckeySizes are the payloads to each group, on each network.
var mckeySizes = [][]int{{1, 63, 4096}, {2, 100, 1023}}

// TestMckeyToIB and TestMckeyToRoCE: rdma_cm's multicast example in three groups
// at once, on each kind of network.
func TestMckeyToIB(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "mckey to node, three groups at once: each byte as on the wire")
	for i, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			node := bridgeMckeyGroups(t, n)
			proof.add(mckeysToNode(t, node, Peer{Guest: a, IP: n.v4 + "1"}, mckeySizes[i]))
		})
	}
}

func TestMckeyToRoCE(t *testing.T) {
	_, a, b := theRig(t)
	proof := proves(t, "node to mckey, three groups at once: none leaks into another")
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			node := bridgeMckeyGroups(t, n)
			proof.add(nodeToMckeys(t, node, Peer{Guest: a, IP: n.v4 + "1"}, Peer{Guest: b, IP: n.v4 + "2"}))
		})
	}
}

// bridgeMckeyGroups starts a bridge of all mckeyGroups, and a node that is in all.
func bridgeMckeyGroups(t *testing.T, n network) *IBNode {
	t.Helper()
	more, node := "", node7(fabric.RoleNone)
	node.Groups = nil
	for _, g := range mckeyGroups {
		node.Groups = append(node.Groups, mgid(g))
		if g != groupV4 { // which the configuration has anyway
			more += fmt.Sprintf("[[group]]\nip = %q\n", g)
		}
	}
	_, nodes := bridgeWith(t, n.config(more), topology, node)
	return nodes[0]
}

// mckeysToNode has a mckey send to each group at once, and compares the packets that the host's kernel sent with those
// that came to the node.
func mckeysToNode(t *testing.T, node *IBNode, host Peer, sizes []int) int {
	t.Helper()
	const count = 8
	wire := startCapture(t, "tapA", "")
	var senders []*client.Command
	for i, group := range mckeyGroups {
		c, err := host.Start(fmt.Sprintf("exec mckey -m %s -b %s -s -S %d -C %d", group, host.IP, sizes[i], count))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		senders = append(senders, c)
	}
	for _, c := range senders {
		mckeySucceeds(t, c)
	}
	want := count * len(mckeyGroups)
	came, err := node.ReceiveN(within(t, stepTime), want)
	if err != nil {
		t.Error(err)
	}
	sent := sentBy(t, wire, host.IP)
	if len(sent) != want {
		t.Errorf("mckey put %d messages on the wire, want %d", len(sent), want)
	}
	compareGroups(t, sent, came, sizes)
	return len(came)
}

// compareGroups checks each group: the same payloads, from one proxy QP instead
// of one QPN, the immediate data changed alike.
func compareGroups(t *testing.T, sent []Message, came []fabric.Received, sizes []int) {
	t.Helper()
	for i, group := range mckeyGroups {
		var wire, ibSide []string
		var hostQPs, proxyQPs []uint32
		for _, m := range sent {
			if m.Dst.String() == group {
				wire = append(wire, fmt.Sprintf("%v %v", m.WithImm && m.Imm == m.SrcQP, hex.EncodeToString(m.Payload)))
				hostQPs = append(hostQPs, m.SrcQP)
			}
		}
		for _, m := range came {
			if m.MGID() == mgid(group).MGID {
				ibSide = append(ibSide, fmt.Sprintf("%v %v", m.HasImm && m.Imm == uint32(m.SrcQP), hex.EncodeToString(m.Payload)))
				proxyQPs = append(proxyQPs, uint32(m.SrcQP))
			}
		}
		slices.Sort(wire)
		slices.Sort(ibSide)
		if !slices.Equal(wire, ibSide) || len(wire) == 0 || !strings.HasPrefix(wire[0], "true ") || len(wire[0]) != len("true ")+2*sizes[i] {
			t.Errorf("group %s, %d bytes: on the wire %d messages, at the node %d:\n%.200q\n%.200q", group, sizes[i], len(wire), len(ibSide), wire, ibSide)
		}
		if len(slices.Compact(hostQPs)) != 1 || len(slices.Compact(proxyQPs)) != 1 {
			t.Errorf("group %s: messages of QPNs %v came from %v", group, hostQPs, proxyQPs)
		}
	}
}

// nodeToMckeys has the node send to all groups in turn. Each group has a mckey at one host, and at the other a listener
// that reports which messages came.
func nodeToMckeys(t *testing.T, node *IBNode, host, witness Peer) int {
	t.Helper()
	const count = 10
	var mckeys []*client.Command
	var listeners []*UDEnd
	var to []fabric.Send
	for _, group := range mckeyGroups {
		c, err := host.Start(fmt.Sprintf("exec mckey -m %s -b %s -C %d", group, host.IP, count))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		mckeys = append(mckeys, c)
		l, err := witness.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --mgid %s --count %d --seconds 20 recv", witness.udendArgs(), unicast, group, count))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Stop()
		listeners = append(listeners, l)
		message, err := node.JoinToSend(within(t, stepTime), mgid(group))
		if err != nil {
			t.Fatal(err)
		}
		to = append(to, message)
	}
	for _, c := range mckeys {
		if _, err := c.AwaitText(within(t, stepTime), "joined dgid"); err != nil {
			t.Fatal(err)
		}
	}
	wire := startCapture(t, tap(witness.Name, 0), "")
	sendByTurns(t, node, to, count)
	for i, l := range listeners {
		mckeySucceeds(t, mckeys[i])
		receivesInOrder(t, l, node, groupSeq(i), count)
	}
	for _, m := range sentBy(t, wire, addrOfNode(witness.IP)) {
		group := slices.Index(mckeyGroups, m.Dst.String())
		if s, v := stamp.Read(m.Payload); v != stamp.Whole || !m.ICRCGood || int(s.Number)/100 != group+1 {
			t.Errorf("message %d was written to group %v: %+v", s.Number, m.Dst, m)
		}
	}
	return 2 * count * len(mckeyGroups)
}

// groupSeq is the first number of the messages to a group.
func groupSeq(group int) uint32 { return uint32(group+1) * 100 }

func sendByTurns(t *testing.T, node *IBNode, to []fabric.Send, count int) {
	t.Helper()
	for seq := range count {
		for group, message := range to {
			message.Payload = stamp.Message(uint64(groupSeq(group))+uint64(seq), 100)
			message.HasImm, message.Imm = true, uint32(node.QP().QPN())
			if err := node.Send(message); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// receivesInOrder waits for a listener's end: it must have received exactly the
// messages first, first+1 ... in this order, all from the node's QPN.
func receivesInOrder(t *testing.T, l *UDEnd, node *IBNode, first uint32, count int) {
	t.Helper()
	events, exit, err := l.Wait(within(t, stepTime))
	received := Only(events, "received")
	if err != nil || exit != 0 || len(received) != count {
		t.Errorf("%d of %d messages came: exit %d, %v", len(received), count, exit, err)
	}
	for i, e := range received {
		if e.Seq != first+uint32(i) || !e.Intact || e.SrcQP != uint32(node.QP().QPN()) {
			t.Errorf("message %d, expected number %d: %+v", i+1, first+uint32(i), e)
		}
	}
}

func mckeySucceeds(t *testing.T, c *client.Command) {
	t.Helper()
	out, exit, err := c.Wait(within(t, stepTime))
	if exit != 0 || err != nil || !strings.Contains(out, "return status 0") {
		t.Errorf("mckey: exit %d, %v:\n%s", exit, err, out)
	}
}

// startCapture begins a capture that ends with the test.
func startCapture(t *testing.T, dev, filter string) *Capture {
	t.Helper()
	r, _, _ := theRig(t)
	c, err := r.Capture(within(t, stepTime), dev, "", filter)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sentBy ends a capture and returns the UD messages of one sender in it, without the connection manager's.
func sentBy(t *testing.T, c *Capture, ip string) []Message {
	t.Helper()
	frames, err := c.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(Messages(frames), func(m Message) bool {
		return m.Src != netip.MustParseAddr(ip) || m.DestQP == uint32(ib.QP1)
	})
}

// addrOfNode returns node 7's address in the network of a host's address.
func addrOfNode(hostIP string) string { return hostIP[:strings.LastIndexAny(hostIP, ".:")+1] + "7" }
