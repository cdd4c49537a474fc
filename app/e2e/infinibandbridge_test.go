// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// infinibandBridge is a bridge between D's eth1 and its adapter.
var infinibandBridge = betweenFabrics("port = \"shca0:1\"\nalias_gids = true", `
[[host]]
ip   = "10.9.0.7"
ip6  = "fd09::7"
side = "ib"
gid  = "fe80::2:c903:0:22"
[[host]]
ip   = "10.9.0.1"
ip6  = "fd09::1"
side = "roce"
[[service]]
port = 7174
`)

// A bridgedInfiniBand is the third topology with a bridge in it.
type bridgedInfiniBand struct {
	a, m         *Guest
	d            *BridgeGuest
	bridge       *GuestCauseway
	stop         func() // stops the bridge: it must have counted every packet
	proof        *proof
	hosts, nodes []Peer // A and M by their addresses, IPv4 first
}

// bridgeInfiniBand starts opensm with more of its options, and a bridge, which the caller stops. Before the bridge it
// calls prepare.
func bridgeInfiniBand(t *testing.T, scenario, options, config string, prepare ...func(*testing.T, *BridgeGuest, string)) *bridgedInfiniBand {
	t.Helper()
	a, d, m := theThirdTopology(t)
	x := &bridgedInfiniBand{
		a: a, d: d, m: m, proof: proves(t, "third topology: "+scenario), nodes: ipoibPeers(m, ibNode),
		hosts: []Peer{{Guest: a, IP: "10.9.0.1"}, {Guest: a, IP: "fd09::1"}},
	}
	startSM(t, d.Guest, options, d.Guest, m)
	for _, p := range prepare {
		p(t, d, config)
	}
	bridge, stop := startVerbsBridge(t, d, config)
	x.bridge, x.stop = bridge, func() {
		stop()
		if strings.Contains(bridge.Log(), "bridges_unknown") {
			t.Errorf("opensm did not take or list the bridge's record; it logged\n%s", lastLines(bridge.Log()))
		}
	}
	return x
}

// udaddy runs udaddy between two peers, each as the server once.
func (x *bridgedInfiniBand) udaddy(t *testing.T, one, other Peer) {
	t.Helper()
	for _, way := range [][2]Peer{{one, other}, {other, one}} {
		if err := Udaddy(within(t, stepTime), way[0], way[1], ""); err != nil {
			t.Error(err)
		}
		x.proof.add(2 * udaddyCount)
	}
}

// mend does what doctor says in D for a configuration, once, after which doctor has nothing to mend of what it calls a
// failure.
func mend(t *testing.T, d *BridgeGuest, config string) {
	t.Helper()
	bin, err := bridgeProgram()
	if err != nil {
		t.Fatal(err)
	}
	path, err := d.Put(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, stepTime)
	if err := d.Write(ctx, "/tmp/doctor.toml", config); err != nil {
		t.Fatal(err)
	}
	// What needs another machine, and what only shows something, is no command to run here.
	fixes := path + " doctor -fixes /tmp/doctor.toml | grep -vE 'nr_hugepages|ip route get|ip link set ib0 mtu'"
	out, _, err := d.Run(ctx, fixes+" | tee /dev/stderr | sh 2>&1 >/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := d.Run(ctx, fixes+" | grep -v '^#'")
	if again != "" || err != nil {
		t.Errorf("doctor's second pass has more to mend: %s, %v; the first was:\n%s", again, err, out)
	}
}
