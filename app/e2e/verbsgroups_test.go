// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// oneWayGroups are open in one direction: on the InfiniBand side, the bridge only sends to the first, as a send-only
// member; it receives from the second, and forwards nothing to it from RoCE.
const (
	groupToIB    = "239.1.2.5"
	groupToRoCE  = "239.1.2.6"
	oneWayGroups = `
[[group]]
ip        = "239.1.2.5"
direction = "to-ib"
[[group]]
ip        = "239.1.2.6"
direction = "to-roce"
`
)

// TestVerbsSendOnly: send-only members, at either end and the bridge itself, and groups that are open one way.
func TestVerbsSendOnly(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: send-only members at both ends and in the middle; groups open one way leak nothing")
	bridge, stop := startVerbsBridge(t, c, verbsBridge+oneWayGroups)
	defer stop()
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	t.Run("host sends only, bridge receives only", func(t *testing.T) {
		proof.add(mckeys(t, publication{groupV4, host, node, "-o"}, publication{groupToRoCE, node, host, "-o"}))
	})
	t.Run("node sends only, bridge sends only", func(t *testing.T) {
		proof.add(mckeys(t, publication{groupV4, node, host, "-o"}, publication{groupToIB, host, node, "-o"}))
	})
	for _, x := range []struct {
		name               string
		from, to           Peer
		group              string
		direction          string
		received, rejected int // packets that the bridge received, and dropped for their direction
	}{
		// A send-only member does not even receive the packets: its port does not let them in.
		{"from IB into a group to IB", node, host, groupToIB, ibToRoCE, 0, 0},
		{"from RoCE into a group to RoCE", host, node, groupToRoCE, roceToIB, 12, 12},
	} {
		t.Run(x.name, func(t *testing.T) {
			before := settled(t, bridge)
			receivesNothing(t, x.from, x.to, x.group)
			moved := settled(t, bridge).Since(before)
			drops := moved.Drops(x.direction)
			if got := moved.Of(x.direction, "packets_received_total"); got != uint64(x.received) ||
				drops["mc_direction"] != uint64(x.rejected) || moved.Of(x.direction, "packets_sent_total") != 0 {
				t.Errorf("%d packets received, want %d; dropped %v, want %d", got, x.received, drops, x.rejected)
			}
			proof.add(12)
		})
	}
}

// receivesNothing sends 12 messages to a group with a listener on the other side, which must not receive any.
func receivesNothing(t *testing.T, from, to Peer, group string) {
	t.Helper()
	ctx := within(t, stepTime)
	listener, err := to.StartUDEnd(ctx, fmt.Sprintf("%s %s --mgid %s --count 1 --seconds 30 recv", to.udendArgs(), unicast, group))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Stop()
	if _, err := from.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn 0xffffff --count 12 --gap 5 send", from.udendArgs(), unicast, group)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if n := listener.Received(); n != 0 {
		t.Errorf("%d messages to %s leaked", n, group)
	}
}

const (
	manyGroups = 1000
	// manyReadyWithin is how long a bridge in an emulated guest may take to join them, its start included.
	manyReadyWithin = 30 * time.Second
	sampled         = 20
)

// manyGroup is the address of group i.
func manyGroup(i int) string { return fmt.Sprintf("239.2.%d.%d", i>>8, i&0xff) }

func configOfMany() string {
	var b strings.Builder
	for i := range manyGroups {
		fmt.Fprintf(&b, "[[group]]\nip = %q\n", manyGroup(i))
	}
	return b.String()
}

// TestVerbsThousandGroups: a thousand groups joined on both sides, then traffic in some of them, each way, counted
// group by group.
func TestVerbsThousandGroups(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, fmt.Sprintf("second topology: %d groups; messages in %d of them each way, each in its own", manyGroups, sampled))
	slow := c.slowness(t.Context())
	start := time.Now()
	bridge, stop := startVerbsBridge(t, c, verbsBridge+configOfMany())
	ready := time.Since(start)
	proof.measured("ready after %.1f s", ready.Seconds())
	if bound := stretched(t, manyReadyWithin, c.Guest, slow); ready > bound {
		t.Errorf("ready after %v, want %v", ready, bound)
	}
	if m := settled(t, bridge); m["causeway_groups"] != manyGroups+2 {
		t.Errorf("%d groups, want %d", m["causeway_groups"], manyGroups+2)
	}
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	t.Run("to node", func(t *testing.T) { proof.add(sampleOfMany(t, bridge, host, node, roceToIB, 7)) })
	t.Run("to host", func(t *testing.T) { proof.add(sampleOfMany(t, bridge, node, host, ibToRoCE, 31)) })
	start = time.Now()
	stop()
	proof.measured("all left and ended after %.1f s", time.Since(start).Seconds())
}

// sampleOfMany sends to groups by turns, of which one in 50 is sampled from the first on. The listener is in as many
// others, too, and must receive nothing there. It returns how many messages came.
func sampleOfMany(t *testing.T, bridge *GuestCauseway, from, to Peer, direction string, first int) int {
	t.Helper()
	const each, apart = 6, manyGroups / sampled
	var groups []string
	var others strings.Builder
	for i := range sampled {
		groups = append(groups, manyGroup(first+i*apart))
		fmt.Fprintf(&others, " --mgid %s", manyGroup(first+1+i*apart))
	}
	ctx := within(t, stepTime)
	before := settled(t, bridge)
	listener, err := to.StartUDEnd(ctx, fmt.Sprintf("%s %s --mgid %s %s --count %d --seconds 30 recv",
		to.udendArgs(), unicast, strings.Join(groups, " --mgid "), others.String(), each*sampled))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Stop()
	_, err = from.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn 0xffffff --seq 0 --count %d --size 64,65,66 --gap 4 send",
		from.udendArgs(), unicast, strings.Join(groups, " --to "), each*sampled))
	if err != nil {
		t.Fatal(err)
	}
	events, exit, err := listener.Wait(ctx)
	if err != nil || exit != 0 {
		t.Errorf("the listener: exit %d, %v", exit, err)
	}
	received := Only(events, "received")
	numbers := map[uint32]bool{}
	for _, e := range received {
		if !e.Intact || e.GroupV4() != groups[e.Seq%sampled] {
			t.Errorf("number %d came in group %s, or damaged: %+v", e.Seq, e.GroupV4(), e)
		}
		numbers[e.Seq] = true
	}
	if len(received) != each*sampled || len(numbers) != each*sampled {
		t.Errorf("%d messages came, %d of them different, want %d", len(received), len(numbers), each*sampled)
	}
	countsOfMany(t, settled(t, bridge).Since(before), direction, each*sampled)
	return len(received)
}

// countsOfMany checks the bridge's counters: everything went in one direction and nothing in the other. What the bridge
// sends to a group that it is in comes back to its own port.
func countsOfMany(t *testing.T, moved Metrics, direction string, want int) {
	t.Helper()
	back := map[string]uint64{}
	if direction == roceToIB {
		back["loop_self"] = uint64(want)
	}
	for _, d := range []string{roceToIB, ibToRoCE} {
		sent, drops := 0, map[string]uint64{}
		if d == direction {
			sent = want
		}
		if d == ibToRoCE {
			drops = back
		}
		if got := moved.Of(d, "packets_sent_total"); got != uint64(sent) || !maps.Equal(moved.Drops(d), drops) || len(moved.Lost(d)) > 0 {
			t.Errorf("%s: sent %d, want %d; dropped %v, want %v; lost by the port %v", d, got, sent, moved.Drops(d), drops, moved.Lost(d))
		}
	}
}
