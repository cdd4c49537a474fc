// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The bridge's ends of the cables are b0 and b1, the host's h0 and h1. Only the kernel's bonding driver needs a kernel of its own:
// where a bond of the kernel is at the other end, h0 and h1 are joined with the NICs of a guest. Taps are the bridge's own
// interfaces, and so both ends are in one guest.
var (
	bondBridgeHere = GuestConfig{Name: "L", Container: true}
	bondBoth       = GuestConfig{Name: "L", MiB: 1280, NICs: []NIC{{Mute: true}}}
	bondHost       = GuestConfig{Name: "H", NICs: []NIC{{MTU: 4200, Mute: true}, {MTU: 4200, Mute: true}}}
)

// bondCable makes cable M.
const bondCable = `ip link add bM mtu 4200 type veth peer name hM mtu 4200
echo 1 >/proc/sys/net/ipv6/conf/bM/disable_ipv6
`

var bondCables = both(bondCable)

// both is a script for both members.
func both(script string) string {
	return strings.ReplaceAll(script, "M", "0") + strings.ReplaceAll(script, "M", "1")
}

// bondTaps waits for cables that the bridge makes itself, the kernel's ends of taps, and sets up.
const bondTaps = `for i in 0 1; do until ip link show h$i up 2>/dev/null | grep -q h$i; do sleep .1; done; done
for i in 0 1; do
	ip link set h$i down
done
`

// kernelBond is of h0 and h1.
const kernelBond = "ip link add bond0 type bond mode 802.3ad lacp_rate fast miimon 10 xmit_hash_policy layer3+4\n" +
	"for i in 0 1; do ip link set h$i master bond0; done\n"

const bondHostUp = "ip link set %[1]s mtu %[2]d up\nip address add 10.9.0.1/24 dev %[1]s\n"

const bondEndsUp = `for i in 0 1; do
	for end in h$i b$i n$i; do ip link set $end up 2>/dev/null || true; done
done
`

// switchOfHost forwards as soon as a link is up, as the edge port of a switch does.
const switchOfHost = "ip link add br0 address 02:00:00:00:0a:01 type bridge forward_delay 0\nfor i in 0 1; do ip link set h$i master br0; done\n"

// spliced prolongs cable M by the tap of a guest's NIC, nM. A bridge of two ports joins them, and lets LACPDUs pass.
const spliced = `ip link set hM master cM
for port in nM hM; do echo 4 >/sys/class/net/$port/brport/group_fwd_mask; done
`

const bondSplices = `for c in c0 c1; do
	ip link add $c type bridge forward_delay 0 mcast_snooping 0
	echo 1 >/proc/sys/net/ipv6/conf/$c/disable_ipv6
done
for i in 0 1; do ip link set n$i master c$i; ip link set c$i up; done
`

// bondNICs makes h0 and h1 of a guest's NICs.
const bondNICs = "for i in 0 1; do ip link set eth$i down; ip link set eth$i name h$i; tc qdisc add dev h$i clsact; done\n"

// bondCase is a kind of bond, and what is at its other end.
type bondCase struct {
	mode   string
	driver string // of the members
	member string // their interfaces' name without the number
	mtu    int
	host   string // the host's interface
	before string // the bridge starts
	after  string // it has begun to
	again  string // a cable is there again
	faults int    // so many of those below
}

var bondCases = []bondCase{
	{"lacp", "af_packet", "b", 4200, "bond0", bondCables + bondSplices + both(spliced), "", spliced, len(bondFaults)},
	{"active-backup", "af_packet", "b", 4200, "br0", bondCables + switchOfHost, "", "ip link set hM master br0\n", len(bondFaults)},
	{"lacp", "tap", "h", 1500, "bond0", "", bondTaps + kernelBond, "", 3},
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
	script  string        // while traffic passes; M is the member
	far     bool          // it is for the host, not for the bridge's guest; so is mend
	seconds int           // of traffic from its begin
	timer   time.Duration // after which LACP gives a member up
	most    time.Duration // that each flow may lose, beyond that, and as long as the cable was late to come down
	mend    string        // after it
	stays   bool          // until the next
	changes bool          // who carries frames changes, at the latest after most
	loses   bool          // at least one flow
}

const (
	shortTimeout = 3 * time.Second // of LACP: three LACPDUs

	dropAll  = "protocol all prio 1 flower action drop"
	dropLACP = "protocol 0x8809 prio 1 flower action drop"
)

// bondHands are what a fault's script uses. An end of a veth drops what it is given from when it goes down, and the other end
// loses its carrier when the kernel has waited for all who read its tables: on a busy machine that takes up to a second. The host's
// bonding driver counts LACP's 3 s as 30 rounds of its work, each of which a busy guest begins late. What is more than the usual 20 ms,
// or than 3 s, is told.
const bondHands = `wire() { true; }
hundredths() { read -r up rest </proc/uptime; echo ${up%.*}${up#*.}; }
took=0
timed() { usual=$1; shift; began=$(hundredths); "$@"; more=$(($(hundredths) - began - usual)); took=$((took + (more > 0 ? more : 0))); }
cut() { wire $1 off; timed 2 ip link set h$1 down; }
plug() { ip link set h$1 up; wire $1 on; }
remove() { wire $1 off; timed 2 ip link del b$1; }
given_up() { while [ $(grep -c 'port state: 63$' /proc/net/bonding/bond0) = 4 ]; do sleep .05; done; }
`

// wire is for the guest whose NICs are the other ends: QEMU's monitor takes their carrier away, and gives it back.
const wire = `wire() { echo "set_link nic$1 $2" >/host/monitor.in; }
`

// bondFaults, in order, of one member and then of the other, or of the one that carries all frames; each begins with what the one
// before has left. The bounds of what is lost are those that are promised: 100 ms when a carrier is cut, after 3 s when a direction is,
// because LACP's short timeout is three; nothing when a link comes back.
var bondFaults = []bondFault{
	{name: "no fault", script: "true", seconds: 1},
	{name: "carrier cut", script: "cut M", seconds: 1, most: 100 * time.Millisecond, stays: true},
	{name: "its return", script: "plug M", seconds: 3},
	{name: "flaps at 10 Hz", script: "for i in 1 2 3 4 5 6 7 8 9 10; do cut M; sleep .05; plug M; sleep .05; done",
		seconds: 1, most: 250 * time.Millisecond},
	{name: "LACPDUs lost", only: "lacp", far: true, script: "tc filter add dev hM egress " + dropLACP + "; tc filter add dev hM ingress " + dropLACP, seconds: 4,
		timer: shortTimeout, most: 100 * time.Millisecond, changes: true, mend: "tc filter del dev hM egress; tc filter del dev hM ingress"},
	{name: "towards the bridge cut", only: "lacp", far: true, script: "tc filter add dev hM egress " + dropAll, seconds: 4, timer: shortTimeout, most: 100 * time.Millisecond,
		changes: true, loses: true, mend: "tc filter del dev hM egress"},
	{name: "towards the host cut", only: "lacp", far: true, script: "tc filter add dev hM ingress " + dropAll + "; timed 300 given_up", seconds: 4, timer: shortTimeout, most: 100 * time.Millisecond,
		changes: true, loses: true, mend: "tc filter del dev hM ingress"},
	{name: "interface deleted", script: "remove M", seconds: 1, most: 100 * time.Millisecond, stays: true},
	{name: "made anew", script: bondCable + "AGAIN\nplug M", seconds: 4},
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
	b := &bondRun{bondCase: *c, t: t, hands: bondHands,
		proof: proves(t, fmt.Sprintf("Causeway on a bond of two cables, %s by %s, with %s at the other end", c.mode, c.driver, c.host))}
	b.boot(r)
	b.run()
}

// bondRun is one bridge on a bond.
type bondRun struct {
	bondCase
	t      *testing.T
	guest  *BridgeGuest
	far    *BridgeGuest // the other end: the same, or another
	hands  string
	bridge *GuestCauseway
	proof  *proof
	slow   float64 // as the host was when it was last asked
	broken bool    // what a fault has left is not as it is to be
}

// boot boots the guests.
func (b *bondRun) boot(r *Rig) {
	begin := func(c GuestConfig) *BridgeGuest {
		g, err := r.BootBridgeGuest(b.t.Context(), c)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(g.Stop)
		return g
	}
	modules := "modprobe bonding max_bonds=0"
	switch {
	case b.driver == "tap":
		b.guest = begin(bondBoth)
		b.far = b.guest
		modules = "modprobe tun && " + modules
	case b.host == "bond0":
		b.guest = begin(bondBridgeHere)
		b.far = begin(b.monitored())
		b.hands += wire
		for i := range bondHost.NICs {
			if err := r.ns.run(fmt.Sprintf("ip link set %s nomaster netns %d name n%d", tap(bondHost.Name, i), b.guest.machine.pid(), i)); err != nil {
				b.t.Fatal(err)
			}
		}
	default:
		b.guest = begin(bondBridgeHere)
		b.far = b.guest
		return
	}
	if !b.far.emulated { // a kernel without modules
		return
	}
	if err := b.far.Must(within(b.t, stepTime), modules); err != nil {
		b.t.Fatal(err)
	}
}

// monitored is the host with a monitor that the bridge's guest can write to.
func (b *bondRun) monitored() GuestConfig {
	monitor, c := filepath.Join(b.guest.share, "monitor"), bondHost
	if err := errors.Join(syscall.Mkfifo(monitor+".in", 0o600), os.Symlink("/dev/null", monitor+".out")); err != nil {
		b.t.Fatal(err)
	}
	c.QEMU = []string{"-chardev", "pipe,id=monitor,path=" + monitor, "-mon", "chardev=monitor",
		"-global", "virtio-net-pci.speed=10000", "-global", "virtio-net-pci.duplex=full"} // or it does not speak LACP
	return c
}

func (b *bondRun) run() {
	var err error
	ctx := within(b.t, stepTime)
	up := fmt.Sprintf(bondHostUp, b.host, b.mtu) + bondEndsUp
	near := up
	if b.far != b.guest {
		err, near = b.far.Must(ctx, "set -e\n"+bondNICs+kernelBond+up), bondEndsUp
	}
	if err == nil && b.before != "" {
		err = b.guest.Must(ctx, "set -e\n"+b.before+near)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if b.bridge, err = b.guest.StartBridge(ctx, b.bondConfig(), bondTopology); err != nil {
		b.t.Fatal(err)
	}
	if b.after != "" {
		if err := b.guest.Must(ctx, "set -e\n"+b.after+near); err != nil {
			b.t.Fatal(errors.Join(err, b.bridge.Kill(within(b.t, stepTime))), lastLines(b.bridge.Log()))
		}
	}
	if b.far != b.guest {
		_, err = b.far.Put(ctx, filepath.Join(b.guest.share, "causeway"))
	}
	if err == nil {
		err = b.wait() // it is ready when its nodes are there, too
	}
	if err != nil {
		b.t.Fatal(errors.Join(err, b.bridge.Kill(within(b.t, stepTime))))
	}
	b.traffic(b.t, 0, b.guest, "true") // makes proxy QPs, while later messages may overtake the first
	time.Sleep(3 * time.Second)        // no traffic, and workers sleep
	for _, m := range []string{"0", "1"} {
		stays := false
		for _, f := range bondFaults[:b.faults] {
			if b.broken || f.only != "" && f.only != b.mode {
				continue
			}
			if b.mode == "active-backup" && !stays {
				m = b.active()
			}
			b.t.Run(f.name+" "+m, func(t *testing.T) { b.suffer(t, f, m) })
			stays = f.stays
		}
	}
	said := b.state()
	for _, want := range []string{b.member + "0", b.member + "1", "The mode is " + b.mode} {
		if !strings.Contains(said, want) {
			b.t.Errorf("show bond has no %q", want)
		}
	}
	if err := b.bridge.Stop(within(b.t, stepTime)); err != nil {
		b.t.Error(err)
	}
	if b.t.Failed() {
		b.t.Logf("%s\nand the bridge logged\n%s", said, lastLines(b.bridge.Log()))
	}
}

// wait waits until all members are as they are to be without faults, for the host, too: then each flow has its member.
func (b *bondRun) wait() error {
	metrics := "wget -q -O - http://" + metricsListen + "/metrics"
	ctx, cond := within(b.t, stepTime), fmt.Sprintf("[ $(%s | grep -c '^causeway_bond_member_failed{.*} 0$') = 2 ]", metrics)
	if b.mode == "lacp" {
		cond += fmt.Sprintf(" && [ $(%s | grep -c '^causeway_bond_member_carries{.*} 1$') = 2 ]", metrics)
	}
	err := b.guest.Until(ctx, cond)
	if err == nil && b.mode == "lacp" {
		err = b.far.Until(ctx, fmt.Sprintf("[ $(grep -c 'port state: 63$' /proc/net/bonding/%s) = 4 ]", b.host))
	}
	if err != nil {
		return fmt.Errorf("%w; %s\nthe bridge logged\n%s", err, b.state(), lastLines(b.bridge.Log()))
	}
	return nil
}

// active is the member that carries all frames.
func (b *bondRun) active() string {
	m, err := b.bridge.Metrics(within(b.t, stepTime))
	if err != nil {
		b.t.Fatal(err)
	}
	if m[fmt.Sprintf("causeway_bond_member_carries{member=%q}", b.member+"1")] == 1 {
		return "1"
	}
	return "0"
}

// state is what both ends say of the bond.
func (b *bondRun) state() string {
	ctx := within(b.t, stepTime)
	near, _, _ := b.guest.Run(ctx, "/tmp/causeway ctl -s /tmp/console.sock show bond")
	far, _, _ := b.far.Run(ctx, "ip link; cat /proc/net/bonding/* 2>/dev/null")
	return "show bond said\n" + near + "\nthe host\n" + far
}
