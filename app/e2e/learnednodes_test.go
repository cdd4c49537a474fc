// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
)

// learningBridge is infinibandBridge without a line for any node.
var learningBridge = betweenFabrics("port = \"shca0:1\"\nnodes = \"learn\"", `
[[host]]
ip   = "10.9.0.1"
side = "roce"
[[service]]
port = 7174
`)

// TestLearnedNodes has node M without a line in the configuration: connections by address both ways, bare verbs with
// and without a GRH, another address, and a station on Ethernet that claims its address.
func TestLearnedNodes(t *testing.T) {
	x := bridgeInfiniBand(t, "node M is learned; udaddy and bare verbs both ways, another address, a forged ARP", "", learningBridge, mend)
	defer x.stop()
	a, m, host := x.a, x.m, x.hosts[0]
	x.udaddy(t, host, x.nodes[0])
	before := settled(t, x.bridge)
	if n := before["causeway_nodes_learned"]; n != 1 {
		t.Errorf("%v nodes are learned", n)
	}
	exchange := func(ip string) {
		t.Helper()
		ctx := within(t, stepTime)
		replier := startUDEnd(ctx, t, x.nodes[0], "--count 10 --seconds 30 reply")
		defer replier.Stop()
		if _, err := a.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn %d --count 10 --gap 50 --seconds 30 exchange",
			host.udendArgs(), unicast, ip, replier.QPN)); err != nil {
			t.Errorf("with %s: %v", ip, err)
		}
		x.proof.add(20)
	}
	exchange("10.9.0.7")
	const forge = "ip addr add 10.9.0.7/32 dev eth0; busybox arping -q -U -c 3 -I eth0 -s 10.9.0.7 10.9.0.7; ip addr del 10.9.0.7/32 dev eth0"
	if err := a.Must(within(t, stepTime), forge); err != nil {
		t.Error(err)
	}
	if n := settled(t, x.bridge)["causeway_spoofs_total"]; n == 0 {
		t.Error("no forged ARP came")
	}
	exchange("10.9.0.7")
	if err := m.Must(within(t, stepTime), "ip addr del 10.9.0.7/24 dev ib0; ip addr add 10.9.0.8/24 dev ib0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Must(context.Background(), "ip addr del 10.9.0.8/24 dev ib0; ip addr add 10.9.0.7/24 dev ib0"); err != nil {
			t.Error(err)
		}
	})
	if err := a.Until(within(t, stepTime), "ip neigh flush dev eth0; ping -q -c 1 -W 1 10.9.0.8 >/dev/null; ip neigh show 10.9.0.8 | grep -q lladdr"); err != nil {
		t.Error(err)
	}
	exchange("10.9.0.8")
	if err := settled(t, x.bridge).Conserved(); err != nil {
		t.Error(err)
	}
	switchConserved(t)
}
