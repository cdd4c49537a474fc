// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// portState reads one of the numbers of a guest's InfiniBand port: its lid, sm_lid ...
func portState(t *testing.T, g *Guest, name string) uint64 {
	t.Helper()
	text := diagnose(t, g, "cat "+portFiles+name)
	n, err := strconv.ParseUint(strings.TrimSpace(text), 0, 16)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestInfiniBandUnicast has bare verbs send messages of all sizes, host to node, back, and to the proxy QP unasked: with a
// GRH and without, to each of the bridge's LIDs, and from LIDs of the node that are not its base LID.
func TestInfiniBandUnicast(t *testing.T) {
	a, d, m := theThirdTopology(t)
	proof := proves(t, "third topology: bare verbs, 0 bytes to the MTU, with and without GRH, four LIDs a port; groups by size")
	startSM(t, d.Guest, "-l 2", d.Guest, m)
	bridge, stop := startVerbsBridge(t, d, infinibandBridge)
	defer stop()
	node := ends(m, ibNode)
	lid, gid := portState(t, d.Guest, "lid"), ends(d.Guest, ibBridge)[0].GID
	if lmc := portState(t, m, "lid_mask_count"); lmc != 2 {
		t.Fatalf("the node's LMC is %d, want 2", lmc)
	}
	before := settled(t, bridge)
	sent, count := 0, len(mixedSizes)
	for i, host := range []Peer{{Guest: a, IP: "10.9.0.1"}, {Guest: a, IP: "fd09::1"}} {
		exchangeWithReplier(t, host, node[i], "--imm 0xcafe", false)
		sent += count
	}
	host := Peer{Guest: a, IP: "10.9.0.1"}
	for _, way := range []struct {
		dlid uint64
		args string
	}{{lid, ""}, {lid + 1, "--no-grh"}, {lid, "--no-grh --bits 3"}, {lid + 3, "--bits 2"}} {
		t.Run(fmt.Sprintf("to LID %#x %s", way.dlid, way.args), func(t *testing.T) {
			callBack(t, host, node[0], fmt.Sprintf("--to %s --dlid %d %s", gid, way.dlid, way.args), "", false)
		})
		sent += count
	}
	movedExactly(t, settled(t, bridge).Since(before), sent, sent)
	proof.add(2 * sent)
	for _, way := range []publication{{groupV4, host, node[0], ""}, {secondGroup, node[0], host, ""}} {
		proof.add(publishSizes(t, way))
	}
	switchConserved(t)
}

// publishSizes publishes a message of each size that fits into the MTU of IPoIB's groups.
func publishSizes(t *testing.T, p publication) int {
	t.Helper()
	const mtu = 2048
	sizes := append(slices.DeleteFunc(slices.Clone(mixedSizes), func(n int) bool { return n > mtu }), mtu-1, mtu)
	ctx := within(t, stepTime)
	listener, err := p.to.StartUDEnd(ctx, fmt.Sprintf("%s %s --mgid %s --count %d --seconds 30 recv", p.to.udendArgs(), unicast, p.group, len(sizes)))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Stop()
	_, err = p.from.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn 0xffffff --gap 5 --count %d --size %s send",
		p.from.udendArgs(), unicast, p.group, len(sizes), commas(sizes)))
	if err != nil {
		t.Error(err)
	}
	events, exit, err := listener.Wait(ctx)
	if err != nil || exit != 0 {
		t.Errorf("group %s to %s: exit %d, %v", p.group, p.to.Name, exit, err)
	}
	var came []int
	for _, e := range Only(events, "received") {
		if !e.Intact || !e.WithGRH {
			t.Errorf("group %s to %s: %+v", p.group, p.to.Name, e)
		}
		came = append(came, e.Length)
	}
	if slices.Sort(came); !slices.Equal(came, sizes) {
		t.Errorf("group %s to %s: messages of %v bytes came, want %v", p.group, p.to.Name, came, sizes)
	}
	return len(came)
}
