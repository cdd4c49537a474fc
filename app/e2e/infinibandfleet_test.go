// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"causeway/fleet/etcd/etcdtest"
)

// fleetOfOne is a bridge as infinibandBridge, as the only member of a fleet. In a fleet the kernel answers neither ARP nor ND on
// IPoIB.
var fleetOfOne = strings.Replace(infinibandBridge, "[metrics]", `[fleet]
name = "alone"
etcd = ["http://127.0.0.1:2379"]
lease_ms = 10000
[metrics]`, 1)

// TestInfiniBandFleet has nodes find RoCE hosts by a bridge of a fleet, which answers ARP and ND on the kernel's IPoIB itself.
func TestInfiniBandFleet(t *testing.T) {
	a, d, m := theThirdTopology(t)
	proof := proves(t, "third topology: a fleet's bridge answers ARP and ND on IPoIB; udaddy both ways")
	startSM(t, d.Guest, "", d.Guest, m)
	startVoter(t, d)
	mend(t, d, fleetOfOne)
	ctx := within(t, stepTime)
	if err := m.Must(ctx, "ip neigh flush dev ib0; ip -6 neigh flush dev ib0"); err != nil {
		t.Fatal(err)
	}
	bridge, stop := startVerbsBridge(t, d, fleetOfOne)
	defer stop()
	for !strings.Contains(bridge.Log(), "fleet_shards host_shards=64") {
		if err := d.Must(ctx, "sleep 0.1"); err != nil {
			t.Fatal(err)
		}
	}
	own, _, err := d.Run(ctx, "cat /sys/class/net/ib0/address")
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range ipoibPeers(m, ibNode) {
		host := Peer{Guest: a, IP: []string{"10.9.0.1", "fd09::1"}[i]}
		before := settled(t, bridge)["causeway_fleet_ipoib_answers_total"]
		for _, way := range [][2]Peer{{host, node}, {node, host}} {
			if err := Udaddy(ctx, way[0], way[1], ""); err != nil {
				t.Error(err)
			}
			proof.add(2 * udaddyCount)
		}
		answers := settled(t, bridge)["causeway_fleet_ipoib_answers_total"] - before
		knows, _, err := m.Run(ctx, "ip neigh show "+host.IP+" dev ib0")
		if err != nil || answers == 0 || !strings.Contains(knows, "lladdr "+strings.TrimSpace(own)) {
			t.Errorf("the bridge at %s has answered %v requests for %s, and the node knows: %s", own, answers, host.IP, knows)
		}
	}
	if !strings.Contains(bridge.Log(), "host_alias ") {
		t.Error("no host has an alias")
	}
	if strings.Contains(bridge.Log(), "ipoib_kernel_answers") {
		t.Error("the kernel answers, too")
	}
	switchConserved(t)
}

// startVoter runs the fleet's etcd in a guest.
func startVoter(t *testing.T, d *BridgeGuest) {
	t.Helper()
	const clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatal(err)
	}
	path, err := d.Put(within(t, stepTime), program)
	if err != nil {
		t.Fatal(err)
	}
	words := etcdtest.Command("a", "/tmp/voter", clients, peers, "a="+peers)
	voter, err := d.Start("rm -rf /tmp/voter; exec " + path + " " + strings.Join(words[1:], " "))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		voter.Stop()
		if t.Failed() {
			t.Logf("etcd:\n%s", lastLines(voter.Output()))
		}
	})
}
