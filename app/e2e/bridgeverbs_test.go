// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside/stamp"
)

// betweenFabrics is the configuration of a bridge between a guest's eth1 and an InfiniBand port, with two groups. ib is
// the table of that name; more goes to the end.
func betweenFabrics(ib, more string) string {
	return `
[roce]
port      = "af_packet:eth1"
addresses = ["10.9.0.254/24", "fd09::fe/64"]
mtu       = 4200
[ib]
` + ib + `
[workers]
lcores     = [0]
idle       = "interrupt"
memory_mib = 192
mbufs      = 8192
proxy_qps   = 512
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
[metrics]
listen = "127.0.0.1:9432"
[log]
level = "debug"
[[group]]
ip = "239.1.2.3"
[[group]]
ip = "239.1.2.4"
` + more
}

// verbsBridge is a bridge between C's eth1 and its verbs device; N replaces an InfiniBand node, with an address
// and a GID of each family. More hosts and groups may follow at its end.
var verbsBridge = betweenFabrics(`port = "rxe0:1"`, `
[[host]]
ip   = "10.9.0.7"
side = "ib"
gid  = "::ffff:10.9.0.7"
[[host]]
ip   = "fd09::7"
side = "ib"
gid  = "fd09::7"
`)

// startVerbsBridge starts a bridge in guest C, supervised, and waits until it is ready. The caller stops it: it must
// then have counted every packet.
func startVerbsBridge(t *testing.T, c *BridgeGuest, config string) (bridge *GuestCauseway, stop func()) {
	t.Helper()
	bridge, err := c.SuperviseBridge(within(t, stepTime), config, "")
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stepTime)
		defer cancel()
		if err := bridge.Stop(ctx); err != nil {
			bridge.command.Stop()
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the bridge logged:\n%s", lastLines(bridge.Log()))
		}
	})
	if err := bridge.Ready(within(t, stepTime)); err != nil {
		bridge.command.Stop()
		t.Fatal(err)
	}
	t.Cleanup(stop) // where a test ends early: the next one has the same ports
	return bridge, stop
}

// TestVerbsBridge tests the whole second topology: kernel host A, Causeway with DPDK on one NIC and libibverbs on the
// other, kernel host N. Each kernel checks the ICRC of the frames that it receives.
func TestVerbsBridge(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: host A, Causeway on DPDK and libibverbs, host N; both ways")
	bridge, stop := startVerbsBridge(t, c, verbsBridge)
	defer stop()
	for _, family := range []struct{ name, host, node, bridge string }{
		{"v4", "10.9.0.1", "10.9.0.7", "10.9.0.3"}, {"v6", "fd09::1", "fd09::7", "fd09::3"},
	} {
		for _, imm := range []string{"", "--imm 0xcafe"} {
			t.Run(strings.TrimSpace(family.name+" "+imm), func(t *testing.T) {
				host, node := Peer{Guest: a, IP: family.host}, Peer{Guest: n, IP: family.node}
				before := settled(t, bridge)
				exchangeWithReplier(t, host, node, imm, true)
				callBack(t, host, node, "--to "+family.bridge, imm, true)
				sent := 2 * len(mixedSizes)
				proof.add(2 * sent)
				movedExactly(t, settled(t, bridge).Since(before), sent, sent)
			})
		}
	}
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	for _, first := range []Peer{host, node} {
		second := node
		if first == node {
			second = host
		}
		t.Run("mckey, two groups, the first from "+first.Name, func(t *testing.T) {
			proof.add(mckeys(t, publication{groupV4, first, second, ""}, publication{secondGroup, second, first, ""}))
		})
	}
}

// A publication is a mckey at each end of a group. more goes to the sender.
type publication struct {
	group    string
	from, to Peer
	more     string
}

// mckeys runs publications at the same time and returns how many messages have come. No host may be both ends of a
// group: it would receive its own messages.
func mckeys(t *testing.T, all ...publication) (came int) {
	t.Helper()
	var running sync.WaitGroup
	errs := make([]error, len(all))
	for i, p := range all {
		running.Go(func() { errs[i] = Mckey(within(t, stepTime), p.to, p.from, p.group, p.more) })
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s from %s: %v", all[i].group, all[i].from.Name, err)
			continue
		}
		came += 10
	}
	return came
}

// movedExactly checks what a bridge has sent each way, and that it has dropped nothing, but for these reasons.
func movedExactly(t *testing.T, moved Metrics, toIB, toRoCE int, butFor ...string) {
	t.Helper()
	for direction, want := range map[string]int{roceToIB: toIB, ibToRoCE: toRoCE} {
		drops := moved.Drops(direction)
		for _, reason := range butFor {
			delete(drops, reason)
		}
		if got := moved.Of(direction, "packets_sent_total"); got != uint64(want) || len(drops) > 0 || len(moved.Lost(direction)) > 0 {
			t.Errorf("%s: %d packets sent, want %d; dropped %v, lost by the port %v", direction, got, want, drops, moved.Lost(direction))
		}
	}
}

// startUDEnd starts a udend with the tests' Q_Key, which the caller stops.
func startUDEnd(ctx context.Context, t *testing.T, p Peer, format string, args ...any) *UDEnd {
	t.Helper()
	u, err := p.StartUDEnd(ctx, p.udendArgs()+" "+unicast+" "+fmt.Sprintf(format, args...))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// exchangeWithReplier sends a message of each size to the node, which sends each back to its source: always the same
// proxy QP. Both ends check every byte. grh: what comes to the node has a GRH.
func exchangeWithReplier(t *testing.T, host, node Peer, imm string, grh bool) {
	t.Helper()
	ctx := within(t, stepTime)
	replier := startUDEnd(ctx, t, node, "--count %d --seconds 30 reply", len(mixedSizes))
	defer replier.Stop()
	events, err := host.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn %d --count %d --size %s %s pingpong",
		host.udendArgs(), unicast, node.IP, replier.QPN, len(mixedSizes), commas(mixedSizes), imm))
	if err != nil {
		t.Fatalf("%v; %v", err, events)
	}
	came, _, err := replier.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	arrivedWhole(t, Only(events, "received"), replier.QPN, imm, true)
	arrivedWhole(t, Only(came, "received"), 0, imm, grh)
}

// arrivedWhole checks that a message of each size came, undamaged, all with a GRH or none, and all from one QPN: 0 for
// any.
func arrivedWhole(t *testing.T, received []Event, from uint32, imm string, grh bool) {
	t.Helper()
	var sizes []int
	for i, e := range received {
		if from == 0 {
			from = e.SrcQP
		}
		good := e.Intact && e.WithGRH == grh && e.SrcQP == from && e.WithImm == (imm != "") && (imm == "" || e.Imm == 0xcafe)
		if e.Length >= stamp.Len && e.Seq != uint32(1+slices.Index(mixedSizes, e.Length)) {
			good = false
		}
		if !good {
			t.Errorf("message %d, from QPN %d: %+v", i+1, from, e)
		}
		sizes = append(sizes, e.Length)
	}
	if slices.Sort(sizes); !slices.Equal(sizes, mixedSizes) {
		t.Errorf("messages of %v bytes came, want %v", sizes, mixedSizes)
	}
}

// callBack has the node send messages that are no replies, from another queue pair, to the proxy QP that it has
// received from, at the bridge on its side, which udend's arguments name. The host gets them from the node's own QPN.
// grh: what comes to the node has a GRH.
func callBack(t *testing.T, host, node Peer, bridge, imm string, grh bool) {
	t.Helper()
	ctx := within(t, stepTime)
	count := len(mixedSizes)
	listener := startUDEnd(ctx, t, node, "--count %d --seconds 30 recv", count)
	defer listener.Stop()
	caller := startUDEnd(ctx, t, host, "--to %s --qpn %d --count %d --size %s --gap 3 --seconds 30 %s exchange",
		node.IP, listener.QPN, count, commas(mixedSizes), imm)
	defer caller.Stop()
	received, exit, err := listener.Wait(ctx)
	if err != nil || exit != 0 {
		t.Fatalf("the node's listener: exit %d, %v: %+v", exit, err, received)
	}
	came := Only(received, "received")
	arrivedWhole(t, came, 0, imm, grh)
	sender := startUDEnd(ctx, t, node, "%s --qpn %d --count %d --size %s --gap 3 %s send", bridge, came[0].SrcQP, count, commas(mixedSizes), imm)
	defer sender.Stop()
	events, exit, err := caller.Wait(ctx)
	if err != nil || exit != 0 {
		t.Errorf("the host: exit %d, %v", exit, err)
	}
	arrivedWhole(t, Only(events, "received"), sender.QPN, imm, true)
}

// absent is a node that is in the configuration and not in the subnet.
const absent = `
[[host]]
ip   = "10.9.0.8"
side = "ib"
gid  = "::ffff:10.9.0.8"
`

// TestOnePeersTrouble has A send continuously to a node that does not exist. Each of these messages is counted as lost,
// by name; A's traffic with N is not affected.
func TestOnePeersTrouble(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: continuous messages to a node that does not exist; the others undisturbed")
	bridge, stop := startVerbsBridge(t, c, verbsBridge+absent)
	defer stop()
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	const count, called = 200, 900
	slow := c.slowness(t.Context())
	calm := longestSilence(t, host, node, count)
	before := settled(t, bridge)
	caller, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to 10.9.0.8 --qpn 0x123 --gap 4 --count %d send", host.udendArgs(), unicast, called))
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Stop()
	troubled := longestSilence(t, host, node, count)
	if _, exit, err := caller.Wait(within(t, stepTime)); err != nil || exit != 0 {
		t.Errorf("the caller: exit %d, %v", exit, err)
	}
	time.Sleep(3 * time.Second) // packets that wait for an address handle are dropped after at most two tries
	moved := settled(t, bridge).Since(before)
	lost := moved.Lost(roceToIB)
	if total := lost["ah_failed"] + lost["ah_pending"]; total != called || len(lost) > 2 {
		t.Errorf("%d messages to the absent node, but lost by the port: %v", called, lost)
	}
	if got := moved.Of(roceToIB, "packets_sent_total"); got != called+count || len(moved.Drops(roceToIB)) > 0 {
		t.Errorf("sent %d, want %d; dropped %v", got, called+count, moved.Drops(roceToIB))
	}
	if got := moved.Of(ibToRoCE, "packets_sent_total"); got != count || len(moved.Drops(ibToRoCE)) > 0 {
		t.Errorf("%d answers, want %d; dropped %v", got, count, moved.Drops(ibToRoCE))
	}
	proof.add(4*count + called)
	proof.measured("longest time without an answer: alone %v, with the absent node %v; lost: %v",
		calm.Round(time.Millisecond), troubled.Round(time.Millisecond), lost)
	// Making an address handle for a peer that does not exist takes a second: this bound shows whether other traffic
	// waits for that.
	if troubled > stretched(t, 900*time.Millisecond, c.Guest, slow) {
		t.Errorf("no answer for %v", troubled)
	}
}

// longestSilence has host and node exchange messages, all of which must come, and returns the longest time between
// two answers.
func longestSilence(t *testing.T, host, node Peer, count int) time.Duration {
	t.Helper()
	ctx := within(t, stepTime)
	replier := startUDEnd(ctx, t, node, "--count %d --seconds 30 reply", count)
	defer replier.Stop()
	events, err := host.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn %d --count %d --gap 15 --seconds 10 stream",
		host.udendArgs(), unicast, node.IP, replier.QPN, count))
	if err != nil {
		t.Error(err)
	}
	silence, _ := silence(Only(events, "received"))
	return silence
}
