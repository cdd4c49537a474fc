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
	receiver *UDEnd
	others   []*UDEnd // the senders, unless the receiver sends as well
}

// flows is the traffic of a bridge during a fault.
type flows struct {
	all []*flow
}

// The flows' names.
const (
	toNode      = "to node"
	back        = "and back"
	back6       = "and back by IPv6"
	groupToNode = "group to node"
	groupToHost = "group to host"
)

// startFlows starts one message every gap of each kind: from host to node and back by the proxy QP, and to a group
// each way.
func startFlows(t *testing.T, gap time.Duration, a, n *Guest) *flows {
	t.Helper()
	start := func(p Peer, format string, args ...any) *UDEnd {
		t.Helper()
		u, err := p.StartUDEnd(within(t, stepTime), p.udendArgs()+" "+unicast+" --count 1000000 "+fmt.Sprintf(format, args...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(u.Stop)
		return u
	}
	send := fmt.Sprintf("--gap %d --seconds 60 ", gap.Milliseconds()) + "--to %s --qpn %d %s"
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	host6, node6 := Peer{Guest: a, IP: "fd09::1"}, Peer{Guest: n, IP: "fd09::7"}
	replier, replier6 := start(node, "--seconds 120 reply"), start(node6, "--seconds 120 reply")
	atNode := start(node, "--seconds 120 --mgid %s recv", groupV4)
	atHost := start(host, "--seconds 120 --mgid %s recv", secondGroup)
	f := &flows{[]*flow{
		{toNode, replier, nil},
		{back, start(host, send, node.IP, replier.QPN, "stream"), nil},
		{back6, start(host6, send, node6.IP, replier6.QPN, "stream"), []*UDEnd{replier6}},
		{groupToNode, atNode, []*UDEnd{start(host, send, groupV4, 0xffffff, "send")}},
		{groupToHost, atHost, []*UDEnd{start(node, send, secondGroup, 0xffffff, "send")}},
	}}
	f.await(t, 25)
	return f
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

// end ends all flows and returns each one's longest silence, and how many messages came.
func (f *flows) end(t *testing.T) (silences []time.Duration, came int) {
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
		received := Only(events, "received")
		for _, e := range received {
			if !e.Intact || e.Status != "success" {
				t.Errorf("%s: %+v", x.name, e)
			}
		}
		longest, _ := silence(received)
		silences = append(silences, longest)
		came += len(received)
	}
	slices.Reverse(silences)
	return silences, came
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
func underFire(t *testing.T, proof *proof, c *BridgeGuest, bridge *GuestCauseway, a, n *Guest, x trial, ready *int) {
	ctx := within(t, stepTime)
	before := c.slowness(ctx)
	f := startFlows(t, time.Duration(before*float64(20*time.Millisecond)), a, n)
	lasted, err := c.Suffer(ctx, x.fault, x.pause)
	if err != nil {
		t.Fatal(err)
	}
	*ready += x.anew
	if err := bridge.ReadyAgain(ctx, *ready); err != nil {
		t.Fatal(err)
	}
	f.await(t, 25)
	silences, came := f.end(t)
	bound := stretched(t, x.within, c.Guest, before)
	var figures []string
	for i, s := range silences {
		resumed, name := s-lasted, f.all[i].name
		if slices.Contains(x.spares, name) {
			figures = append(figures, fmt.Sprintf("%s not affected (silent for %.2f s)", name, s.Seconds()))
			continue
		}
		figures = append(figures, fmt.Sprintf("%s %.2f s", name, resumed.Seconds()))
		if s < lasted/2 { // messages sent before the fault may arrive late on a busy machine
			t.Errorf("%s: the fault lasted %v, but the longest silence was %v: the fault had no effect", name, lasted, s)
		}
		if resumed > bound {
			t.Errorf("%s: traffic resumed %v after the fault's end, want %v", name, resumed, bound)
		}
	}
	proof.add(came)
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
			underFire(t, proof, c, bridge, a, n, x, &ready)
		})
	}
	if log := bridge.Log(); !strings.Contains(log, "the bridge ended with exit code 75") {
		t.Error("no bridge has asked to be started again")
	}
}
