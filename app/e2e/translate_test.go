// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/fabric/fabrictest"
)

// The second side's addresses: those of the RoCE side with other prefixes.
const (
	there4, there6 = "10.10.9.", "fd10::"
	translations   = "[[translate]]\nroce = \"10.9.0.0/24\"\nib = \"10.10.9.0/24\"\n[[translate]]\nroce = \"fd09::/64\"\nib = \"fd10::/64\"\n"
)

// TestUdaddyTranslated: the example at a host and a node; the node knows hosts by addresses of its own side, and they
// know it by addresses of theirs.
func TestUdaddyTranslated(t *testing.T) {
	proof := proves(t, "udaddy at a host and a node on another IP subnet, connected by addresses that the bridge translates: each as client and as server")
	n := networks[0]
	_, a, _ := theRig(t)
	c, nodes := bridgeWith(t, n.config(fmt.Sprintf("[[service]]\nport = %d\n", udaddyPort)+translations), topology, node7(fabric.RoleNone))
	node := nodes[0].Exchanger(fabric.CMConfig{}, there4+"7", there6+"7") // it rejects what is not for these
	t.Cleanup(node.CM.Close)
	gid, err := c.GID()
	if err != nil {
		t.Fatal(err)
	}
	r := &udaddyRig{Causeway: c, network: n, gid: gid, a: a, nodes: []*fabrictest.Exchanger{node}, proof: proof}
	r.families(t, func(t *testing.T, v6 bool, prefix string) {
		host, there := r.host(a, v6), map[bool]string{false: there4, true: there6}[v6]
		exchanges := r.serve(t, node)
		r.together(t, calling(host, prefix+"7"))
		r.went(t, exchanges, 1)
		ctx := within(t, stepTime)
		server, err := host.ServeUdaddy(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		r.call(t, node, Peer{Guest: a, IP: there + "1"})
		if err := host.endsUdaddy(ctx, server); err != nil {
			t.Error(err)
		}
		proof.add(udaddyCount)
	})
	r.allConnected(t, 2, 2)
}

// addressesThere gives N an address of each family that only its own side knows, and gives C's verbs device those by
// which that side knows host A and the bridge.
func addressesThere(t *testing.T, c *BridgeGuest, n *Guest) {
	t.Helper()
	change := func(ctx context.Context, what string) error {
		of := func(g *Guest, dev string, ips ...string) error { return g.changeAddrs(ctx, what, dev, ips) }
		if err := of(c.Guest, "eth2", there4+"3/24", there4+"1/32", there6+"3/64", there6+"1/128"); err != nil {
			return err
		}
		return of(n, "eth0", there4+"7/24", there6+"7/64")
	}
	if err := change(within(t, stepTime), "add"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := change(context.Background(), "del"); err != nil {
			t.Error(err)
		}
	})
	awaitGID(t, c.Guest, there4+"1")
	awaitGID(t, n, there4+"7")
}

// TestVerbsUdaddyTranslated: the example at kernel hosts on both sides of Causeway on librdmacm, on two IP subnets with
// no route between them. N's kernel takes no request whose source it has no route to.
func TestVerbsUdaddyTranslated(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: udaddy to udaddy by IP addresses that the bridge translates, both ways")
	addressesThere(t, c, n)
	config := strings.NewReplacer("::ffff:10.9.0.7", "::ffff:"+there4+"7", `gid  = "fd09::7"`, `gid  = "`+there6+`7"`).Replace(verbsBridge)
	bridge, stop := startVerbsBridge(t, c, config+fmt.Sprintf("[[service]]\nport = %d\n", udaddyPort)+translations)
	defer stop()
	// link-local, and three of each family: C's own, host A's there, and C's there.
	awaitGauge(t, bridge, "causeway_ib_gids", 7)
	for _, f := range []struct{ name, here, there string }{{"v4", "10.9.0.", there4}, {"v6", "fd09::", there6}} {
		t.Run(f.name, func(t *testing.T) {
			translated(t, proof, Peer{Guest: a, IP: f.here + "1"}, Peer{Guest: n, IP: f.there + "7"}, f.here+"7")
			translated(t, proof, Peer{Guest: n, IP: f.there + "7"}, Peer{Guest: a, IP: f.here + "1"}, f.there+"1")
		})
	}
	if err := connected(settled(t, bridge), 2, 2); err != nil {
		t.Error(err)
	}
}

// translated runs the example from a client to a server that the client knows by another address.
func translated(t *testing.T, proof *proof, client, server Peer, known string) {
	t.Helper()
	ctx := within(t, stepTime)
	running, err := server.ServeUdaddy(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	if err := client.CallUdaddy(ctx, known); err != nil {
		t.Error(err)
		return
	}
	if err := server.endsUdaddy(ctx, running); err != nil {
		t.Error(err)
		return
	}
	proof.add(2 * udaddyCount)
}
