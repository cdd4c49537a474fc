// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestInfiniBandUdaddyMany has programs with a hundred queue pairs, each with a connection of its own, both ways.
// Where a host may not have so many proxy QPs, the program is told at once that there is no queue pair for it.
func TestInfiniBandUdaddyMany(t *testing.T) {
	a, d, m := theThirdTopology(t)
	const connections, fewer = 100, 64
	proof := proves(t, fmt.Sprintf("third topology: udaddy -c %d, both ways; told that there is no queue pair beyond the limit", connections))
	startSM(t, d.Guest, "", d.Guest, m)
	mend(t, d, infinibandBridge)
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: m, IP: "10.9.0.7"}
	t.Run("as many as by default", func(t *testing.T) {
		// A thousand messages at once wait for proxy QPs: with as many packet buffers as by default, and their memory.
		config := strings.Replace(infinibandBridge, "memory_mib = 192\nmbufs      = 8192\n", "memory_mib = 512\n", 1)
		bridge, stop := startVerbsBridge(t, d, config)
		defer stop()
		before := settled(t, bridge)
		for _, way := range [][2]Peer{{host, node}, {node, host}} {
			began := time.Now()
			if err := Udaddy(within(t, 2*stepTime), way[0], way[1], fmt.Sprintf("-c %d", connections)); err != nil {
				t.Error(err)
			}
			proof.measured("%d connections from guest %s to %s: %.1f s", connections, way[1].Name, way[0].Name, time.Since(began).Seconds())
		}
		const each = 2 * connections * udaddyCount
		// The requests for connections.
		movedExactly(t, settled(t, bridge).Since(before), each, each, append(kernelsTalk, "mad_served")...)
		proof.add(2 * each)
	})
	t.Run("beyond the limit", func(t *testing.T) {
		config := strings.Replace(infinibandBridge, "[policy]", fmt.Sprintf("proxy_qps_per_host = %d\n[policy]", fewer), 1)
		bridge, stop := startVerbsBridge(t, d, config)
		defer stop()
		ctx := within(t, 2*stepTime)
		server, err := node.ServeUdaddy(ctx, connections)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		out, exit, err := host.Run(ctx, fmt.Sprintf("udaddy -b %s -s %s -c %d", host.IP, node.IP, connections))
		if err != nil || exit == 0 || !strings.Contains(out, "RDMA_CM_EVENT_UNREACHABLE, error: 3") {
			t.Errorf("udaddy with %d queue pairs, where %d are allowed: exit %d, %v: %s", connections, fewer, exit, err, lastLines(out))
		}
		if n := settled(t, bridge).Drops(roceToIB)["proxy_qp_full"]; n != 0 {
			t.Errorf("%d messages of connections were dropped", n)
		}
	})
	switchConserved(t)
}
