// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"causeway/app/fleettest"
	"causeway/app/segment"
	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/shards"
	"causeway/ibside/fabric"
)

// fleetHosts are on RoCE, each of another shard.
const fleetHosts = 4

// fleetFile is a member, with its number N.
const fleetFile = `[bridge]
name = "mN"
[roce]
port = "af_packet:port"
addresses = ["10.9.0.ADDRESS/24"]
mtu = 4200
[ib]
port = "fabric:SOCKET"
[workers]
lcores = [CPU]
memory_mib = 128
idle = "interrupt"
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.70"
side = "ib"
gid = "fe80::70"
GROUPS
[fleet]
name = "test"
etcd = ["http://10.99.0.254:2370", "http://10.99.0.254:2371", "http://10.99.0.254:2372"]
[console]
listen = ["unix:console.sock"]
[log]
format = "json"
`

// A fleet is bridges, and a host on RoCE for each stream, with a subnet of the test's own.
type bridgeFleet struct {
	t       *testing.T
	segment place
	hosts   [fleetHosts]place
	machine map[int]place // of members
	socket  string
	subnet  *fabric.Fabric
	capture *fleettest.Capture
	etcd    [3]voter
	noDisks string // why etcd's servers have no disks of their own; "": they have
	members map[int]*program
	files   map[int]string
	build   string        // the program of members that are started; "": this one
	keys    string        // lines that members' [fleet] has besides
	behind  time.Duration // of what has left members, a fault may lose as much now
	gone    int           // assignments that etcd had, and has no more
	rate    time.Duration // messages a second of each stream
	late    time.Duration // what a fault took to happen, in which it may lose, too
	traffic *fleetTraffic // nil: none has begun
}

// voter is a server of etcd.
type voter struct {
	dir     string
	program *program
}

// toIB is the group that all hosts send to; toRoCE those of the node, which are of several shards.
const toIB = "239.1.2.1"

var toRoCE = []string{"239.1.3.1", "239.1.3.2", "239.1.3.3", "239.1.3.4", "239.1.3.5", "239.1.3.6"}

// newFleet makes machines for so many members, a segment and a subnet between them, hosts, and etcd's servers.
func newFleet(t *testing.T, members int) *bridgeFleet {
	t.Helper()
	needNamespaces(t)
	f := &bridgeFleet{t: t, segment: newPlaceWith(t, "-m", "true"), socket: filepath.Join(t.TempDir(), "subnet.sock"), machine: map[int]place{}, members: map[int]*program{}, files: map[int]string{}, keys: "lease_ms = 1000\n", rate: 40}
	if os.Getenv(figuresFile) != "" {
		f.rate = 100 // as many as figures are to be exact; else few enough for a slow machine, which fourteen streams at 100 alone keep busy
	}
	t.Cleanup(f.explain)
	f.subnet, f.capture = fleettest.NewSubnet(t, f.socket, nil)
	for _, line := range []string{
		"ip link set lo up", "ip link add br0 type bridge mcast_snooping 0 ageing_time 500", "ip link set br0 up", "ip link add br1 type bridge mcast_snooping 0", "ip addr add 10.99.0.254/24 dev br1", "ip link set br1 up",
	} {
		f.segment.do(t, line)
	}
	for n := range members {
		f.connect(n + 1)
	}
	for i := range f.hosts {
		f.hosts[i] = newPlace(t)
		f.segment.do(t, fmt.Sprintf("ip link add x%[1]d mtu 4200 type veth peer name h0 address 02:00:00:00:00:0%[1]d mtu 4200 netns %[2]s", i, f.hosts[i][2]))
		f.segment.do(t, fmt.Sprintf("ip link set x%d master br0 up", i))
		f.hosts[i].do(t, fmt.Sprintf("ip addr add 10.9.0.%d/24 dev h0", i+1))
		f.hosts[i].do(t, "ip link set h0 up")
		f.captured(fmt.Sprint("x", i), 0)
	}
	for n := range f.etcd {
		f.vote(n, f.disk(n))
	}
	return f
}

// vote starts one of etcd's three servers, or starts it again. Electing takes them as long as docs/etcd.md has it.
func (f *bridgeFleet) vote(n int, dir string) {
	peers, clients := "http://10.99.0.254:238", "http://10.99.0.254:237"
	var all []string
	for i := range f.etcd {
		all = append(all, fmt.Sprintf("e%d=%s%d", i, peers, i))
	}
	peer, client := fmt.Sprint(peers, n), fmt.Sprint(clients, n)
	words := etcdtest.Command(fmt.Sprint("e", n), dir, client, peer, strings.Join(all, ","))
	f.etcd[n] = voter{dir, f.program(f.segment, append(words, etcdtest.Prompt...)...)}
}

// voters signals all servers of etcd.
func (f *bridgeFleet) voters(s syscall.Signal) {
	for _, v := range f.etcd {
		signalTo(f.t, v.program, s)
	}
}

// connect makes a member's machine, with a cable to the segment and another to etcd's network.
func (f *bridgeFleet) connect(n int) {
	f.t.Helper()
	m := newPlace(f.t)
	f.machine[n] = m
	for _, line := range []string{
		"ip link add sN mtu 4200 type veth peer name port mtu 4200 netns PID", "ip link set sN master br0 up", "ip link add eN type veth peer name etcd netns PID", "ip link set eN master br1 up",
	} {
		f.segment.do(f.t, strings.NewReplacer("N", fmt.Sprint(n), "PID", m[2]).Replace(line))
	}
	f.captured(fmt.Sprint("s", n), n)
	for _, line := range []string{fmt.Sprintf("ip addr add 10.99.0.%d/24 dev etcd", n), "ip link set etcd up", "ip link set port up"} {
		m.do(f.t, line)
	}
	for end := time.Now().Add(within); !strings.Contains(m.do(f.t, "ip -o link show port"), "state UP"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatal("a cable does not come up")
		}
	}
}

// captured begins to capture at an interface of the segment: a member's, or with 0 a host's.
func (f *bridgeFleet) captured(port string, member int) {
	f.t.Helper()
	f.capture.Ethernet(f.within(f.segment), port, member)
}

// within runs something in the network namespace of a place.
func (f *bridgeFleet) within(p place) func(func() error) error {
	return func(do func() error) error {
		pid, err := strconv.Atoi(p[2])
		if err != nil {
			return err
		}
		ns, err := netns.GetFromPid(pid)
		if err != nil {
			return err
		}
		defer ns.Close()
		return segment.In(ns, do)
	}
}

// program starts a command at a place.
func (f *bridgeFleet) program(at place, words ...string) *program {
	f.t.Helper()
	all := append(at[1:len(at):len(at)], words...)
	return start(f.t, exec.Command(at[0], all...))
}

// start starts a member.
func (f *bridgeFleet) start(n int) {
	f.t.Helper()
	var groups strings.Builder
	for _, g := range append([]string{toIB}, toRoCE...) {
		fmt.Fprintf(&groups, "[[group]]\nip = %q\n", g)
	}
	for i := range toRoCE {
		fmt.Fprintf(&groups, "[[host]]\nip = \"10.9.0.8%d\"\nside = \"ib\"\ngid = \"fe80::8%d\"\n", i, i)
	}
	dir := f.t.TempDir()
	text := strings.NewReplacer("console.sock", filepath.Join(dir, "console.sock"), "mN", fmt.Sprint("m", n), "ADDRESS", fmt.Sprint(100+n), "SOCKET", f.socket,
		"GROUPS", groups.String(), "CPU", fmt.Sprint(n%2), "[fleet]\n", "[fleet]\n"+f.keys).Replace(fleetFile)
	f.files[n] = filepath.Join(dir, "causeway.toml")
	if err := os.WriteFile(f.files[n], []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.capture.Started(n)
	f.members[n] = f.program(f.machine[n], cmp.Or(f.build, os.Args[0]), "run", "-c", f.files[n])
}

// configure changes a member's policy while it runs.
func (f *bridgeFleet) configure(n int, from, to string) {
	f.t.Helper()
	text, err := os.ReadFile(f.files[n])
	if err == nil {
		err = os.WriteFile(f.files[n], []byte(strings.Replace(string(text), fmt.Sprintf("allow = [%q]", from), fmt.Sprintf("allow = [%q]", to), 1)), 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.ctl(n, "reload")
}

func (f *bridgeFleet) console(n int) string {
	return filepath.Join(filepath.Dir(f.files[n]), "console.sock")
}

// ctl says a command to a member, and returns its answer.
func (f *bridgeFleet) ctl(n int, command ...string) string {
	f.t.Helper()
	code, says, errs := try(append([]string{"ctl", "-s", f.console(n)}, command...)...)
	if code != exitOK {
		f.t.Fatalf("%v: %d: %s%s", command, code, says, errs)
	}
	return says
}

// hostShards returns how many a member last said it has.
func hostShards(p *program) (n int) {
	text := p.stderr.String()
	if i := strings.LastIndex(text, `"fleet_shards"`); i >= 0 {
		_, after, _ := strings.Cut(text[i:], `"host_shards":`)
		_, _ = fmt.Sscan(after, &n) // a line that is being written has it later
	}
	return n
}

// shard waits until these members have all host shards, each so many.
func (f *bridgeFleet) shard(what string, least int, members ...int) {
	f.t.Helper()
	f.members[members[0]].await(what, func() bool {
		sum := 0
		for _, n := range members {
			has := hostShards(f.members[n])
			if sum += has; has < least {
				return false
			}
		}
		return sum == shards.Hosts
	})
}

// differ has a member have another configuration for a time.
func (f *bridgeFleet) differ() {
	f.during("one has another configuration", 0, func() {
		f.configure(3, "10.9.0.0/24", "10.8.0.0/15")
		f.shard("half each while one differs", shards.Hosts/2, 1, 2)
		if says := f.ctl(3, "show", "fleet"); !strings.Contains(says, `its configuration is not that of m1, m2: [policy] allow is ["10.8.0.0/15"] here, and ["10.9.0.0/24"] there`) {
			f.t.Errorf("m3 says: %s", says)
		}
		f.configure(3, "10.8.0.0/15", "10.9.0.0/24")
		f.shard("a third each as they agree again", shards.Hosts/3, 1, 2, 3)
	})
}

// dies has a member be killed, die with its machine, be said to be dead, and be stopped and go on.
func (f *bridgeFleet) dies(lease, moment time.Duration) {
	f.during("one is killed", moment, func() {
		signalTo(f.t, f.members[1], syscall.SIGKILL)
		f.shard("half each after the kill", shards.Hosts/2, 2, 3)
		f.members[1].wait()
	})
	f.back(1)
	f.during("one is killed with its witness, as a machine dies", lease+moment, func() {
		f.killBoth(2)
		f.shard("half each after the machine", shards.Hosts/2, 1, 3)
	})
	f.back(2)
	f.during("one is killed with its witness, and somebody says so", 2*moment, func() {
		f.killBoth(3)
		resign := f.program(f.machine[3], os.Args[0], "fleet", "resign", "-c", f.files[3])
		if code := resign.wait(); code != exitOK || !strings.Contains(resign.stdout.String(), "m3 has ended") {
			f.t.Errorf("resign: %d: %v%v", code, &resign.stdout, &resign.stderr)
		}
		f.shard("half each after that", shards.Hosts/2, 1, 2)
	})
	f.back(3)
	f.during("one is stopped and goes on", lease+moment, func() {
		signalTo(f.t, f.members[2], syscall.SIGSTOP)
		f.shard("half each after the stop", shards.Hosts/2, 1, 3)
		signalTo(f.t, f.members[2], syscall.SIGCONT)
		f.shard("a third each after the stop", shards.Hosts/3, 1, 2, 3)
	})
}

// back starts a member again.
func (f *bridgeFleet) back(n int) {
	f.during("it is back", 0, func() {
		f.start(n)
		f.shard("a third each again", shards.Hosts/3, 1, 2, 3)
	})
}

// explain shows what members have written, of a test that has failed.
func (f *bridgeFleet) explain() {
	for n, m := range f.members {
		if f.t.Failed() {
			f.t.Logf("m%d:\n%v", n, &m.stderr)
		}
	}
}

// killBoth kills a member and the process beside it that would tell the others.
func (f *bridgeFleet) killBoth(n int) {
	f.t.Helper()
	for _, x := range f.members[n].lines() {
		if x["msg"] == "fleet_witness" {
			if err := syscall.Kill(int(x["pid"].(float64)), syscall.SIGKILL); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.members[n].await("that its witness is gone", func() bool {
		return slices.ContainsFunc(f.members[n].lines(), func(x map[string]any) bool { return x["msg"] == "fleet_witness_ended" })
	})
	signalTo(f.t, f.members[n], syscall.SIGKILL)
	f.members[n].wait()
}

// TestFleetOfBridges has three bridges share the work between a segment and a subnet, and be killed, stopped, ended and cut
// from etcd. Nothing leaves twice or out of order, no two forward a shard, and what is lost is bounded. CI's machine may be
// three times too busy.
func TestFleetOfBridges(t *testing.T) {
	const lease, moment = time.Second, 3 * 150 * time.Millisecond
	f := newFleet(t, 3)
	f.keys += "without_etcd = \"unanimous\"\n"
	for n := range 3 {
		f.start(n + 1)
	}
	all := func(what string) { f.shard(what, shards.Hosts/3, 1, 2, 3) }
	all("a third each")
	f.spread()
	f.during("no fault", 0, func() {})
	f.during("one ends", 0, func() {
		f.members[2].end(syscall.SIGTERM)
		f.shard("half each", shards.Hosts/2, 1, 3)
	})
	f.back(2)
	f.during("one is drained and resumes", 0, func() {
		f.drain(1)
		f.shard("half each after the drain", shards.Hosts/2, 2, 3)
		f.ctl(1, "fleet", "resume")
		all("a third each after the drain")
	})
	f.heartbeats()
	f.slowed(lease)
	f.during("a host's shard is pinned to each, and moved", 0, func() { f.pin() })
	f.listed()
	f.dies(lease, moment)
	f.successorStops(lease + moment)
	f.during("each of etcd's servers is killed, the leader among them", lease, func() {
		for n, v := range f.etcd {
			signalTo(t, v.program, syscall.SIGKILL)
			v.program.wait()
			time.Sleep(lease)
			f.vote(n, v.dir)
			f.caughtUp(n)
		}
	})
	f.stands()
	f.disks(lease)
	f.differ()
	f.cuts(lease, moment)
	f.without(lease, all)
	f.setBack(lease)
	t.Log("\n" + f.ctl(1, "show", "fleet"))
	t.Log("\n" + f.ctl(2, "show", "shards"))
	f.conserved()
}
