// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// third is the third topology, made by the first test that wants it: guest D, which has Causeway, and guest M, each with
// an adapter of InfiniBand's link layer.
var third struct {
	once sync.Once
	d    *BridgeGuest
	m    *Guest
	err  error
}

var (
	ibBridge = GuestConfig{Name: "D", MiB: 2048, NICs: []NIC{
		{Mute: true},
		{Mute: true, MTU: hostMTU},
		{InfiniBand: &Adapter{GUID: 0x0002c90300000011, Peer: "M", Addrs: []string{"10.9.0.253/24", "fd09::fd/64"}}},
	}}
	ibNode = GuestConfig{Name: "M", NICs: []NIC{
		{InfiniBand: &Adapter{GUID: 0x0002c90300000022, Peer: "D", Addrs: []string{"10.9.0.7/24", "fd09::7/64"}}},
	}}
)

// theThirdTopology returns host A on the first segment, D between that segment and InfiniBand, and node M there.
func theThirdTopology(t *testing.T) (a *Guest, d *BridgeGuest, m *Guest) {
	t.Helper()
	r, a, _ := theRig(t)
	third.once.Do(func() {
		start := time.Now()
		if third.m, third.err = r.StartGuest(ibNode); third.err != nil { // boots beside D
			return
		}
		if third.d, third.err = r.BootBridgeGuest(t.Context(), ibBridge); third.err != nil {
			return
		}
		third.err = third.m.Ready(t.Context(), ibNode)
		fmt.Fprintf(os.Stderr, "e2e: third topology: two more guests up after %.1f s\n", time.Since(start).Seconds())
	})
	if third.err != nil {
		t.Fatal(third.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of D:\n%s\nconsole of M:\n%s", third.d.Console(), third.m.Console())
		}
	})
	return a, third.d, third.m
}

const active = "grep -q ACTIVE /sys/class/infiniband/shca0/ports/1/state"

// TestAdapters proves the third topology by the kernels alone: opensm brings both ports up.
func TestAdapters(t *testing.T) {
	_, d, m := theThirdTopology(t)
	stop, err := d.StartSM("")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, g := range []*Guest{d.Guest, m} {
		if err := g.Until(within(t, stepTime), active); err != nil {
			t.Fatal(err)
		}
	}
	out, exit, err := m.Run(within(t, stepTime), "sminfo; ibv_devinfo -v | head -60; saquery; ping -c 3 10.9.0.253; perfquery; cd /sys/class/infiniband/shca0/ports/1/hw_counters; grep . *; dmesg | tail -20")
	t.Log(out, exit, err)
}
