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

// kernelsTalk are the drops of frames that are nobody's messages: the bridge's machine has plain IP on the same
// segment, and its port gets the kernel's frames, and multicast of the bridge itself.
var kernelsTalk = []string{"l2_notus", "loop_self"}

// TestInfiniBandUnicast has bare verbs send messages of all sizes, host to node, back, and to the proxy QP unasked:
// with a GRH and without, to each of the bridge's LIDs, and from LIDs of the node that are not its base LID.
func TestInfiniBandUnicast(t *testing.T) {
	x := bridgeInfiniBand(t, "bare verbs, 0 bytes to the MTU, with and without GRH, four LIDs a port; groups by size", "-l 2", infinibandBridge)
	defer x.stop()
	lid, gid := portState(t, x.d.Guest, "lid"), ipoibPeers(x.d.Guest, ibBridge)[0].GID
	if lmc := portState(t, x.m, "lid_mask_count"); lmc != 2 {
		t.Fatalf("the node's LMC is %d, want 2", lmc)
	}
	before := settled(t, x.bridge)
	sent, count := 0, len(mixedSizes)
	for i, host := range x.hosts {
		exchangeWithReplier(t, host, x.nodes[i], "--imm 0xcafe", false)
		sent += count
	}
	host, node := x.hosts[0], x.nodes[0]
	for _, way := range []struct {
		dlid uint64
		args string
	}{{lid, ""}, {lid + 1, "--no-grh"}, {lid, "--no-grh --bits 3"}, {lid + 3, "--bits 2"}} {
		t.Run(fmt.Sprintf("to LID %#x %s", way.dlid, way.args), func(t *testing.T) {
			callBack(t, host, node, fmt.Sprintf("--to %s --dlid %d %s", gid, way.dlid, way.args), "", false)
		})
		sent += count
	}
	movedExactly(t, settled(t, x.bridge).Since(before), sent, sent, kernelsTalk...)
	x.proof.add(2 * sent)
	for _, way := range []publication{{groupV4, host, node, ""}, {secondGroup, node, host, ""}} {
		x.proof.add(publishSizes(t, way))
	}
	switchConserved(t)
}

// publishSizes publishes a message of each size that fits into the MTU of IPoIB's groups.
func publishSizes(t *testing.T, p publication) int {
	t.Helper()
	const mtu = 2048
	sizes := append(slices.DeleteFunc(slices.Clone(mixedSizes), func(n int) bool { return n > mtu }), mtu-1, mtu)
	ctx := within(t, stepTime)
	listener := startUDEnd(ctx, t, p.to, "--mgid %s --count %d --seconds 30 recv", p.group, len(sizes))
	defer listener.Stop()
	_, err := p.from.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn 0xffffff --gap 5 --count %d --size %s send",
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
