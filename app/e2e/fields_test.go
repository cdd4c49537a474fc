// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// header has the fields of an IP header that the bridge carries across, as a host's kernel sees them.
type header struct {
	src, dst netip.Addr
	tclass   uint8
	flow     uint32 // IPv6 only
	hops     uint8
}

// headerOf reads the IP header out of what udend found in front of a payload:
// the area ends with it (Annex A17.4.5.1).
func headerOf(t *testing.T, e Event) header {
	t.Helper()
	area, err := e.GRHArea()
	if err != nil || len(area) != ib.GRHLen {
		t.Fatalf("%+v has no GRH area: %v", e, err)
	}
	if ip := area[20:]; ip[0] == 0x45 {
		return header{
			src: netip.AddrFrom4([4]byte(ip[12:])), dst: netip.AddrFrom4([4]byte(ip[16:])), tclass: ip[1], hops: ip[8],
		}
	}
	first := binary.BigEndian.Uint32(area)
	if first>>28 != 6 {
		t.Fatalf("the GRH area is neither IPv4 nor IPv6: %x", area)
	}
	return header{
		src: netip.AddrFrom16([16]byte(area[8:])), dst: netip.AddrFrom16([16]byte(area[24:])),
		tclass: uint8(first >> 20), flow: first & 0xfffff, hops: area[7],
	}
}

// tclasses are DSCP 0, 26 and 46, and ECN's ECT(1) and CE.
var tclasses = []uint8{0x00, 0x68, 0xb9, 0x6b}

// TestFieldsToIB: traffic class, ECN and hop limit of a host, as the node sees
// them: in the GRH of multicast, and as the SL of unicast.
func TestFieldsToIB(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "header fields to node: TClass, SL of DSCP, ECN, GRH")
	_, node := networks[0].bridge(t, fabric.RoleNone)
	networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, group string) {
		record, err := node.JoinToSend(within(t, stepTime), mgid(group))
		if err != nil {
			t.Fatal(err)
		}
		for _, tclass := range tclasses {
			m := receiveOne(t, node, host, fmt.Sprintf("--to %s --qpn %d --tclass %d", nodeIP, node.QP().QPN(), tclass))
			if want := ib.SL(tclass >> 5); m.SL != want || m.HasGRH || m.FECN != (tclass&3 == 3) {
				t.Errorf("unicast of traffic class %#x has SL %d, want %d: %+v", tclass, m.SL, want, m)
			}
			m = receiveOne(t, node, host, fmt.Sprintf("--to %s --qpn 0xffffff --tclass %d --hop 9", group, tclass))
			grh, ok := ib.AsGRH(m.GRH[:])
			if !ok || !m.HasGRH || grh.TClass() != tclass || grh.DGID() != mgid(group).MGID || m.SL != record.AH.SL || m.FECN != (tclass&3 == 3) {
				t.Errorf("multicast of traffic class %#x: %+v", tclass, m)
			}
			path, err := pathToLID(t, node, m.SLID)
			if err != nil || grh.SGID() != path.DGID || grh.HopLimit() != record.AH.GRH.HopLimit || grh.FlowLabel() != 0 {
				t.Errorf("GRH from %v, hop limit %d, flow label %#x; want from the bridge, %v (%v), and the group's %d",
					grh.SGID(), grh.HopLimit(), grh.FlowLabel(), path.DGID, err, record.AH.GRH.HopLimit)
			}
			proof.add(2)
		}
	})
}

// pathToLID asks the subnet for the path from a node to a LID.
func pathToLID(t *testing.T, node *IBNode, dlid ib.LID) (ib.PathFields, error) {
	t.Helper()
	return node.SA().PathWith(within(t, stepTime), ib.PathDLID|ib.PathSGID|ib.PathReversible|ib.PathNumbPath,
		ib.PathFields{DLID: dlid, SGID: node.HCA().Info().GID, Reversible: true, NumbPath: 1})
}

// receiveOne has a host send one message and returns it as the node received it.
func receiveOne(t *testing.T, node *IBNode, host Peer, args string) fabric.Received {
	t.Helper()
	if _, err := host.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s %s %s send", host.udendArgs(), unicast, args)); err != nil {
		t.Fatal(err)
	}
	m, err := node.Receive(within(t, stepTime))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// towardsRoCE are GRHs of the node's, and what a host is to see of them.
var towardsRoCE = []struct {
	tclass uint8
	flow   uint32
	hops   uint8
	fecn   bool

	wantTClass, wantHops uint8
}{
	{0x68, 0xabcde, 64, false, 0x68, 63},
	{0x00, 0, 0, false, 0x00, 64}, // below 2: "this subnet" on InfiniBand, the default on Ethernet
	{0xb8, 1, 1, false, 0xb8, 64},
	{0xff, 0xfffff, 2, false, 0xff, 1},
	{0x01, 0x12345, 255, false, 0x01, 254},
	{0x6a, 7, 9, true, 0x6b, 8}, // congested on InfiniBand, and the sender understands ECN: CE
	{0x68, 7, 9, true, 0x68, 8}, // congested, and it does not
}

// TestFieldsToRoCE: the node's GRH, as the kernel of a host delivers it.
func TestFieldsToRoCE(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "header fields to host: TClass, flow label, hop limit, ECN")
	_, node := networks[0].bridge(t, fabric.RoleNone)
	networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, group string) {
		listener, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --mgid %s --count %d --seconds 20 recv",
			host.udendArgs(), unicast, group, len(towardsRoCE)))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Stop()
		wire := startCapture(t, "tapA", "")
		for i := range towardsRoCE {
			sendWithFields(t, node, group, i)
		}
		events, exit, err := listener.Wait(within(t, stepTime))
		received := Only(events, "received")
		if exit != 0 || err != nil || len(received) != len(towardsRoCE) {
			t.Fatalf("the host received %d of %d: exit %d, %v", len(received), len(towardsRoCE), exit, err)
		}
		for i, e := range received {
			x := towardsRoCE[i]
			want := header{netip.MustParseAddr(nodeIP), netip.MustParseAddr(group), x.wantTClass, x.flow, x.wantHops}
			if want.dst.Is4() {
				want.flow = 0
			}
			if got := headerOf(t, e); got != want || e.Seq != uint32(i+1) {
				t.Errorf("message %d of %+v has %+v, want %+v", e.Seq, x, got, want)
			}
		}
		proof.add(checkPorts(t, sentBy(t, wire, nodeIP), node))
	})
}

func sendWithFields(t *testing.T, node *IBNode, group string, i int) {
	t.Helper()
	message, err := node.JoinToSend(within(t, stepTime), mgid(group))
	if err != nil {
		t.Fatal(err)
	}
	x := towardsRoCE[i]
	message.AH.GRH.TClass, message.AH.GRH.FlowLabel, message.AH.GRH.HopLimit = x.tclass, x.flow, x.hops
	message.FECN = x.fecn
	message.Payload = stamp.Message(uint64(i+1), 64)
	if err := node.Send(message); err != nil {
		t.Fatal(err)
	}
}

// checkPorts: the flow label chooses the UDP source port (Annex A17.9.4 leaves it
// to the sender, Linux folds the label into it); without one the queue pairs do.
func checkPorts(t *testing.T, sent []Message, node *IBNode) int {
	t.Helper()
	if len(sent) != len(towardsRoCE) {
		t.Errorf("%d messages on the wire, want %d", len(sent), len(towardsRoCE))
		return 0
	}
	for i, m := range sent {
		flow := towardsRoCE[i].flow
		if flow == 0 {
			flow = ib.CalcFlowLabel(node.QP().QPN(), ib.QPMulticast)
		}
		if want := ib.FlowLabelToSrcPort(flow); m.SrcPort != want || !m.ICRCGood {
			t.Errorf("message %d has source port %#x, want %#x: %+v", i+1, m.SrcPort, want, m)
		}
	}
	return len(sent)
}

// TestUnicastFieldsToRoCE: without a GRH the SL is the message's only such field; it becomes DSCP, and on a VLAN the
// priority. With a GRH, the GRH's traffic class counts.
func TestUnicastFieldsToRoCE(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "SL to DSCP and VLAN priority; unicast with and without GRH")
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			_, node := n.bridge(t, fabric.RoleNone)
			n.families(t, a, func(t *testing.T, host Peer, nodeIP, _ string) {
				wire := startCapture(t, "tapA", "")
				received := answerWithFields(t, node, host, nodeIP)
				wants := []header{{tclass: 5 << 5, hops: 64}, {tclass: 0x28, flow: 0x777, hops: 9}}
				for i, e := range received {
					want := wants[i]
					want.src, want.dst = netip.MustParseAddr(nodeIP), netip.MustParseAddr(host.IP)
					if want.src.Is4() {
						want.flow = 0
					}
					if got := headerOf(t, e); got != want {
						t.Errorf("message %d has %+v, want %+v", i+1, got, want)
					}
				}
				for i, m := range sentBy(t, wire, nodeIP) {
					if want := []int{5, 2}[i]; n.vlan != 0 && (m.Priority != want || m.VLAN != n.vlan) {
						t.Errorf("message %d has VLAN %d, priority %d, want priority %d", i+1, m.VLAN, m.Priority, want)
					}
				}
				proof.add(len(received))
			})
		})
	}
}

// answerWithFields has a host call the node, which answers with SL 5 and without
// GRH, then with SL 2 and with one. It returns what the host has received.
func answerWithFields(t *testing.T, node *IBNode, host Peer, nodeIP string) []Event {
	t.Helper()
	u, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to %s --qpn %d --count 2 --seconds 20 exchange",
		host.udendArgs(), unicast, nodeIP, node.QP().QPN()))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Stop()
	requests, err := node.ReceiveN(within(t, stepTime), 2)
	if err != nil {
		t.Fatal(err)
	}
	path, err := pathToLID(t, node, requests[0].SLID)
	if err != nil {
		t.Fatal(err)
	}
	for _, ah := range []fabric.AH{
		{DLID: requests[0].SLID, SL: 5},
		{DLID: requests[0].SLID, SL: 2, GRH: &ib.GRHFields{DGID: path.DGID, TClass: 0x28, FlowLabel: 0x777, HopLimit: 10}},
	} {
		if err := node.Send(fabric.Send{AH: ah, DestQP: requests[0].SrcQP, QKey: ib.QKeyRDMAUDP, Payload: stamp.Message(9, 64)}); err != nil {
			t.Fatal(err)
		}
	}
	events, exit, err := u.Wait(within(t, stepTime))
	received := Only(events, "received")
	if exit != 0 || err != nil || len(received) != 2 {
		t.Fatalf("the host received %d of 2: exit %d, %v", len(received), exit, err)
	}
	return received
}
