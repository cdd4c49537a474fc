// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/fabric/fabrictest"
)

// fleetBridge is one of three bridges of a fleet between the first segment and a subnet of the test's own.
const fleetBridge = `[bridge]
name = "mN"
[roce]
port      = "af_packet:cwN"
addresses = ["10.9.0.25N/24", "fd09::fN/64"]
mtu       = 4200
[ib]
port = "fabric:SUBNET"
[workers]
lcores     = [CPU]
memory_mib = 128
idle       = "interrupt"
[[host]]
ip   = "10.9.0.7"
ip6  = "fd09::7"
side = "ib"
gid  = "fe80::2:c903:0:7"
[[host]]
ip   = "10.9.0.8"
ip6  = "fd09::8"
side = "ib"
gid  = "fe80::2:c903:0:8"
[[group]]
ip = "GROUP4"
[[group]]
ip = "GROUP6"
[[service]]
port = UDADDY
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
[console]
listen = ["unix:CONSOLE"]
[fleet]
name = "kernel"
etcd = ["http://127.0.0.1:2379"]
`

// A kernelFleet is three bridges, as many as the others need to find that one has gone.
type kernelFleet struct {
	t       *testing.T
	rig     *Rig
	socket  string
	subnet  *fabric.Fabric
	members map[int]*process
	flows   []*fleetFlow
	node    *IBNode
	came    map[uint32][]uint32 // numbers of messages that came to the node, by the flows' first ones
	ending  chan struct{}       // closed when the node is to publish no more
	proof   *proof
}

// newKernelFleet starts the subnet, etcd and the bridges.
func newKernelFleet(t *testing.T, p *proof) *kernelFleet {
	r, _, _ := theRig(t)
	f := &kernelFleet{t: t, rig: r, socket: r.file("fleet.sock"), members: map[int]*process{}, came: map[uint32][]uint32{}, proof: p}
	subnet, err := fabric.New(fabric.Config{Socket: f.socket})
	if err != nil {
		t.Fatal(err)
	}
	f.subnet = subnet
	t.Cleanup(func() {
		if err := subnet.Close(); err != nil {
			t.Error(err)
		}
	})
	f.vote()
	for n := 1; n <= 3; n++ {
		line := fmt.Sprintf("ip link add cw%[1]d mtu %[2]d type veth peer name cw%[1]dp mtu %[2]d\nip link set cw%[1]dp master %[3]s up\nip link set cw%[1]d up", n, wireMTU, segment)
		if err := r.ns.run(line); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.ns.run(fmt.Sprintf("ip link del cw%d", n)) }) // the namespace may have ended
		f.start(n)
	}
	t.Cleanup(f.end)
	f.shares("a third each", 21, 1, 2, 3)
	if f.node, err = attachNode(f.socket, node7(fabric.RoleEcho)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.node.Close() })
	return f
}

// vote starts etcd.
func (f *kernelFleet) vote() {
	bin, err := bridgeProgram()
	if err != nil {
		f.t.Fatal(err)
	}
	file := f.rig.file("voter.toml")
	if err := os.WriteFile(file, []byte(strings.Replace(fleetVoter, "/tmp/etcd", f.rig.file("etcd"), 1)), 0o600); err != nil {
		f.t.Fatal(err)
	}
	voter, err := f.rig.ns.launch("etcd", f.rig.file("voter.log"), filepath.Join(filepath.Dir(bin), "causeway-etcd"), "-config", file)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = voter.stop(syscall.SIGTERM) }) // it has no more to say
}

// start starts a member.
func (f *kernelFleet) start(n int) {
	f.t.Helper()
	bin, err := bridgeProgram()
	if err != nil {
		f.t.Fatal(err)
	}
	text := strings.NewReplacer("mN", fmt.Sprint("m", n), "cwN", fmt.Sprint("cw", n), "25N", fmt.Sprint(250+n), "fN", fmt.Sprint("f", n), "SUBNET", f.socket, "CONSOLE", f.console(n),
		"CPU", fmt.Sprint(n%2), "GROUP4", groupV4, "GROUP6", groupV6, "UDADDY", fmt.Sprint(udaddyPort)).Replace(fleetBridge)
	name := fmt.Sprintf("m%d-%d", n, runs.Add(1))
	file := f.rig.file(name + ".toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if f.members[n], err = f.rig.ns.launch(name, f.rig.file(name+".log"), bin, "run", "-c", file); err != nil {
		f.t.Fatal(err)
	}
}

func (f *kernelFleet) console(n int) string { return f.rig.file(fmt.Sprintf("fleet-m%d.sock", n)) }

// end ends the members; each must have counted every packet.
func (f *kernelFleet) end() {
	for n, m := range f.members {
		if err := m.stop(syscall.SIGTERM); err != nil {
			f.t.Errorf("m%d: %v", n, err)
		}
		if err := conserved(m.output()); err != nil {
			f.t.Errorf("m%d: %v", n, err)
		}
		if f.t.Failed() {
			f.t.Logf("m%d logged:\n%s", n, lastLines(m.output()))
		}
	}
}

var hostSharesLine = regexp.MustCompile(`fleet_shares host_shares=(\d+)`)

// shares waits until these members have all host shares, at least so many each.
func (f *kernelFleet) shares(what string, least int, members ...int) {
	f.t.Helper()
	has := map[int]int{}
	for ctx := within(f.t, readyWithin); ; time.Sleep(pollEvery) {
		sum := 0
		for _, n := range members {
			has[n] = 0
			if all := hostSharesLine.FindAllStringSubmatch(f.members[n].output(), -1); all != nil {
				has[n], _ = strconv.Atoi(all[len(all)-1][1])
			}
			sum += has[n]
		}
		if sum == 64 && slices.Min(slices.Collect(maps.Values(has))) >= least {
			return
		}
		if ctx.Err() != nil {
			f.t.Fatalf("%s: the members have %v host shares", what, has)
		}
	}
}

// lossy reports whether shares have passed without an overlap, because this machine is slow.
func (f *kernelFleet) lossy() (times int) {
	for _, m := range f.members {
		times += strings.Count(m.output(), "fleet_no_overlap")
	}
	return times
}

func othersThan(n int) []int {
	return slices.DeleteFunc([]int{1, 2, 3}, func(m int) bool { return m == n })
}

// drained has a member be drained and resume.
func (f *kernelFleet) drained(n int) {
	f.weigh(n, "drain")
	f.shares("half each while one is drained", 32, othersThan(n)...)
	f.weigh(n, "resume")
	f.shares("a third each after the drain", 21, 1, 2, 3)
}

// weigh says fleet drain or fleet resume at a member's console.
func (f *kernelFleet) weigh(n int, word string) {
	f.t.Helper()
	bin, err := bridgeProgram()
	if err == nil {
		err = f.rig.ns.run(fmt.Sprintf("%s ctl -s %s fleet %s", bin, f.console(n), word))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// ended has a member be ended by a signal, and started again.
func (f *kernelFleet) ended(n int, signal syscall.Signal) {
	if err := f.members[n].stop(signal); (err == nil) != (signal == syscall.SIGTERM) {
		f.t.Errorf("m%d ended with %v", n, err)
	}
	f.shares("half each while one is gone", 32, othersThan(n)...)
	f.start(n)
	f.shares("a third each after it has come back", 21, 1, 2, 3)
}

// TestFleetHosts has a fleet of three bridges between kernel RoCE hosts and InfiniBand: messages both ways, unicast and to groups,
// while each bridge in turn is drained, ended and killed. What is planned loses nothing; hosts' neighbour entries and address
// handles stay as they are.
func TestFleetHosts(t *testing.T) {
	_, a, b := theRig(t)
	proof := proves(t, "a fleet of three bridges: each drained, ended and killed under unicast and group traffic of two hosts")
	f := newKernelFleet(t, proof)
	f.begin(a, b)
	addresses := []string{"10.9.0.7", "fd09::7"}
	known := [][]string{macsOf(t, a, addresses[:1]), macsOf(t, b, addresses[1:])}
	f.during("no fault", 0, func() { time.Sleep(time.Second) })
	for n := 1; n <= 3; n++ {
		f.during(fmt.Sprintf("m%d is drained and resumes", n), 0, func() { f.drained(n) })
		f.during(fmt.Sprintf("m%d ends and comes back", n), 0, func() { f.ended(n, syscall.SIGTERM) })
		f.during(fmt.Sprintf("m%d is killed and comes back", n), 3*150*time.Millisecond, func() { f.ended(n, syscall.SIGKILL) })
	}
	f.stop()
	f.udaddy(a, b)
	if now := [][]string{macsOf(t, a, addresses[:1]), macsOf(t, b, addresses[1:])}; fmt.Sprint(now) != fmt.Sprint(known) || !strings.HasPrefix(known[0][0], sharesOf("kernel")) {
		t.Errorf("the hosts have the node at %v, and had it at %v; a fleet's addresses begin with %s", now, known, sharesOf("kernel"))
	}
}

// udaddy has the example connect both ways: a host to a node by its own bridge, and the node to the host by each, whichever has the
// host.
func (f *kernelFleet) udaddy(a, b *Guest) {
	f.t.Helper()
	node, err := attachNode(f.socket, fabric.NodeConfig{Name: "node8", GUID: nodeGUID + 1})
	if err != nil {
		f.t.Fatal(err)
	}
	defer node.Close()
	caller := node.Exchanger(fabric.CMConfig{}, "10.9.0.8", "fd09::8")
	defer caller.CM.Close()
	caller.Anyone = true
	r := &udaddyRig{network: networks[0], a: a, b: b, nodes: []*fabrictest.Exchanger{caller}, proof: f.proof}
	for _, v6 := range []bool{false, true} {
		hosts := []Peer{r.host(a, v6), r.host(b, v6)}
		exchanges := r.serve(f.t, caller)
		for _, host := range hosts {
			r.together(f.t, calling(host, map[bool]string{false: "10.9.0.8", true: "fd09::8"}[v6]))
		}
		r.went(f.t, exchanges, len(hosts))
		for _, p := range f.subnet.Ports() {
			if strings.HasPrefix(p.Name, "m") {
				r.gid = p.GID
				r.toHost(f.t, hosts[0], caller)
			}
		}
	}
}

// sharesOf is how the MAC addresses of a fleet's host shares begin.
func sharesOf(fleet string) string {
	sum := sha256.Sum256([]byte(fleet))
	sum[0] = sum[0]&^3 | 2
	return net.HardwareAddr(sum[:5]).String()
}
