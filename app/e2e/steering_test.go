// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"causeway/lcore/frame"
)

// steeredFrames matches what dpdk's tests print when they have checked where frames went.
var steeredFrames = regexp.MustCompile(`steered (\d+) frames`)

// TestFlowSteering runs the tests of package dpdk that need working flow rules, in a guest: net_tap implements them
// with the classifiers of Debian's kernel.
func TestFlowSteering(t *testing.T) {
	_, c, _ := theSecondTopology(t)
	proof := proves(t, "rte_flow on a port shared with the kernel: each kind of frame to its queue, the rest to the kernel")
	out, err := c.RunTests(within(t, 3*stepTime), // compiling C takes its time on a busy machine
		"causeway/dpdk", "^TestSteering",
		flowModules)
	if err != nil {
		t.Errorf("%v; it printed:\n%s", err, out)
	}
	for _, found := range steeredFrames.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(found[1]) // digits
		proof.add(n)
	}
}

// TestSteeredBridge: Causeway on a port that it shares with C's kernel, by flow rules of its own. The bridge gets RoCE,
// both ways, with each kind of IB port; the kernel gets everything else, at the same time and by the same MAC address.
func TestSteeredBridge(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "Causeway on a port shared with the kernel: RoCE both ways, ping, TCP, UDP, ARP and ND of the kernel's meanwhile")
	for _, net := range networks {
		t.Run(net.name, func(t *testing.T) {
			k := kernelBeside(t, net, a, c)
			config := strings.Replace(sharing(net.config("")), "vlan ", "versions = [\"v2\", \"v1\"]\nvlan ", 1)
			bridge := sharedBridge(t, k, net, c, config, strings.Replace(echoTopology, "10.9.0.", net.v4, 1))
			before, rejected := settled(t, bridge), k.rejected(t)
			sent := 0
			net.families(t, a, func(t *testing.T, host Peer, nodeIP, group string) {
				sent += pingsBeside(t, k, host, nodeIP)
				publishes(t, host, group)
			})
			proof.add(2*sent + 2*len(sharedSizes))
			moved := settled(t, bridge).Since(before)
			checkMoved(t, moved, sent+2*len(sharedSizes), sent, 0)
			if got, want := k.rejected(t)-rejected, 4*udpProbes; got != want {
				t.Errorf("the kernel rejected %d UDP datagrams, want the %d that were not RoCE", got, want)
			}
			pingsBridge(t, k, bridge, net)
			takesAllRoCE(t, k, bridge, net)
			endsSharing(t, k, bridge, net)
		})
	}
	t.Run("verbs", func(t *testing.T) {
		k := kernelBeside(t, networks[0], a, c)
		bridge := sharedBridge(t, k, networks[0], c, sharing(verbsBridge), "")
		host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
		for _, args := range []string{"", "--imm 0xcafe"} {
			x := Exchange{Count: len(sharedSizes), Sizes: commas(sharedSizes), Args: args}
			if events, err := PingPong(within(t, stepTime), node, host, x); err != nil {
				t.Errorf("%v; %v", err, events)
			}
			proof.add(2 * len(sharedSizes))
		}
		for _, way := range [][2]Peer{{node, host}, {host, node}} {
			if err := Mckey(within(t, stepTime), way[0], way[1], groupV4); err != nil {
				t.Error(err)
			}
			proof.add(10)
		}
		k.use(t)
		moved := settled(t, bridge)
		looped := moved.Drops(ibToRoCE)["loop_self"] // rxe hands what is sent to a group to its sender, too
		checkMoved(t, moved, 2*len(sharedSizes)+10, 2*len(sharedSizes)+10, looped)
		endsSharing(t, k, bridge, networks[0])
	})
}

// sharedBridge starts a bridge on the port that it shares with C's kernel.
func sharedBridge(t *testing.T, k kernelOnEth1, n network, c *BridgeGuest, config, topology string) *GuestCauseway {
	t.Helper()
	if !k.getsRoCE(t, n) {
		t.Error("the kernel does not get RoCE before there is a bridge")
	}
	bridge, err := c.StartBridge(within(t, stepTime), config, topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		bridge.command.Stop()
		if t.Failed() {
			t.Logf("the bridge logged:\n%s", lastLines(bridge.Log()))
		}
	})
	if err := bridge.Ready(within(t, stepTime)); err != nil {
		t.Fatal(err)
	}
	if want := "interface=eth1 flow_rules="; !strings.Contains(bridge.Log(), want) {
		t.Errorf("the bridge does not log %q", want)
	}
	forgetNeighbours(t, k.a)
	return bridge
}

// endsSharing ends a bridge, after which the kernel gets everything.
func endsSharing(t *testing.T, k kernelOnEth1, bridge *GuestCauseway, n network) {
	t.Helper()
	if err := bridge.Stop(within(t, stepTime)); err != nil {
		t.Error(err)
	}
	if !k.getsRoCE(t, n) {
		t.Error("the kernel does not get RoCE again")
	}
}

// pingsBeside has a host exchange messages with the node while A uses C's kernel, and returns how many went there.
func pingsBeside(t *testing.T, k kernelOnEth1, host Peer, nodeIP string) int {
	t.Helper()
	const count = 500
	traffic, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --imm 0xcafe --to %s --qpn %d --gap 10 --count %d --size %s pingpong",
		host.udendArgs(), unicast, nodeIP, echoQPN, count, commas(sharedSizes)))
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.Stop()
	k.use(t)
	events, exit, err := traffic.Wait(within(t, stepTime))
	if err != nil || exit != 0 {
		t.Fatalf("udend: exit code %d, %v", exit, err)
	}
	for i, e := range Only(events, "received") {
		if e.SrcQP != uint32(echoQPN) || e.Imm != 0xcafe || !e.Intact {
			t.Errorf("reply %d is not the node's own: %+v", i+1, e)
		}
	}
	return count
}

// publishes has a host send to a group; the bridge counts the packets.
func publishes(t *testing.T, host Peer, group string) {
	t.Helper()
	if _, err := host.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to %s --qpn 0xffffff --gap 2 --count %d --size %s send",
		host.udendArgs(), unicast, group, len(sharedSizes), commas(sharedSizes))); err != nil {
		t.Fatal(err)
	}
}

// checkMoved checks that a bridge has received and sent exactly so many packets, apart from looped messages, and that
// its workers have received RoCE only.
func checkMoved(t *testing.T, moved Metrics, toIB, toRoCE int, looped uint64) {
	t.Helper()
	for _, x := range []struct {
		direction string
		want      int
		looped    uint64
	}{{roceToIB, toIB, 0}, {ibToRoCE, toRoCE, looped}} {
		received, sent := moved.Of(x.direction, "packets_received_total"), moved.Of(x.direction, "packets_sent_total")
		if received-x.looped != uint64(x.want) || sent != uint64(x.want) {
			t.Errorf("%s: %d packets received, %d sent, want %d; dropped %v", x.direction, received, sent, x.want, moved.Drops(x.direction))
		}
	}
	if n := moved["causeway_management_frames_received_total"]; n != 0 {
		t.Errorf("rules have taken %d frames that are not RoCE", n)
	}
}

// pingsBridge checks that A can resolve and ping the bridge itself, besides C's kernel, and that A has the node at the
// same MAC address.
func pingsBridge(t *testing.T, k kernelOnEth1, bridge *GuestCauseway, n network) {
	t.Helper()
	before := settled(t, bridge)
	forgetNeighbours(t, k.a)
	for _, ip := range []string{n.v4 + "254", n.v6 + "fe"} {
		out, _, err := k.a.Run(within(t, stepTime), "ping -c 3 -s 1000 "+ip+" && ip neigh show "+ip)
		if err != nil || !strings.Contains(out, "3 packets received") || !strings.Contains(out, mac("C", 1)) {
			t.Errorf("%v: %s", err, out)
		}
	}
	if n := settled(t, bridge).Since(before)["causeway_echo_answered_total"]; n != 6 {
		t.Errorf("the bridge has answered %d pings, want 6", n)
	}
}

// takesAllRoCE: RoCE that is not for the bridge does not reach the kernel either; the bridge drops it by name.
func takesAllRoCE(t *testing.T, k kernelOnEth1, bridge *GuestCauseway, n network) {
	t.Helper()
	before := settled(t, bridge)
	if k.getsRoCE(t, n) {
		t.Error("RoCE for the kernel's address was not taken by a rule")
	}
	want := uint64(2 * strayRoCE)
	if n.vlan == 0 { // any RoCE v1 will do
		r, _, _ := theRig(t)
		to, _ := frame.ParseMAC(mac("C", 1)) // cannot fail: mac made it
		f := append(append(to[:], 2, 0, 0, 0, 0, 9, 0x89, 0x15), make([]byte, 60)...)
		if err := r.Inject(tap("C", 1), f); err != nil {
			t.Fatal(err)
		}
		want++
	}
	moved := settled(t, bridge).Since(before)
	if got := moved.Of(roceToIB, "packets_received_total"); got != want || moved.Of(roceToIB, "packets_sent_total") != 0 {
		t.Errorf("%d packets came to the bridge, want %d, all dropped: %v", got, want, moved.Drops(roceToIB))
	}
	t.Logf("dropped: %v", moved.Drops(roceToIB))
}
