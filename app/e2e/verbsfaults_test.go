// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// secondGroup is the other of verbsBridge's groups.
const secondGroup = "239.1.2.4"

// A flow is traffic that goes on during a fault, seen from its receiver.
type flow struct {
	name     string
	at       *Guest
	receiver *UDEnd
	others   []*UDEnd // the senders, unless the receiver sends as well
	member   *UDEnd   // the node's program that must be in the group for this flow, or nil
	mark     int      // messages that had come at the last mark
}

// flows is the traffic of a bridge during a fault.
type flows struct {
	node *Guest
	all  []*flow
}

// The flows' names.
const (
	toNode      = "to node"
	back        = "and back"
	back6       = "and back by IPv6"
	groupToNode = "group to node"
	groupToHost = "group to host"
)

// flowsLast is longer than any test.
const flowsLast = "--seconds 1200 "

// startFlows starts one message every gap of each kind: from host A to the node and back by the proxy QP, and to a
// group each way.
func startFlows(t *testing.T, gap time.Duration, a *Guest, node, node6 Peer) *flows {
	t.Helper()
	start := func(p Peer, format string, args ...any) *UDEnd {
		t.Helper()
		u, err := p.StartUDEnd(within(t, stepTime), p.udendArgs()+" "+unicast+" --count 1000000 "+flowsLast+fmt.Sprintf(format, args...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(u.Stop)
		return u
	}
	send := fmt.Sprintf("--gap %d ", gap.Milliseconds()) + "--to %s --qpn %d %s"
	host, host6 := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: a, IP: "fd09::1"}
	replier, replier6 := start(node, "reply"), start(node6, "reply")
	atNode := start(node, "--mgid %s recv", groupV4)
	atHost := start(host, "--mgid %s recv", secondGroup)
	fromNode := start(node, send, secondGroup, 0xffffff, "send")
	return &flows{node.Guest, []*flow{
		{toNode, node.Guest, replier, nil, nil, 0},
		{back, a, start(host, send, node.IP, replier.QPN, "stream"), nil, nil, 0},
		{back6, a, start(host6, send, node6.IP, replier6.QPN, "stream"), []*UDEnd{replier6}, nil, 0},
		{groupToNode, node.Guest, atNode, []*UDEnd{start(host, send, groupV4, 0xffffff, "send")}, atNode, 0},
		{groupToHost, a, atHost, []*UDEnd{fromNode}, fromNode, 0},
	}}
}

// await waits until each flow has got so many messages from now on.
func (f *flows) await(t *testing.T, messages int) {
	t.Helper()
	want := map[*flow]int{}
	for _, x := range f.all {
		want[x] = x.receiver.Received() + messages
	}
	deadline := time.Now().Add(stepTime)
	for {
		var waiting []string
		for _, x := range f.all {
			if got := x.receiver.Received(); got < want[x] {
				waiting = append(waiting, fmt.Sprintf("%s: %d of %d", x.name, got, want[x]))
			}
		}
		switch {
		case len(waiting) == 0:
			return
		case time.Now().After(deadline):
			t.Errorf("no traffic: %v", waiting)
			return
		}
		time.Sleep(5 * pollEvery)
	}
}

// end ends all flows; each message must have come as it was sent.
func (f *flows) end(t *testing.T) {
	t.Helper()
	for _, x := range f.all {
		for _, o := range x.others {
			o.Stop()
		}
	}
	for _, x := range slices.Backward(f.all) { // the replier last
		events, err := x.receiver.Cut(within(t, stepTime))
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		for _, e := range Only(events, "received") {
			if !e.Intact || e.Status != "success" {
				t.Errorf("%s: %+v", x.name, e)
			}
		}
	}
}

// silence returns the longest time between two messages, by the receiver's clock, and when it began.
func silence(received []Event) (longest time.Duration, from float64) {
	for i := 1; i < len(received); i++ {
		if gap := time.Duration((received[i].At - received[i-1].At) * float64(time.Second)); gap > longest {
			longest, from = gap, received[i-1].At
		}
	}
	return longest, from
}

// A trial is a fault under traffic. Traffic must resume by itself within the time given, counted from the fault's end.
type trial struct {
	name   string
	fault  Fault
	pause  time.Duration // how long it lasts
	within time.Duration
	spares []string // the flows that the fault does not interrupt
	anew   int      // how many bridges start because of it
}

// underFire runs a trial and adds its measurements to the table.
func underFire(t *testing.T, proof *proof, c *BridgeGuest, bridge *GuestCauseway, f *flows, x trial, ready *int) {
	ctx := within(t, stepTime)
	before := c.slowness(ctx)
	f.await(t, 25)
	f.mark()
	lasted, err := c.Suffer(ctx, x.fault, x.pause)
	if err != nil {
		t.Fatal(err)
	}
	*ready += x.anew
	if err := bridge.ReadyAgain(ctx, *ready); err != nil {
		t.Fatal(err)
	}
	f.await(t, 25)
	bound := stretched(t, x.within, c.Guest, before)
	var figures []string
	for _, o := range f.since(t, time.Time{}, nil) {
		proof.add(o.came)
		resumed := o.longest - lasted
		if slices.Contains(x.spares, o.name) {
			figures = append(figures, fmt.Sprintf("%s not affected (silent for %.2f s)", o.name, o.longest.Seconds()))
			continue
		}
		figures = append(figures, fmt.Sprintf("%s %.2f s", o.name, resumed.Seconds()))
		if o.longest < lasted/2 { // messages sent before the fault may arrive late on a busy machine
			t.Errorf("%s: the fault lasted %v, but the longest silence was %v: the fault had no effect", o.name, lasted, o.longest)
		}
		if resumed > bound {
			t.Errorf("%s: traffic resumed %v after the fault's end, want %v", o.name, resumed, bound)
		}
	}
	proof.measured("%s: traffic resumed, after the fault's end: %s", x.name, strings.Join(figures, ", "))
}

// TestVerbsFaults breaks what a bridge depends on, with all kinds of traffic running, and checks that it recovers by
// itself, or asks to be started again.
func TestVerbsFaults(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: faults under traffic, unicast and groups both ways")
	bridge, stop := startVerbsBridge(t, c, verbsBridge)
	defer stop()
	// A new process starts DPDK and joins all groups: under emulation that takes seconds.
	const mended, restarted = time.Second, 15 * time.Second
	ready := 1
	gap := time.Duration(c.slowness(t.Context()) * float64(20*time.Millisecond))
	f := startFlows(t, gap, a, Peer{Guest: n, IP: "10.9.0.7"}, Peer{Guest: n, IP: "fd09::7"})
	for _, x := range []trial{
		{"cable of the InfiniBand side", CablePulled("eth2", bridgeHost.NICs[2]), time.Second, mended, nil, 0},
		{"cable of the RoCE side", CablePulled("eth1", bridgeHost.NICs[1]), time.Second, mended, nil, 0},
		// The kernel's membership of a group is the interface's, and outlives the address. An address handle that is
		// requested before the kernel has its route back costs one more try of the kernel's, a second.
		{"address, and its GID", AddressLost("eth2", "10.9.0.3/24"), time.Second, 2 * mended, []string{back6, groupToHost}, 0},
		{"device", DeviceLost("rxe0", "eth2"), time.Second, restarted, nil, 1},
		{"bridge killed", Fault{Begin: bridge.killed()}, 0, restarted, nil, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			underFire(t, proof, c, bridge, f, x, &ready)
		})
	}
	f.end(t)
	if log := bridge.Log(); !strings.Contains(log, "the bridge ended with exit code 75") {
		t.Error("no bridge has asked to be started again")
	}
}
