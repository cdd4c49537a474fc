// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// sourceV4 returns the source address of an IPv4 message.
func (e Event) sourceV4() string {
	b, err := e.GRHArea()
	if err != nil || len(b) < 40 {
		return ""
	}
	return netip.AddrFrom4([4]byte(b[32:36])).String()
}

// withIB adds keys to the table [ib] of a configuration.
func withIB(config, keys string) string {
	return strings.Replace(config, "port = \"rxe0:1\"\n", "port = \"rxe0:1\"\n"+keys+"\n", 1)
}

// TestHostGIDs gives the bridge's device further addresses: each RoCE host is seen under one of its own as long as
// there are enough, and this follows changes of the device at run time. Answers to each come back to the host.
func TestHostGIDs(t *testing.T) {
	_, a, b := theRig(t)
	_, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: a GID for each RoCE host while there are some; they come and go")
	const spare, bridgeOwn = "10.9.0.101", "10.9.0.3"
	alias := func(what, ip string) {
		t.Helper()
		if err := c.Must(within(t, stepTime), "ip addr "+what+" "+ip+" dev eth2"); err != nil {
			t.Fatal(err)
		}
	}
	alias("add", spare+"/24")
	t.Cleanup(func() {
		// They may be gone.
		_, _, _ = c.Run(context.Background(), "ip addr del "+spare+"/24 dev eth2; ip addr del 10.9.0.2/32 dev eth2")
	})
	bridge, stop := startVerbsBridge(t, c, withIB(verbsBridge, `host_gids = ["10.9.0.96/28"]`))
	defer stop()
	node := Peer{Guest: n, IP: "10.9.0.7"}
	hosts := map[string]Peer{"A": {Guest: a, IP: "10.9.0.1"}, "B": {Guest: b, IP: "10.9.0.2"}}
	see := func(host, as string) {
		t.Helper()
		came := seenAs(t, hosts[host], node, as)
		proof.add(came)
	}
	awaitGauge(t, bridge, "causeway_ib_gids", 4) // link-local, two of IPv4, one of IPv6
	see("A", spare)
	see("B", bridgeOwn)
	see("A", spare)
	alias("del", spare+"/24")
	awaitGauge(t, bridge, "causeway_host_gids", 0)
	see("A", bridgeOwn)
	alias("add", spare+"/24")
	awaitGauge(t, bridge, "causeway_host_gids", 1)
	// Both have proxy QPs, so either may have it now; B gets its own address when the device has that.
	if err := c.Must(within(t, stepTime), "sysctl -qw net.ipv4.conf.all.arp_ignore=1"); err != nil { // C must not answer for them on the first segment
		t.Fatal(err)
	}
	alias("add", "10.9.0.2/32")
	awaitGauge(t, bridge, "causeway_host_gids", 2)
	see("B", "10.9.0.2")
	see("A", spare)
	alias("del", "10.9.0.2/32")
}

// seenAs has a host exchange messages with a node, which must see it under an address. It returns how many messages
// came.
func seenAs(t *testing.T, host, node Peer, as string) int {
	t.Helper()
	const count = 5
	ctx := within(t, stepTime)
	replier, err := node.StartUDEnd(ctx, fmt.Sprintf("%s %s --count %d --seconds 30 reply", node.udendArgs(), unicast, count))
	if err != nil {
		t.Fatal(err)
	}
	defer replier.Stop()
	if _, err := host.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn %d --count %d pingpong",
		host.udendArgs(), unicast, node.IP, replier.QPN, count)); err != nil {
		t.Fatal(err)
	}
	events, _, err := replier.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range Only(events, "received") {
		if got := e.sourceV4(); got != as {
			t.Fatalf("%s is seen as %s, want %s", host.IP, got, as)
		}
	}
	return 2 * count
}

// awaitGauge waits until a gauge of the bridge's has a value.
func awaitGauge(t *testing.T, c *GuestCauseway, name string, want uint64) {
	t.Helper()
	ctx := within(t, stepTime)
	for {
		m, err := c.Metrics(ctx)
		if err != nil {
			t.Fatalf("%s: want %d: %v; the bridge logged:\n%s", name, want, err, lastLines(c.Log()))
		}
		if m[name] == want {
			return
		}
		time.Sleep(pollEvery)
	}
}

// TestUnknownSource has N send from an address that the bridge has no node for: dropped by name, or with policy
// "bridge" received by the host from the bridge's own address.
func TestUnknownSource(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: an unknown source is dropped, or crosses with the bridge's address")
	if err := n.Must(within(t, stepTime), "ip addr add 10.9.0.77/24 dev eth0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Must(context.Background(), "ip addr del 10.9.0.77/24 dev eth0"); err != nil {
			t.Error(err)
		}
	})
	awaitGID(t, n, "10.9.0.77")
	const count = 5
	for policy, want := range map[string]struct {
		sent          int
		drops, bridge uint64
	}{"drop": {count, count, 0}, "bridge": {2 * count, 0, count}} {
		t.Run(policy, func(t *testing.T) {
			config := strings.Replace(verbsBridge, "[policy]\n", "[policy]\nunknown_source = \""+policy+"\"\n", 1)
			bridge, stop := startVerbsBridge(t, c, config)
			defer stop()
			from := callFromTwo(t, Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}, Peer{Guest: n, IP: "10.9.0.77"}, count, want.sent)
			m := settled(t, bridge)
			if got := m.Drops(ibToRoCE)["node_unknown"]; got != want.drops || m.Of(ibToRoCE, "source_bridged_total") != want.bridge {
				t.Errorf("%d dropped, %d bridged, want %+v", got, m.Of(ibToRoCE, "source_bridged_total"), want)
			}
			if from["10.9.0.7"] != count || from["10.9.0.254"] != int(want.bridge) || len(from) > 2 {
				t.Errorf("the host received from %v", from)
			}
			proof.add(2 * count)
		})
	}
}

// callFromTwo has the host send to a node, so that it has a proxy QP, and then sends it messages from that node and
// from an unknown source. It returns how many the host received, by source.
func callFromTwo(t *testing.T, host, node, stranger Peer, count, comes int) map[string]int {
	t.Helper()
	ctx := within(t, stepTime)
	first, err := node.StartUDEnd(ctx, fmt.Sprintf("%s %s --count 1 --seconds 30 recv", node.udendArgs(), unicast))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	// The host receives as many messages as it sends; those after the first go to a QPN that nobody has.
	caller, err := host.StartUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn %d --count %d --gap 50 --seconds 30 exchange",
		host.udendArgs(), unicast, node.IP, first.QPN, comes))
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Stop()
	received, _, err := first.Wait(ctx)
	if err != nil || len(Only(received, "received")) == 0 {
		t.Fatalf("the node received nothing: %v", err)
	}
	proxyQP := Only(received, "received")[0].SrcQP
	for _, from := range []Peer{stranger, node} {
		if _, err := from.RunUDEnd(ctx, fmt.Sprintf("%s %s --to 10.9.0.3 --qpn %d --count %d --gap 3 send", from.udendArgs(), unicast, proxyQP, count)); err != nil {
			t.Fatal(err)
		}
	}
	events, exit, err := caller.Wait(ctx)
	if err != nil || exit != 0 {
		t.Errorf("the host: exit %d, %v", exit, err)
	}
	sources := map[string]int{}
	for _, e := range Only(events, "received") {
		sources[e.sourceV4()]++
	}
	return sources
}
