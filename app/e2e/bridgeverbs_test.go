// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// verbsBridge is a bridge between C's eth1 and its verbs device; N stands in for an InfiniBand node.
const verbsBridge = `
[roce]
port      = "af_packet:eth1"
addresses = ["10.9.0.254/24"]
mtu       = 4200
[ib]
port = "rxe0:1"
[workers]
lcores     = [1]
idle       = "sleep"
memory_mib = 192
mbufs      = 8192
standins   = 256
standins_per_host = 64
[[host]]
ip   = "10.9.0.7"
side = "ib"
gid  = "::ffff:10.9.0.7"
[[group]]
ip = "239.1.2.3"
[[group]]
ip = "239.1.2.4"
[policy]
allow = ["10.9.0.0/24"]
[metrics]
listen = "127.0.0.1:9432"
[log]
level = "debug"
`

// TestVerbsBridge is the second topology whole: kernel host A, Causeway with DPDK on one NIC and libibverbs on the
// other, kernel host N. Each kernel checks the ICRC of what reaches it.
func TestVerbsBridge(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: host A, Causeway on DPDK and libibverbs, host N; both ways, cable pulled")
	forgetNeighbours(t, a)
	t.Cleanup(func() { forgetNeighbours(t, a) })
	bridge, err := c.StartBridge(within(t, stepTime), verbsBridge, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bridge.Stop(within(t, stepTime)); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the bridge logged:\n%s", lastLines(bridge.Log()))
		}
	}()
	if err := bridge.Ready(within(t, stepTime)); err != nil {
		t.Fatalf("%v; the bridge logged:\n%s", err, lastLines(bridge.Log()))
	}
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	exchange := func(t *testing.T) {
		t.Helper()
		for _, args := range []string{"", "--imm 0xcafe"} {
			x := Exchange{Count: len(mixedSizes), Sizes: commas(mixedSizes), Args: args}
			events, err := PingPong(within(t, stepTime), node, host, x)
			if err != nil {
				t.Fatalf("%v; %v", err, events)
			}
			proof.add(2 * len(Only(events, "received")))
		}
	}
	t.Run("unicast", exchange)
	for i, group := range []string{"239.1.2.3", "239.1.2.4"} {
		for _, way := range []struct {
			name     string
			from, to Peer
		}{{"to node", host, node}, {"to host", node, host}} {
			t.Run(fmt.Sprintf("mckey %d %s", i+1, way.name), func(t *testing.T) {
				if err := Mckey(within(t, stepTime), way.to, way.from, group); err != nil {
					t.Fatal(err)
				}
				proof.add(10)
			})
		}
	}
	t.Run("cable", func(t *testing.T) {
		ctx := within(t, stepTime)
		if err := c.PullCable(ctx, "eth2"); err != nil {
			t.Fatal(err)
		}
		if err := c.PlugCable(ctx, "eth2", bridgeHost.NICs[2]); err != nil {
			t.Fatal(err)
		}
		exchange(t)
	})
}
