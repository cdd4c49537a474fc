// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// A guestPair is a guest for the bridge, on host A's segment and on another side, and a node there. The first test that
// needs them boots them.
type guestPair struct {
	once   sync.Once
	bridge *BridgeGuest
	node   *Guest
	err    error
}

// boot returns host A and the two guests. It boots them when it is called first, after a call of prepare.
func (x *guestPair) boot(t *testing.T, name string, bridge, node GuestConfig, prepare func(*Rig) error) (a *Guest, c *BridgeGuest, n *Guest) {
	t.Helper()
	r, a, _ := theRig(t)
	x.once.Do(func() {
		start := time.Now()
		if x.err = prepare(r); x.err != nil {
			return
		}
		if x.node, x.err = r.StartGuest(node); x.err != nil { // boots at the same time as the bridge's
			return
		}
		if x.bridge, x.err = r.BootBridgeGuest(t.Context(), bridge); x.err != nil {
			return
		}
		x.err = x.node.Ready(t.Context(), node)
		fmt.Fprintf(os.Stderr, "e2e: %s topology: two more guests up after %.1f s\n", name, time.Since(start).Seconds())
	})
	if x.err != nil {
		t.Fatal(x.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of %s:\n%s\nconsole of %s:\n%s", x.bridge.Name, x.bridge.Console(), x.node.Name, x.node.Console())
		}
	})
	return a, x.bridge, x.node
}

// second is the second topology: guest C is between the segments, guest N on the second one alone.
var second guestPair

var nodeHost = GuestConfig{Name: "N", NICs: []NIC{
	{Segment: 1, RDMA: true, MTU: hostMTU, Addrs: []string{"10.9.0.7/24", "fd09::7/64"}},
}}

// theSecondTopology returns host A on the first segment, C between the segments,
// and N on the second.
func theSecondTopology(t *testing.T) (a *Guest, c *BridgeGuest, n *Guest) {
	t.Helper()
	return second.boot(t, "second", bridgeHost, nodeHost, func(*Rig) error { return nil })
}

// bridgeHost is guest C. Its eth0 would be its management interface and is not used here, its eth1 is for DPDK, and
// rxe0 on its eth2 takes the place of an InfiniBand HCA. Both segments are one IP network, as a RoCE network and the
// IPoIB of a subnet that it is bridged to would be.
var bridgeHost = GuestConfig{Name: "C", MiB: 2048, NICs: []NIC{
	{Mute: true},
	{Mute: true, MTU: hostMTU},
	{Segment: 1, RDMA: true, MTU: hostMTU, Addrs: []string{"10.9.0.3/24", "fd09::3/64"}},
}}

// TestSecondSegment tests the second topology with the kernels alone: C's verbs device and N reach each other, again
// after each fault, and no guest reaches one on the other segment.
func TestSecondSegment(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: C's verbs device and N, without Causeway; device lost, cable pulled")
	meet := func(t *testing.T) {
		t.Helper()
		for _, ip := range [][2]string{{"10.9.0.7", "10.9.0.3"}, {"fd09::7", "fd09::3"}} {
			x := Exchange{Count: 6, Sizes: "0,1,63,64,1024,4096", Args: "--imm 7"}
			events, err := PingPong(within(t, stepTime), Peer{Guest: n, IP: ip[0]}, Peer{Guest: c.Guest, IP: ip[1]}, x)
			if err != nil {
				t.Fatal(err)
			}
			proof.add(len(Only(events, "received")))
		}
	}
	meet(t)
	if err := Mckey(within(t, stepTime), Peer{Guest: c.Guest, IP: "10.9.0.3"}, Peer{Guest: n, IP: "10.9.0.7"}, groupV4); err != nil {
		t.Error(err)
	}
	out, _, err := a.Run(within(t, stepTime), "for ip in 10.9.0.7 10.9.0.3 fd09::7 fd09::3; do ping -c 1 -W 1 $ip & done; wait")
	if strings.Contains(out, "bytes from") || strings.Count(out, "100% packet loss") != 4 || err != nil {
		t.Errorf("A reaches across, or has not tried: %s, %v", out, err)
	}
	ctx := within(t, stepTime)
	for _, f := range []struct {
		name       string
		begin, end func() error
		shows      string
	}{
		{"device", func() error { return c.LoseDevice(ctx, "rxe0") }, func() error { return c.FindDevice(ctx, "rxe0", "eth2") },
			"! ibv_devices | grep rxe0"},
		{"cable", func() error { return c.PullCable(ctx, "eth2") }, func() error { return c.PlugCable(ctx, "eth2", bridgeHost.NICs[2]) },
			"ibv_devinfo -d rxe0 | grep PORT_DOWN"},
	} {
		t.Run(f.name, func(t *testing.T) {
			if err := f.begin(); err != nil {
				t.Fatal(err)
			}
			if err := c.Must(ctx, f.shows); err != nil {
				t.Errorf("the fault does not show: %v", err)
			}
			if err := f.end(); err != nil {
				t.Fatal(err)
			}
			meet(t)
		})
	}
}

// echoQPN is node 7's QPN; in this topology the node is part of the bridge's process.
const echoQPN ib.QPN = 0x48

const echoTopology = `
[fabric]
mtu    = 4096
socket = "SOCKET"
[[node]]
name = "node7"
guid = "0x0002c90300000007"
ip   = "10.9.0.7"
qpn  = 0x48
qkey = 0x01234567
role = "echo"
`

// guestBridge is a bridge's configuration for a guest: eth1, and little memory.
func guestBridge() string {
	return strings.NewReplacer("af_packet:"+Port, "af_packet:eth1", "lcores = [1]", "lcores = [0]\nmemory_mib = 128").
		Replace(networks[0].config(""))
}

// bridgeInGuest starts a bridge in guest C and waits until it is ready.
func bridgeInGuest(t *testing.T, c *BridgeGuest) *GuestCauseway {
	t.Helper()
	bridge, err := c.StartBridge(within(t, stepTime), guestBridge(), echoTopology)
	if err != nil {
		t.Fatal(err)
	}
	if err := bridge.Ready(within(t, stepTime)); err != nil {
		bridge.command.Stop()
		t.Fatal(err)
	}
	return bridge
}

// TestBridgeInGuest: Causeway in a guest of its own, on a NIC of that guest, bridges a kernel host and a node; and
// again after it was killed under traffic.
func TestBridgeInGuest(t *testing.T) {
	a, c, _ := theSecondTopology(t)
	proof := proves(t, "Causeway in a guest: host to node and back; killed under traffic, started anew")
	victim := bridgeInGuest(t, c)
	host := Peer{Guest: a, IP: "10.9.0.1"}
	traffic, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to 10.9.0.7 --qpn %d --gap 2 --count 100000 --size 64 send",
		host.udendArgs(), unicast, echoQPN))
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.Stop()
	if err := awaitSent(t, victim, roceToIB, 20); err != nil {
		t.Fatal(err)
	}
	if err := victim.Kill(within(t, stepTime)); err != nil {
		t.Fatal(err)
	}
	bridge := bridgeInGuest(t, c)
	defer func() {
		if err := bridge.Stop(within(t, stepTime)); err != nil {
			t.Error(err)
		}
	}()
	if err := awaitSent(t, bridge, roceToIB, 20); err != nil {
		t.Error(err)
	}
	traffic.Stop()
	before := settled(t, bridge)
	networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, _ string) {
		for _, args := range []string{unicast, unicast + " --imm 0xcafe"} {
			pingQPN(t, echoQPN, host, nodeIP, args)
			proof.add(2 * len(mixedSizes))
		}
	})
	moved := settled(t, bridge).Since(before)
	for _, direction := range []string{roceToIB, ibToRoCE} {
		if got, want := moved.Of(direction, "packets_sent_total"), uint64(4*len(mixedSizes)); got != want || len(moved.Drops(direction)) > 0 {
			t.Errorf("%s: %d packets sent, want %d; dropped %v", direction, got, want, moved.Drops(direction))
		}
	}
}

// forgetNeighbours flushes a host's neighbour entries, so that it resolves a guest's address again: a guest announces
// nothing.
func forgetNeighbours(t *testing.T, host *Guest) {
	if err := host.Must(context.Background(), "ip neigh flush all"); err != nil {
		t.Error(err)
	}
}

// awaitSent waits until a bridge has sent so many packets one way.
func awaitSent(t *testing.T, c *GuestCauseway, direction string, packets uint64) error {
	t.Helper()
	ctx := within(t, stepTime)
	for {
		m, err := c.Metrics(ctx)
		if err != nil {
			return fmt.Errorf("%w; the bridge logged:\n%s", err, lastLines(c.Log()))
		}
		if m.Of(direction, "packets_sent_total") >= packets {
			return nil
		}
		time.Sleep(pollEvery)
	}
}

// settled scrapes a bridge in a guest until its counters stop changing.
func settled(t *testing.T, c *GuestCauseway) Metrics {
	t.Helper()
	ctx := within(t, stepTime)
	var last Metrics
	for {
		m, err := c.Metrics(ctx)
		if err != nil {
			t.Fatalf("%v; the bridge logged:\n%s", err, lastLines(c.Log()))
		}
		moved := m.Since(last)
		still := last != nil && m.Conserved() == nil
		for _, direction := range []string{roceToIB, ibToRoCE} {
			still = still && moved.Of(direction, "packets_received_total") == 0
		}
		if still {
			return m
		}
		last = m
		time.Sleep(200 * time.Millisecond)
	}
}
