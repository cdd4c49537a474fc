// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bondHost is a guest for both ends of the cables, so that one clock measures: the bridge's are b0 and b1, the host's h0
// and h1.
var bondHost = GuestConfig{Name: "L", MiB: 1280, NICs: []NIC{{Mute: true}}}

// bondCable makes cable M. Packet sockets see frames before the kernel's classifier does, so what a fault drops it drops at
// the host's end.
const bondCable = `ip link add bM mtu 4200 type veth peer name hM mtu 4200
echo 1 >/proc/sys/net/ipv6/conf/bM/disable_ipv6
tc qdisc add dev hM clsact
`

// bondCables makes both.
var bondCables = strings.ReplaceAll(bondCable, "M", "0") + strings.ReplaceAll(bondCable, "M", "1")

// bondTaps waits for cables that the bridge makes itself: the kernel's ends of taps.
const bondTaps = `until ip link show h1 >/dev/null 2>&1; do sleep .1; done
for i in 0 1; do
	ip link set h$i down
done
`

const kernelBond = "ip link add bond0 type bond mode 802.3ad lacp_rate fast miimon 10 xmit_hash_policy layer3+4\n" +
	"for i in 0 1; do ip link set h$i master bond0; done\n"

const bondHostUp = `ip link set %[1]s mtu %[2]d up
ip address add 10.9.0.1/24 dev %[1]s
for i in 0 1; do ip link set h$i up; ip link set b$i up 2>/dev/null || true; done
`

// bondCase is a kind of bond, and what is at its other end.
type bondCase struct {
	mode   string
	driver string // of the members
	member string // their interfaces' name without the number
	mtu    int
	host   string // the host's interface
	before string // the bridge starts
	after  string // it has begun to
	faults int    // so many of those below
}

var bondCases = []bondCase{
	{"lacp", "af_packet", "b", 4200, "bond0", bondCables + kernelBond, "", len(bondFaults)},
	{"active-backup", "af_packet", "b", 4200, "br0", bondCables + "ip link add br0 address 02:00:00:00:0a:01 type bridge\nfor i in 0 1; do ip link set h$i master br0; done\n", "", len(bondFaults)},
	{"lacp", "tap", "h", 1500, "bond0", "", bondTaps + kernelBond, 3}, // whose interfaces are the bridge's own
}

const bondBridge = `[roce]
port = "bond:%[1]s,%[2]s:%[3]s0,%[2]s:%[3]s1"
addresses = ["10.9.0.254/24"]
mtu = %[4]d
[ib]
port = "fabric:FABRIC"
[workers]
lcores = [0]
idle = "interrupt"
memory_mib = 128
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::2:c903:0:7"
[[host]]
ip = "10.9.0.8"
side = "ib"
gid = "fe80::2:c903:0:8"
[[host]]
ip = "10.9.0.9"
side = "ib"
gid = "fe80::2:c903:0:9"
%[5]s
[metrics]
listen = "` + metricsListen + `"
[console]
listen = ["unix:/tmp/console.sock"]
`

const bondTopology = "[fabric]\nsocket = \"/tmp/bond.sock\"\n"

// bondFlows are so many groups each way. Each fault befalls either member, and so each flow.
const (
	bondFlows = 2
	bondRate  = 100 // messages a second of each
	// bondStart is how long senders may take until all of them send: a guest is slow.
	bondStart = 4
)

// bondGroup is a group of one way: 0 to InfiniBand, 1 to RoCE.
func bondGroup(way, i int) string { return fmt.Sprintf("239.1.2.%d", way*bondFlows+i+1) }

// bondConfig is a bridge's configuration.
func (c *bondCase) bondConfig() string {
	var groups strings.Builder
	for i := range 2 * bondFlows {
		fmt.Fprintf(&groups, "[[group]]\nip = %q\nmgid = \"rdmacm\"\n", bondGroup(0, i))
	}
	return fmt.Sprintf(bondBridge, c.mode, c.driver, c.member, c.mtu, groups.String())
}

// A bondFault is what happens to the cables while traffic passes.
type bondFault struct {
	name    string
	only    string        // the mode that it is for; "": both
	script  string        // in the guest, while traffic passes; M is the member, HOST the host's interface
	seconds int           // of traffic
	most    time.Duration // that each flow may lose
	mend    string        // after it
	stays   bool          // until the next
	changes bool          // who carries frames changes, at the latest after most
}

const (
	dropAll  = "protocol all prio 1 flower action drop"
	dropLACP = "protocol 0x8809 prio 1 flower action drop"
)

// bondFaults, in order, of one member and then of the other; each begins with what the one before has left. The bounds of what is lost are those that are
// promised: 100 ms when a carrier is cut; 3.1 s when a direction is, because LACP's short timeout is three; nothing when a
// link comes back.
var bondFaults = []bondFault{
	{name: "no fault", script: "true", seconds: 0},
	{name: "carrier cut", script: "ip link set hM down", seconds: 1, most: 100 * time.Millisecond, stays: true},
	{name: "its return", script: "ip link set hM up", seconds: 3},
	{name: "flaps at 10 Hz", script: "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do ip link set hM down; sleep .05; ip link set hM up; sleep .05; done",
		seconds: 2, most: 500 * time.Millisecond},
	{name: "LACPDUs lost", only: "lacp", script: "tc filter add dev hM egress " + dropLACP + "; tc filter add dev hM ingress " + dropLACP, seconds: 4,
		most: 3100 * time.Millisecond, changes: true, mend: "tc filter del dev hM egress; tc filter del dev hM ingress"},
	{name: "towards the bridge cut", only: "lacp", script: "tc filter add dev hM egress " + dropAll, seconds: 4, most: 3100 * time.Millisecond,
		changes: true, mend: "tc filter del dev hM egress"},
	{name: "towards the host cut", only: "lacp", script: "tc filter add dev hM ingress " + dropAll, seconds: 4, most: 3100 * time.Millisecond,
		changes: true, mend: "tc filter del dev hM ingress"},
	{name: "interface deleted", script: "ip link del bM", seconds: 1, most: 100 * time.Millisecond, stays: true},
	{name: "made anew", script: bondCable + "ip link set hM master HOST\nip link set hM up", seconds: 4},
}

// The bridge on two cables as one port, with the kernel's bonding driver at the other end, or a Linux bridge, which has to
// learn where it is.
func TestBondLACP(t *testing.T)         { onBond(t, &bondCases[0]) }
func TestBondActiveBackup(t *testing.T) { onBond(t, &bondCases[1]) }
func TestBondTaps(t *testing.T)         { onBond(t, &bondCases[2]) }

// onBond has numbered traffic pass a bond both ways while things happen to its cables.
func onBond(t *testing.T, c *bondCase) {
	t.Helper()
	r, _, _ := theRig(t)
	b := &bondRun{bondCase: *c, t: t, proof: proves(t, fmt.Sprintf("Causeway on a bond of two cables, %s by %s, with %s at the other end", c.mode, c.driver, c.host))}
	var err error
	if b.guest, err = r.BootBridgeGuest(t.Context(), bondHost); err != nil {
		t.Fatal(err)
	}
	defer b.guest.Stop()
	if err := b.guest.Must(within(t, stepTime), "modprobe tun && modprobe bonding max_bonds=0"); err != nil {
		t.Fatal(err)
	}
	b.run()
}

// bondRun is one bridge on a bond.
type bondRun struct {
	bondCase
	t      *testing.T
	guest  *BridgeGuest
	bridge *GuestCauseway
	proof  *proof
	broken bool // what a fault has left is not as it is to be
}

func (b *bondRun) run() {
	var err error
	ctx := within(b.t, stepTime)
	up := fmt.Sprintf(bondHostUp, b.host, b.mtu)
	if b.before != "" {
		if err := b.guest.Must(ctx, "set -e\n"+b.before+up); err != nil {
			b.t.Fatal(err)
		}
	}
	if b.bridge, err = b.guest.StartBridge(ctx, b.bondConfig(), bondTopology); err != nil {
		b.t.Fatal(err)
	}
	if b.after != "" {
		if err := b.guest.Must(ctx, "set -e\n"+b.after+up); err != nil {
			b.t.Fatal(errors.Join(err, b.bridge.Kill(within(b.t, stepTime))), lastLines(b.bridge.Log()))
		}
	}
	if err := b.wait(); err != nil { // it is ready when its nodes are there, too
		b.t.Fatal(errors.Join(err, b.bridge.Kill(within(b.t, stepTime))))
	}
	b.traffic(within(b.t, stepTime), b.t, 0, "true") // makes proxy QPs, while later messages may overtake the first
	time.Sleep(10 * time.Second)                     // no traffic, and workers sleep
	for _, m := range []string{"0", "1"} {
		for _, f := range bondFaults[:b.faults] {
			if !b.broken && (f.only == "" || f.only == b.mode) {
				b.t.Run(f.name+" "+m, func(t *testing.T) { b.suffer(t, f, m) })
			}
		}
	}
	said, _, _ := b.guest.Run(within(b.t, stepTime), "/tmp/causeway ctl -s /tmp/console.sock show bond")
	for _, want := range []string{b.member + "0", b.member + "1", "The mode is " + b.mode} {
		if !strings.Contains(said, want) {
			b.t.Errorf("show bond has no %q", want)
		}
	}
	if err := b.bridge.Stop(within(b.t, stepTime)); err != nil {
		b.t.Error(err)
	}
	if b.t.Failed() {
		b.t.Logf("show bond said\n%s\nand the bridge logged\n%s", said, lastLines(b.bridge.Log()))
	}
}

// wait waits until all members are as they are to be without faults.
func (b *bondRun) wait() error {
	want := fmt.Sprintf("causeway_bond_member_failed{member=\"%[1]s0\"} 0 causeway_bond_member_failed{member=\"%[1]s1\"} 0", b.member)
	cond := fmt.Sprintf(`[ "$(wget -q -O - http://%s/metrics | grep ^causeway_bond_member_failed | tr '\n' ' ')" = '%s ' ]`, metricsListen, want)
	if err := b.guest.Until(within(b.t, stepTime), cond); err != nil {
		return fmt.Errorf("%w; the bridge logged\n%s", err, lastLines(b.bridge.Log()))
	}
	return nil
}

// streams is what a listener reports of each stream.
type streams struct {
	Sum struct {
		Unique, Lost, Before, Duplicates, Reordered, Old, Corrupted uint64
	} `json:"sum"`
	Streams []struct {
		To                   string
		Unique, Lost, Before uint64
	} `json:"streams"`
}

// suffer has traffic pass both ways while a fault happens, and mends it.
func (b *bondRun) suffer(t *testing.T, f bondFault, member string) {
	ctx := within(t, time.Duration(f.seconds)*time.Second+stepTime)
	at := strings.NewReplacer("hM", "h"+member, "bM", "b"+member, "HOST", b.host)
	slow := b.guest.slowness(ctx)
	before := b.metrics(ctx, t)
	reports := b.traffic(ctx, t, f.seconds, at.Replace(f.script))
	after := b.metrics(ctx, t)
	err := b.guest.Must(ctx, "true\n"+at.Replace(f.mend))
	if err == nil && !f.stays {
		err = b.wait()
	}
	if err != nil {
		b.broken = true
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(countedBetween(before, after))
		}
	}()
	name := fmt.Sprintf("causeway_bond_member_changes_total{member=%q}", b.member+member)
	changes := after[name] - before[name]
	if f.changes && changes == 0 {
		t.Errorf("%s%s carried frames all the time", b.member, member)
	}
	bound := stretched(t, f.most, b.guest.Guest, slow)
	most := uint64(bound.Seconds() * bondRate)
	for i, way := range []string{"to InfiniBand", "to RoCE"} {
		s := reports[i]
		worst := uint64(0)
		for _, x := range s.Streams {
			lost := uint64((bondStart+f.seconds)*bondRate) - x.Unique
			if worst = max(worst, lost); lost > most {
				t.Errorf("%s: %s lost %d messages, %d ms; at most %v are allowed", way, x.To, lost, lost*1000/bondRate, bound)
			}
		}
		if len(s.Streams) != bondFlows || s.Sum.Duplicates+s.Sum.Reordered+s.Sum.Old+s.Sum.Corrupted != 0 {
			t.Errorf("%s: %d streams, of %d; %+v", way, len(s.Streams), bondFlows, s.Sum)
		}
		b.proof.add(int(s.Sum.Unique))
		b.proof.measured("%s %s: %s %s, %s: %d ms lost of %v, %d changes", b.mode, b.driver, f.name, member, way, worst*1000/bondRate,
			bound.Round(time.Millisecond), changes)
	}
}

// countedBetween lists what was counted, so that a loss has a place.
func countedBetween(before, after Metrics) string {
	var all []string
	for name, n := range after {
		if n != before[name] {
			all = append(all, fmt.Sprintf("%s: %d", name, n-before[name]))
		}
	}
	slices.Sort(all)
	return "counted meanwhile:\n" + strings.Join(all, "\n")
}

// traffic sends to all groups from both ends, and returns what the node and the host received. The fault begins when all
// of them send.
func (b *bondRun) traffic(ctx context.Context, t *testing.T, seconds int, script string) (reports [2]streams) {
	t.Helper()
	node, host := "-on fabric:/tmp/bond.sock -guid 0x0002c9030000000%d", "-on packet:"+b.host
	var lines [2]func() (string, int, error)
	for i, on := range []string{fmt.Sprintf(node, 7), host} {
		listener, err := b.guest.Start(fmt.Sprintf("echo $$ >/tmp/listener%d; exec /tmp/causeway listen %s -json -group %s -group %s", i, on, bondGroup(i, 0), bondGroup(i, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listener.AwaitText(ctx, `"groups"`); err != nil {
			t.Fatalf("%v: %s", err, listener.Output())
		}
		lines[i] = func() (string, int, error) { return listener.Wait(ctx) }
	}
	send := fmt.Sprintf(" -json -size 64 -rate %d -count %d", bondRate, bondRate*(bondStart+seconds))
	var all strings.Builder
	all.WriteString("onOne='taskset 2 /tmp/causeway'\n") // a veth has a queue for each CPU: who moves to another overtakes himself
	for i := range bondFlows {
		fmt.Fprintf(&all, "$onOne send %s -to %s -own-qpn %d%s &\n", host, bondGroup(0, i), 0x100+i, send)
		fmt.Fprintf(&all, "$onOne send %s -to %s%s &\n", fmt.Sprintf(node, 8+i), bondGroup(1, i), send)
	}
	if out, exit, err := b.guest.Run(ctx, all.String()+fmt.Sprintf("sleep %d\n(set -e; ", bondStart)+script+")\n[ $? = 0 ] || exit 9\nwait; sleep .3; kill -TERM $(cat /tmp/listener0 /tmp/listener1)"); err != nil || exit != 0 {
		t.Fatalf("exit code %d, %v: %s", exit, err, lastLines(out))
	}
	for i, wait := range lines {
		out, exit, err := wait()
		text := strings.Split(strings.TrimSpace(out), "\n")
		if err != nil || exit != 0 || json.Unmarshal([]byte(text[len(text)-1]), &reports[i]) != nil {
			t.Fatalf("a listener: exit code %d, %v: %s", exit, err, lastLines(out))
		}
	}
	return reports
}

// metrics are the bridge's, the LACPDUs that its members received, and the kernel's counters of all interfaces.
func (b *bondRun) metrics(ctx context.Context, t *testing.T) Metrics {
	t.Helper()
	m, err := b.bridge.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const lacp = ` | awk '/^lacp:/ { lacp = 1 } lacp && $1 ~ /[01]$/ { print "lacp " $1 ":" $(NF-2) }'`
	said, _, err := b.guest.Run(ctx, "cd /sys/class/net; grep . */statistics/[rt]x_*; /tmp/causeway ctl -s /tmp/console.sock show bond"+lacp)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(said) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			m["kernel "+name] = n
		}
	}
	return m
}
