// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"
)

// partitionBridge has its groups in partition 0x8002; nodeThere adds that the node is there, too.
var (
	partitionBridge = strings.NewReplacer(
		`ip = "239.1.2.3"`, "ip = \"239.1.2.3\"\npkey = 0x8002",
		`ip = "239.1.2.4"`, "ip = \"239.1.2.4\"\npkey = 0x8002").Replace(infinibandBridge)
	nodeThere = strings.NewReplacer(`gid  = "fe80::2:c903:0:22"`, "gid  = \"fe80::2:c903:0:22\"\npkey = 0x8002")
)

// inPartition is the shell condition that a port is in the partition.
const inPartition = "grep -q 0x8002 " + portFiles + "pkeys/*"

// partitionedNode gives node M an IPoIB interface in the partition, with an IPv4 address that groups are joined by, and
// returns M's ends there.
func partitionedNode(t *testing.T, m *Guest) (v4, v6 Peer) {
	t.Helper()
	file := diagnose(t, m, "grep -l 0x8002 "+portFiles+"pkeys/*")
	index, err := strconv.Atoi(path.Base(strings.TrimSpace(file)))
	if err != nil {
		t.Fatal(err)
	}
	const make, remove = "echo 0x8002 >/sys/class/net/ib0/create_child; ip addr add 10.81.0.7/24 dev ib0.8002; ip link set ib0.8002 up",
		"echo 0x8002 >/sys/class/net/ib0/delete_child"
	if err := m.Must(within(t, stepTime), make); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Must(context.Background(), remove); err != nil {
			t.Error(err)
		}
	})
	if err := m.Until(within(t, stepTime), "ip addr show ib0.8002 | grep -q 'state UP'"); err != nil {
		t.Fatal(err)
	}
	node := ipoibPeers(m, ibNode)
	for i := range node {
		node[i].Netdev, node[i].PKey = "ib0.8002", index
	}
	return node[0], node[1]
}

// TestInfiniBandPartitions has groups and a node in a partition that is not the port's first. Under traffic the P_Key
// is taken away from the bridge's port, and given back at another index of its table.
func TestInfiniBandPartitions(t *testing.T) {
	everybody := partitionOf{2, "ALL"}
	f := theFabricUnderFire(t, everybody)
	f.proof = proves(t, "third topology: groups and unicast in partition 0x8002; the P_Key taken away and given back at another index")
	f.awaitBoth(inPartition)
	node, node6 := partitionedNode(t, f.m)
	bridge, stop := startVerbsBridge(t, f.d, nodeThere.Replace(partitionBridge))
	defer stop()
	f.traffic(node, node6)
	f.suffer("P_Key taken away for a second, and given back at another index", func(f *fabricUnderFire) {
		first := partitionOf{1, fmt.Sprintf("%#x", uint64(ibBridge.adapter().GUID))}
		others := partitionOf{2, fmt.Sprintf("%#x", uint64(ibNode.adapter().GUID))}
		f.repartition(f.d.Guest, others)
		f.await(f.d.Guest, "! "+inPartition)
		time.Sleep(time.Second)
		// A running opensm remembers a P_Key's index; a new one gives indexes in the order of the P_Keys.
		f.must(f.d.Guest, killSM)
		f.partitions(f.d.Guest, first, everybody)
		f.manage(f.d.Guest, "", lidOfPort{&ibBridge, lidD}, lidOfPort{&ibNode, lidM})
		f.await(f.d.Guest, pkeys("0xffff", "0x8001", "0x8002")+" && "+subnetUp)
	})
	f.flows.end(t)
	moved := settled(t, bridge)
	if moved.Lost(roceToIB)["pkey_lost"] == 0 {
		t.Errorf("nothing was dropped because of the lost P_Key: to InfiniBand %v, lost by the port %v", moved.Drops(roceToIB), moved.Lost(roceToIB))
	}
	switchConserved(t)
}

// TestServicesInPartition has udaddy at the host and at a node whose IP address is in the partition, each as client and
// as server. The bridge's machine has an IPoIB interface there, too.
func TestServicesInPartition(t *testing.T) {
	f := theFabricUnderFire(t, partitionOf{2, "ALL"})
	proof := proves(t, "third topology: udaddy in partition 0x8002, both ways")
	f.awaitBoth(inPartition)
	mend(t, f.d, infinibandBridge)
	partitionedNode(t, f.m)
	change := func(g *Guest, do, undo string) {
		t.Helper()
		f.must(g, do)
		t.Cleanup(func() { _ = g.Must(context.Background(), undo) })
	}
	change(f.d.Guest, "echo 0x8002 >/sys/class/net/ib0/create_child; ip addr add 10.81.0.253/24 dev ib0.8002; ip link set ib0.8002 up; "+
		"cd /proc/sys/net/ipv4; echo 1 | tee conf/ib0.8002/forwarding conf/ib0.8002/proxy_arp; echo 0 >neigh/ib0.8002/proxy_delay; "+
		"ip route replace 10.9.0.7/32 dev ib0.8002", "echo 0x8002 >/sys/class/net/ib0/delete_child; ip route replace 10.9.0.7/32 dev ib0")
	change(f.m, "ip addr del 10.9.0.7/24 dev ib0; ip addr add 10.9.0.7/24 dev ib0.8002",
		"ip addr del 10.9.0.7/24 dev ib0.8002; ip addr add 10.9.0.7/24 dev ib0")
	f.awaitBoth("ip addr show ib0.8002 | grep -q 'state UP'")
	_, stop := startVerbsBridge(t, f.d, nodeThere.Replace(infinibandBridge))
	defer stop()
	host, node := Peer{Guest: f.a, IP: "10.9.0.1"}, Peer{Guest: f.m, IP: "10.9.0.7"}
	for _, way := range [][2]Peer{{host, node}, {node, host}} {
		if err := Udaddy(within(t, stepTime), way[0], way[1], ""); err != nil {
			t.Error(err)
		}
		proof.add(2 * udaddyCount)
	}
	switchConserved(t)
}

// TestPartitionOfMessages has a node without a P_Key in the configuration: it is reached in the partition that its last
// message came in.
func TestPartitionOfMessages(t *testing.T) {
	f := theFabricUnderFire(t, partitionOf{2, "ALL"})
	proof := proves(t, "third topology: a node is reached in the partition that its last message came in")
	f.awaitBoth(inPartition)
	node, _ := partitionedNode(t, f.m)
	bridge, stop := startVerbsBridge(t, f.d, partitionBridge)
	defer stop()
	const count = 10
	ctx := within(t, stepTime)
	replier, err := node.StartUDEnd(ctx, fmt.Sprintf("%s %s --mgid %s --count 1000 --seconds 60 reply", node.udendArgs(), unicast, groupV4))
	if err != nil {
		t.Fatal(err)
	}
	defer replier.Stop()
	host := Peer{Guest: f.a, IP: "10.9.0.1"}
	send := func(to string, args string) error {
		_, err := host.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s %s exchange", host.udendArgs(), unicast, to, args))
		return err
	}
	// The node is a member before the switches know of it.
	for err = send(groupV4, "--qpn 0xffffff --seconds 1"); err != nil && ctx.Err() == nil; {
		err = send(groupV4, "--qpn 0xffffff --seconds 1")
	}
	if err != nil {
		t.Fatalf("to the group: %v", err)
	}
	before := settled(t, bridge)
	if err := send("10.9.0.7", fmt.Sprintf("--qpn %d --count %d --gap 20 --seconds 20", replier.QPN, count)); err != nil {
		t.Errorf("to the node: %v", err)
	}
	proof.add(2 * count)
	movedExactly(t, settled(t, bridge).Since(before), count, count, kernelsTalk...)
	switchConserved(t)
}
