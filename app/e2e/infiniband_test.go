// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// third is the third topology: guest D, which has Causeway, and guest M, each with an adapter of InfiniBand's link
// layer, and a software node, all at one switch.
var third struct {
	guestPair
	sw *Switch
}

const (
	softNode = "echo1"
	softQPN  = 0x48
	softGID  = "fe80::2:c903:0:101" // the switch's first node
)

var (
	ibSwitch = SwitchConfig{
		Name: "switch1", GUID: 0x0002c90300000100, Guests: []string{"D", "M"}, Nodes: []string{fmt.Sprintf("%s:echo:%#x", softNode, softQPN)},
	}
	ibBridge = GuestConfig{Name: "D", MiB: 2048, NICs: []NIC{
		{Mute: true},
		{Mute: true, MTU: hostMTU},
		{InfiniBand: &Adapter{GUID: 0x0002c90300000011, Peer: SwitchPort("D"), Addrs: []string{"10.9.0.253/24", "fd09::fd/64"}}},
	}}
	ibNode = GuestConfig{Name: "M", NICs: []NIC{
		{InfiniBand: &Adapter{GUID: 0x0002c90300000022, Peer: SwitchPort("M"), Addrs: []string{"10.9.0.7/24", "fd09::7/64"}}},
	}}
)

// theThirdTopology returns host A on the first segment, D between that segment and InfiniBand, and node M there;
// third.sw is the switch between them.
func theThirdTopology(t *testing.T) (a *Guest, d *BridgeGuest, m *Guest) {
	t.Helper()
	a, d, m = third.boot(t, "third", ibBridge, ibNode, func(r *Rig) (err error) {
		third.sw, err = r.StartSwitch(t.Context(), ibSwitch)
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the switch:\n%s", lastLines(third.sw.Log()))
			for _, g := range []*Guest{third.bridge.Guest, third.node} {
				out, _, _ := g.Run(context.Background(), "cd "+portFiles+"; grep . state lid lid_mask_count sm_lid pkeys/[0-3]; tail -n 40 /tmp/opensm.log")
				t.Logf("port and opensm of %s:\n%s", g.Name, out)
			}
		}
	})
	return a, d, m
}

// adapter is a guest's last NIC, which is one with InfiniBand's link layer.
func (c *GuestConfig) adapter() *Adapter { return c.NICs[len(c.NICs)-1].InfiniBand }

// ipoibPeers returns a guest with an adapter by the addresses of its IPoIB, IPv4 first.
func ipoibPeers(g *Guest, c GuestConfig) (peers []Peer) {
	for _, addr := range c.adapter().Addrs {
		ip, _, _ := strings.Cut(addr, "/")
		peers = append(peers, Peer{Guest: g, IP: ip, Netdev: "ib0", GID: ib.GIDFromGUID(0xfe80<<48, c.adapter().GUID).String()})
	}
	return peers
}

// portFiles is the folder with the state of a guest's port. portActive holds when the subnet manager has brought it up.
const (
	portFiles  = "/sys/class/infiniband/shca0/ports/1/"
	portActive = "grep -q ACTIVE " + portFiles + "state"
)

// startSM runs opensm in a guest until the test ends, and waits until it has brought all ports up.
func startSM(t *testing.T, on *Guest, options string, ports ...*Guest) (stop func()) {
	t.Helper()
	stop, err := on.StartSM(SM{Name: "opensm", Options: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, g := range ports {
		if err := g.Until(within(t, stepTime), portActive); err != nil {
			t.Fatal(err)
		}
	}
	return stop
}

// TestAdapters proves the third topology by the kernels alone: opensm brings both ports up, and what libibverbs,
// librdmacm and IPoIB send crosses.
func TestAdapters(t *testing.T) {
	_, d, m := theThirdTopology(t)
	proof := proves(t, "third topology: two adapters with InfiniBand's link layer, without Causeway")
	startSM(t, d.Guest, "", d.Guest, m)
	bridge, node := Peer{Guest: d.Guest, IP: "10.9.0.253"}, Peer{Guest: m, IP: "10.9.0.7"}
	for _, ip := range []string{"10.9.0.253", "fd09::fd"} {
		if err := m.Until(within(t, stepTime), "ping -c 1 -W 1 "+ip); err != nil {
			t.Error(err)
		}
	}
	for _, way := range [][2]Peer{{bridge, node}, {node, bridge}} {
		if err := Mckey(within(t, stepTime), way[0], way[1], groupV4); err != nil {
			t.Error(err)
		}
		if err := Udaddy(within(t, stepTime), way[0], way[1], ""); err != nil {
			t.Error(err)
		}
		proof.add(20)
	}
	switchConserved(t)
}

// TestInfiniBandBridge is the third topology whole: kernel host A, Causeway with DPDK on one NIC and libibverbs on the
// adapter, node M; groups, connections by IP address, and plain IP, which D's kernel forwards, both ways.
func TestInfiniBandBridge(t *testing.T) {
	x := bridgeInfiniBand(t, "host A, Causeway, InfiniBand node M; groups, udaddy, ping and TCP, both ways", "", infinibandBridge, mend)
	defer x.stop()
	x.proof.add(mckeys(t, publication{groupV4, x.hosts[0], x.nodes[0], ""}, publication{secondGroup, x.nodes[0], x.hosts[0], ""}))
	for i, host := range x.hosts {
		x.udaddy(t, host, x.nodes[i])
		plainIP(t, x.proof, host, x.nodes[i])
		plainIP(t, x.proof, x.nodes[i], host)
	}
	out, _, err := x.d.Run(within(t, stepTime), "grep -c 'ERR' /tmp/opensm.log")
	if strings.TrimSpace(out) != "0" || err != nil {
		t.Errorf("opensm has logged %s errors, %v", out, err)
	}
}

// plainIP pings a server, and sends it a file by TCP.
func plainIP(t *testing.T, proof *proof, server, client Peer) {
	t.Helper()
	ctx := within(t, stepTime)
	if err := client.Must(ctx, "ping -c 3 -W 2 "+server.IP); err != nil {
		t.Error(err)
		return
	}
	const file = "seq 1 20000"
	// A nc whose input has ended closes its side, and the other ends early: this input never ends.
	receiver, err := server.Start("rm -f /tmp/idle; mkfifo /tmp/idle; exec 3<>/tmp/idle; nc -l -p 5001 <&3 | md5sum")
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Stop()
	if err := server.Until(ctx, "netstat -ltn | grep -q ':5001 '"); err != nil {
		t.Fatal(err)
	}
	sum, _, err := client.Run(ctx, file+" | md5sum; "+file+" | timeout 20 nc "+server.IP+" 5001")
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := receiver.Wait(ctx); got != sum || err != nil {
		t.Errorf("TCP from %s to %s: %q came, want %q; %v", client.Name, server.Name, got, sum, err)
	}
	proof.add(4)
}

// TestSharedMembership has the bridge and programs of its machine as members of one group by one port: whoever leaves,
// the others stay members. The subnet administrator knows the port alone.
func TestSharedMembership(t *testing.T) {
	x := bridgeInfiniBand(t, "the bridge and programs on its machine are members of one group; each leaves", "", infinibandBridge)
	ctx := within(t, 2*stepTime)
	start := func(p Peer, format string, args ...any) *UDEnd {
		t.Helper()
		u := startUDEnd(ctx, t, p, "--count 1000000 "+format, args...)
		t.Cleanup(u.Stop)
		return u
	}
	atHost := start(x.hosts[0], "--seconds 90 --mgid %s recv", groupV4)
	sender := start(x.nodes[0], "--gap 20 --to %s --qpn 0xffffff send", groupV4)
	await := func(u *UDEnd) {
		t.Helper()
		for want := u.Received() + 25; u.Received() < want; time.Sleep(pollEvery) {
			if ctx.Err() != nil {
				t.Fatal("no traffic")
			}
		}
	}
	await(atHost)
	mckey := Peer{Guest: x.d.Guest, IP: "10.9.0.253"}
	if err := mckey.Must(ctx, "mckey -m "+groupV4+" -b "+mckey.IP+" -s"); err != nil {
		t.Error(err)
	}
	time.Sleep(3 * time.Second)
	await(atHost)
	program := start(ipoibPeers(x.d.Guest, ibBridge)[0], "--seconds 90 --mgid %s recv", groupV4)
	await(program)
	toHost := cut(t, ctx, atHost)
	x.stop()
	time.Sleep(3 * time.Second)
	await(program)
	sender.Stop()
	for name, received := range map[string][]Event{"the host, after mckey has left": toHost, "the program, after the bridge has left": cut(t, ctx, program)} {
		longest, _ := silence(received)
		x.proof.add(len(received))
		x.proof.measured("%s: longest silence %.2f s", name, longest.Seconds())
		if longest > time.Second {
			t.Errorf("%s: silent for %v", name, longest)
		}
	}
}

// cut ends a udend and returns what it has received.
func cut(t *testing.T, ctx context.Context, u *UDEnd) []Event {
	t.Helper()
	events, err := u.Cut(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return Only(events, "received")
}
