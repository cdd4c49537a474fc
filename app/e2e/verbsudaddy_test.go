// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/app/e2e/agent/client"
)

// verbsServices gives that bridge services, the example's among them, a second node (another address of N), and the
// addresses of hosts A and B as GIDs for them.
func verbsServices(ports string) string {
	more := "[[service]]\n" + ports + "\n" +
		"[[host]]\nip = \"10.9.0.8\"\nside = \"ib\"\ngid = \"::ffff:10.9.0.8\"\n" +
		"[[host]]\nip = \"fd09::8\"\nside = \"ib\"\ngid = \"fd09::8\"\n"
	return withIB(verbsBridge, `host_gids = ["10.9.0.0/30", "fd09::1/128", "fd09::2/128"]`) + more
}

// udaddyFamilies are addresses of A, B and N, by family.
var udaddyFamilies = []struct{ name, a, b, n, second string }{
	{"v4", "10.9.0.1", "10.9.0.2", "10.9.0.7", "10.9.0.8"},
	{"v6", "fd09::1", "fd09::2", "fd09::7", "fd09::8"},
}

// changeAddrs adds addresses to an interface, or deletes them.
func (g *Guest) changeAddrs(ctx context.Context, what, dev string, ips []string) error {
	var b strings.Builder
	for _, ip := range ips {
		fmt.Fprintf(&b, "ip addr %s %s dev %s || exit\n", what, ip, dev)
	}
	return g.Must(ctx, b.String())
}

// addHostAddresses gives C's verbs device the addresses of hosts A and B, as an InfiniBand port of the bridge has them
// by IPoIB, and N a second one of its own.
func addHostAddresses(t *testing.T, c *BridgeGuest, n *Guest) {
	t.Helper()
	change := func(ctx context.Context, what string) error {
		// On the first segment C's kernel must not answer for them.
		of := func(g *Guest, dev string, ips ...string) error { return g.changeAddrs(ctx, what, dev, ips) }
		if err := c.Must(ctx, "sysctl -qw net.ipv4.conf.all.arp_ignore=1"); err != nil {
			return err
		}
		if err := of(c.Guest, "eth2", "10.9.0.1/32", "10.9.0.2/32", "fd09::1/128", "fd09::2/128"); err != nil {
			return err
		}
		return of(n, "eth0", "10.9.0.8/24", "fd09::8/64")
	}
	if err := change(within(t, stepTime), "add"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := change(context.Background(), "del"); err != nil {
			t.Error(err)
		}
	})
	awaitGID(t, c.Guest, "10.9.0.1")
	awaitGID(t, c.Guest, "10.9.0.2")
	awaitGID(t, n, "10.9.0.8")
}

// A connection is a run of the example between two guests.
type connection struct{ client, server Peer }

// udaddies runs the example between many guests at once: one server at each address, for all its clients.
func udaddies(t *testing.T, proof *proof, all ...connection) {
	t.Helper()
	ctx := within(t, stepTime)
	calls, servers := map[Peer]int{}, map[Peer]*client.Command{}
	for _, x := range all {
		calls[x.server]++
	}
	for at, count := range calls {
		c, err := at.ServeUdaddy(ctx, count)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		servers[at] = c
	}
	var running sync.WaitGroup
	for _, x := range all {
		running.Go(func() {
			if err := x.client.CallUdaddy(ctx, x.server.IP); err != nil {
				t.Error(err)
				return
			}
			proof.add(udaddyCount)
		})
	}
	running.Wait()
	for at, c := range servers {
		if err := at.endsUdaddy(ctx, c); err != nil {
			t.Error(err)
			continue
		}
		proof.add(udaddyCount * calls[at])
	}
}

// TestVerbsUdaddy: the example at hosts on both sides, as Debian packages it, connected by IP address across Causeway
// on DPDK and librdmacm.
func TestVerbsUdaddy(t *testing.T) {
	_, a, b := theRig(t)
	_, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: udaddy to udaddy by IP address, both ways; several clients, several servers, all at once")
	addHostAddresses(t, c, n)
	bridge, stop := startVerbsBridge(t, c, verbsServices(`port = 7174`))
	defer stop()
	awaitGauge(t, bridge, "causeway_ib_gids", 7) // link-local, and three of each family
	for _, f := range udaddyFamilies {
		hostA, hostB := Peer{Guest: a, IP: f.a}, Peer{Guest: b, IP: f.b}
		node, second := Peer{Guest: n, IP: f.n}, Peer{Guest: n, IP: f.second}
		for _, x := range []struct {
			name string
			all  []connection
		}{
			{"host to node", []connection{{hostA, node}}},
			{"node to host", []connection{{node, hostA}}},
			{"clients at two hosts, one node", []connection{{hostA, node}, {hostB, node}, {hostA, node}}},
			{"clients at a node, one host", []connection{{node, hostA}, {second, hostA}, {node, hostA}}},
			{"one client, several servers", []connection{{hostA, node}, {hostA, second}}},
			{"one client at a node, several servers", []connection{{node, hostA}, {node, hostB}}},
			{"both ways at once", []connection{{hostA, node}, {node, hostB}}},
		} {
			t.Run(f.name+" "+x.name, func(t *testing.T) { udaddies(t, proof, x.all...) })
		}
	}
	if err := connected(settled(t, bridge), 14, 14); err != nil {
		t.Error(err)
	}
	t.Run("beside mckey, both ways", func(t *testing.T) {
		hostA, hostB, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: b, IP: "10.9.0.2"}, Peer{Guest: n, IP: "10.9.0.7"}
		var beside sync.WaitGroup
		beside.Go(func() {
			proof.add(mckeys(t, publication{groupV4, hostA, node, ""}, publication{secondGroup, node, hostA, ""}))
		})
		udaddies(t, proof, connection{hostB, node}, connection{node, hostB})
		beside.Wait()
	})
}

// TestVerbsUdaddyFaults: requests lost on either segment, servers restarted, no server, the bridge killed.
func TestVerbsUdaddyFaults(t *testing.T) {
	rig, a, _ := theRig(t)
	_, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: udaddy while requests are lost, servers started anew or away, the bridge killed")
	addHostAddresses(t, c, n)
	bridge, stop := startVerbsBridge(t, c, verbsServices(`ports = "7000-7999"`))
	defer stop()
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	both := func(t *testing.T) {
		udaddies(t, proof, connection{host, node})
		udaddies(t, proof, connection{node, host})
	}
	both(t) // and again with restarted servers
	both(t)
	t.Run("nobody there", func(t *testing.T) {
		for _, x := range []connection{{host, node}, {node, host}} {
			if err := x.client.CallUdaddy(within(t, stepTime), x.server.IP); err == nil || !strings.Contains(err.Error(), "return status") {
				t.Errorf("%s calls nobody: %v", x.client.IP, err)
			}
		}
		proof.add(2)
	})
	for segment, g := range []*Guest{a, n} {
		for _, x := range []connection{{host, node}, {node, host}} {
			t.Run(fmt.Sprintf("%s calls, lost at %s", x.client.Name, g.Name), func(t *testing.T) { lossy(t, proof, rig, x, g, segment) })
		}
	}
	t.Run("bridge killed", func(t *testing.T) {
		ctx := within(t, 2*stepTime)
		server, err := node.ServeUdaddy(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		if err := c.Must(ctx, bridge.killed()); err != nil {
			t.Fatal(err)
		}
		// Its request reaches nobody until there is a bridge again: the kernel repeats it for a minute.
		if err := host.CallUdaddy(ctx, node.IP); err != nil {
			t.Error(err)
		}
		if err := node.endsUdaddy(ctx, server); err != nil {
			t.Error(err)
		}
		if err := bridge.ReadyAgain(ctx, 2); err != nil {
			t.Error(err)
		}
		both(t)
	})
}

// lossy connects while the cable of a guest is unplugged for a moment: the first request over it is lost.
func lossy(t *testing.T, proof *proof, rig *Rig, x connection, g *Guest, segment int) {
	t.Helper()
	ctx := within(t, stepTime)
	server, err := x.server.ServeUdaddy(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	if err := rig.Unplug(g); err != nil {
		t.Fatal(err)
	}
	start, mended := time.Now(), make(chan error, 1)
	time.AfterFunc(cutFor, func() { mended <- rig.Plug(g, segment) })
	if err := x.client.CallUdaddy(ctx, x.server.IP); err != nil {
		t.Error(err)
	}
	if err := <-mended; err != nil {
		t.Error(err)
	}
	if time.Since(start) < cutFor {
		t.Errorf("connected after %v: nothing was lost", time.Since(start))
	}
	if err := x.server.endsUdaddy(ctx, server); err != nil {
		t.Error(err)
	}
	proof.add(2 * udaddyCount)
}
