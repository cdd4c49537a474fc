// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// fabricUnderFire is the third topology with a bridge, and traffic across it, while its subnet changes.
type fabricUnderFire struct {
	t      *testing.T
	a, m   *Guest
	d      *BridgeGuest
	flows  *flows
	clocks map[*Guest]time.Time // when each was zero
	proof  *proof
	slow   float64 // how much slower than usual the guests were when the traffic began
}

// subnetConfig makes opensm notice within a second that another has gone.
const subnetConfig = "sminfo_polling_timeout 250\\npolling_retry_number 2\\n"

// manage starts opensm in a guest, with these LIDs for ports that have none in its memory, or others.
func (f *fabricUnderFire) manage(on *Guest, options string, lids ...lidOfPort) {
	f.t.Helper()
	var memory strings.Builder
	for _, l := range lids {
		fmt.Fprintf(&memory, "0x%016x 0x%04x 0x%04x\\n\\n", uint64(l.of.adapter().GUID), l.lid, l.lid)
	}
	f.must(on, fmt.Sprintf("printf '%s' >/tmp/opensm.conf; printf '%s' >/var/cache/opensm/guid2lid", subnetConfig, memory.String()))
	stop, err := on.StartSM(SM{Name: "opensm", Options: "-F /tmp/opensm.conf -P /tmp/partitions.conf " + options})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(stop)
}

// lidOfPort is the LID of a guest's adapter.
type lidOfPort struct {
	of  *GuestConfig
	lid uint16
}

func (f *fabricUnderFire) must(g *Guest, command string) {
	f.t.Helper()
	if err := g.Must(within(f.t, stepTime), command); err != nil {
		f.t.Fatal(err)
	}
}

// await waits until a shell condition holds in a guest.
func (f *fabricUnderFire) await(g *Guest, condition string) {
	f.t.Helper()
	if err := g.Until(within(f.t, stepTime), condition); err != nil {
		f.t.Fatal(err)
	}
}

const (
	killSM = "killall -KILL opensm"
	// subnetUp holds once opensm has set up the whole subnet.
	subnetUp = "grep -q 'SUBNET UP' /tmp/opensm.log"
)

// holds is the shell condition that a number of the port's state is this.
func holds(name string, value uint16) string {
	return fmt.Sprintf("[ $(($(cat %s%s))) = %d ]", portFiles, name, value)
}

// partitionOf is a partition beside the default one, and its full members: opensm's ALL, or the GUID of a port.
type partitionOf struct {
	pkey    uint16
	members string
}

// partitions writes the partitions that opensm in a guest reads when it starts, or by SIGHUP.
func (f *fabricUnderFire) partitions(on *Guest, more ...partitionOf) {
	f.t.Helper()
	lines := "Default=0x7fff,ipoib:ALL=full;\\n"
	for _, p := range more {
		lines += fmt.Sprintf("P%d=%#x,ipoib:%s=full;\\n", p.pkey, p.pkey, p.members)
	}
	f.must(on, "printf '"+lines+"' >/tmp/partitions.conf")
}

// repartition has opensm in a guest change the partitions.
func (f *fabricUnderFire) repartition(on *Guest, partitions ...partitionOf) {
	f.t.Helper()
	f.partitions(on, partitions...)
	f.must(on, "killall -HUP opensm")
}

// awaitBoth waits until a condition holds in the bridge's guest and the node's.
func (f *fabricUnderFire) awaitBoth(condition string) {
	f.t.Helper()
	f.await(f.m, condition)
	f.await(f.d.Guest, condition)
}

// pkeys is the shell condition that a port has these P_Keys, in this order, at the beginning of its table.
func pkeys(keys ...string) string {
	return fmt.Sprintf("[ \"$(cd %spkeys; cat 0 1 2 | xargs)\" = '%s' ]", portFiles, strings.Join(keys, " "))
}

// pull pulls a guest's cable for a second.
func (f *fabricUnderFire) pull(g *Guest) {
	f.t.Helper()
	ctx := within(f.t, stepTime)
	if err := third.sw.Pull(ctx, SwitchPort(g.Name), false); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := third.sw.Pull(ctx, SwitchPort(g.Name), true); err != nil {
		f.t.Fatal(err)
	}
}

// The LIDs that subnet managers give.
const lidD, lidM, lidDLater, lidMLater = 0x11, 0x12, 0x24, 0x31

// subnetFaults change the subnet, each after the one before. Each returns when the subnet itself has recovered.
var subnetFaults = []struct {
	name string
	do   func(f *fabricUnderFire)
}{
	{"opensm killed", func(f *fabricUnderFire) {
		f.must(f.d.Guest, killSM)
	}},
	{"opensm anew with an empty memory; the LIDs of bridge and node exchanged", func(f *fabricUnderFire) {
		f.manage(f.d.Guest, "", lidOfPort{&ibBridge, lidM}, lidOfPort{&ibNode, lidD})
		f.await(f.d.Guest, holds("lid", lidM)+" && "+subnetUp)
		f.await(f.m, holds("lid", lidD))
	}},
	{"node's cable pulled for a second", func(f *fabricUnderFire) {
		f.pull(f.m)
		f.await(f.m, portActive)
	}},
	{"handed over to opensm at the node, of higher priority", func(f *fabricUnderFire) {
		f.manage(f.m, "-p 14", lidOfPort{&ibBridge, lidM}, lidOfPort{&ibNode, lidD})
		f.await(f.m, "grep -q 'Entering STANDBY' /tmp/opensm.log")
		f.must(f.d.Guest, "killall -HUP opensm") // an adapter that sends traps would have it look for the other
		f.await(f.m, subnetUp)
		f.await(f.d.Guest, holds("sm_lid", lidD))
	}},
	{"the node's opensm killed, the bridge's takes over", func(f *fabricUnderFire) {
		f.must(f.d.Guest, "echo >/tmp/opensm.log")
		f.must(f.m, killSM)
		f.await(f.d.Guest, holds("sm_lid", lidM)+" && "+subnetUp)
	}},
	{"replaced by opensm at the node, with LMC 2", func(f *fabricUnderFire) {
		f.must(f.d.Guest, killSM)
		f.manage(f.m, "-l 2")
		f.await(f.m, holds("lid_mask_count", 2)+" && "+subnetUp)
		f.await(f.d.Guest, holds("lid_mask_count", 2))
	}},
	{"bridge's cable pulled for a second", func(f *fabricUnderFire) {
		f.pull(f.d.Guest)
		f.await(f.d.Guest, portActive)
	}},
	{"two partitions more", func(f *fabricUnderFire) {
		f.repartition(f.m, partitionOf{1, "ALL"}, partitionOf{2, "ALL"})
		f.awaitBoth(pkeys("0xffff", "0x8001", "0x8002"))
	}},
	{"one of them less", func(f *fabricUnderFire) {
		f.repartition(f.m, partitionOf{2, "ALL"})
		f.awaitBoth("! grep -q 0x8001 " + portFiles + "pkeys/*")
	}},
}

// theFabricUnderFire returns the third topology, managed by opensm in the bridge's guest, with these partitions.
func theFabricUnderFire(t *testing.T, partitions ...partitionOf) *fabricUnderFire {
	t.Helper()
	a, d, m := theThirdTopology(t)
	f := &fabricUnderFire{t: t, a: a, d: d, m: m, slow: d.slowness(t.Context())}
	t.Cleanup(func() { // later tests begin as the first
		for _, g := range []*Guest{f.d.Guest, f.m} {
			_ = g.Must(context.Background(), "rm -f /var/cache/opensm/* /tmp/partitions.conf")
		}
	})
	for _, g := range []*Guest{d.Guest, m} {
		f.partitions(g, partitions...)
	}
	f.manage(d.Guest, "", lidOfPort{&ibBridge, lidD}, lidOfPort{&ibNode, lidM})
	f.await(d.Guest, holds("lid", lidD)+" && "+portActive)
	f.await(m, holds("lid", lidM)+" && "+portActive)
	return f
}

// TestInfiniBandFaults changes the subnet in all ways while unicast and group traffic crosses the bridge both ways.
// Traffic is back within a second of the subnet's own recovery, to which the node's own membership belongs, without a
// new process.
func TestInfiniBandFaults(t *testing.T) {
	f := theFabricUnderFire(t)
	f.proof = proves(t, "third topology: the subnet changes under traffic, unicast and groups both ways")
	bridge, stop := startVerbsBridge(t, f.d, infinibandBridge)
	defer stop()
	node := ipoibPeers(f.m, ibNode)
	f.traffic(node[0], node[1])
	for _, x := range subnetFaults {
		f.suffer(x.name, x.do)
	}
	f.flows.end(t)
	f.reboot()
	moved := settled(t, bridge)
	f.proof.measured("dropped: to InfiniBand %v, lost by the port %v; to RoCE %v, %v",
		moved.Drops(roceToIB), moved.Lost(roceToIB), moved.Drops(ibToRoCE), moved.Lost(ibToRoCE))
	if n := len(readyLine.FindAllString(bridge.Log(), -1)); n != 1 {
		t.Errorf("%d bridges have run, one after the other", n)
	}
	switchConserved(t)
}

// traffic starts the flows between the host and the node, which are two addresses of the node's.
func (f *fabricUnderFire) traffic(node, node6 Peer) {
	gap := min(time.Duration(f.slow*float64(20*time.Millisecond)), 100*time.Millisecond)
	f.flows = startFlows(f.t, gap, f.a, node, node6)
	f.clocks = map[*Guest]time.Time{f.a: f.a.booted(f.t), f.m: f.m.booted(f.t)}
}

// suffer causes a fault, and measures the traffic from its end on.
func (f *fabricUnderFire) suffer(name string, fault func(*fabricUnderFire)) {
	f.flows.await(f.t, 10)
	f.flows.mark()
	fault(f)
	recovered := time.Now()
	f.flows.await(f.t, 25)
	f.judge(name, f.flows.since(f.t, recovered, f.clocks))
}

// judge checks how long each flow was silent after a fault.
func (f *fabricUnderFire) judge(name string, flows []outage) {
	bound := stretched(f.t, time.Second, f.d.Guest, f.slow)
	var figures []string
	for _, o := range flows {
		f.proof.add(o.came)
		figures = append(figures, fmt.Sprintf("%s %.2f s (%.2f s)", o.name, o.after.Seconds(), o.longest.Seconds()))
		if o.joined > 0 {
			figures[len(figures)-1] += fmt.Sprintf(" from the node's own join on, %.2f s later", o.joined.Seconds())
		}
		if o.after > bound {
			f.t.Errorf("%s: %s: silent for %v after the subnet's recovery, want at most %v", name, o.name, o.after, bound)
		}
	}
	f.proof.measured("%s: longest silence after the subnet's recovery (in all): %s", name, strings.Join(figures, ", "))
}

// reboot has the node lose power while the host sends to it, and gives it another LID when it is back.
func (f *fabricUnderFire) reboot() {
	host := Peer{Guest: f.a, IP: "10.9.0.1"}
	for _, to := range []string{"10.9.0.7 --qpn 0x99", groupV4 + " --qpn 0xffffff"} {
		sender, err := host.StartUDEnd(within(f.t, stepTime), fmt.Sprintf("%s %s --to %s --gap 20 --count 1000000 send", host.udendArgs(), unicast, to))
		if err != nil {
			f.t.Fatal(err)
		}
		defer sender.Stop()
	}
	f.m.Stop() // and opensm with it
	f.manage(f.d.Guest, "", lidOfPort{&ibBridge, lidDLater}, lidOfPort{&ibNode, lidMLater})
	third.node, third.err = f.m.rig.StartGuest(ibNode)
	if third.err == nil {
		third.err = third.node.Ready(f.t.Context(), ibNode)
	}
	if f.m = third.node; third.err != nil {
		f.t.Fatal(third.err)
	}
	f.await(f.m, portActive+" && "+holds("lid", lidMLater))
	f.await(f.m, "ip addr show ib0 | grep -q 'state UP'")
	node := ipoibPeers(f.m, ibNode)
	f.traffic(node[0], node[1])
	recovered := time.Now()
	f.flows.await(f.t, 25)
	f.judge("node rebooted, with another LID", f.flows.since(f.t, recovered, f.clocks))
	f.flows.end(f.t)
}
