// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/app/fleettest"
	"causeway/fleet/etcd/etcdtest"
	"causeway/ibside/fabric"
	"causeway/ibside/stamp"
)

// fleetBridge is one of three bridges of a fleet between the first segment and a subnet of the test's own.
const fleetBridge = `[bridge]
name = "mN"
[roce]
port      = "af_packet:port"
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
etcd = ["http://10.99.0.254:2371", "http://10.99.0.254:2372", "http://10.99.0.254:2373"]
lease_ms = 1000
without_etcd = "unanimous"
`

// fleetLease is how long a lease of these bridges lasts.
const fleetLease = time.Second

// A kernelFleet is three bridges, as many as the others need to find that one has gone, and three voters.
type kernelFleet struct {
	t          *testing.T
	rig        *Rig
	socket     string
	bed        *fleettest.Bed
	capture    *fleettest.Capture
	machines   map[int]*process // that hold the members' network namespaces
	members    map[int]*process
	voters     map[int]*process
	flows      []*fleetFlow
	marks      map[uint32]uint32 // of streams, the last message that was judged
	assignment int               // the newest when they were judged
	behind     time.Duration     // of what has left members, a fault may lose as much now
	late       time.Duration     // what a fault took to happen, in which it may lose, too
	node       *IBNode
	came       map[uint32][]uint32 // numbers of messages that came to the node, by the flows' first ones
	ending     chan struct{}       // closed when the node is to publish no more
	proof      *proof
}

// newKernelFleet starts the subnet, etcd and the bridges.
func newKernelFleet(t *testing.T, p *proof, a, b *Guest) *kernelFleet {
	r, _, _ := theRig(t)
	f := &kernelFleet{
		t: t, rig: r, socket: r.file("fleet.sock"), proof: p, machines: map[int]*process{}, members: map[int]*process{}, voters: map[int]*process{},
		marks: map[uint32]uint32{}, came: map[uint32][]uint32{},
	}
	subnet, capture := fleettest.NewSubnet(t, f.socket, func(s stamp.Stamp, toIB bool) uint32 { return streamOf(uint32(s.Number), toIB) })
	f.capture = capture
	f.bed = &fleettest.Bed{
		T: t, Subnet: subnet,
		Segment: func(line string) { f.must(r.ns.run(line)) },
		Machine: func(n int, line string) { f.must(r.ns.run(f.on(n) + line)) },
		Process: func(n int) int { return f.members[n].pid() },
	}
	f.bed.Segment("ip link add etcd type bridge mcast_snooping 0\nip addr add 10.99.0.254/24 dev etcd\nip link set etcd up")
	t.Cleanup(f.end)
	for n := 1; n <= 3; n++ {
		f.vote(n)
	}
	for _, host := range []*Guest{a, b} {
		capture.Ethernet(r.Do, tap(host.Name, 0), 0)
	}
	for n := 1; n <= 3; n++ {
		f.machine(n)
		f.start(n)
	}
	f.shards("a third each", 21, 1, 2, 3)
	var err error
	if f.node, err = attachNode(f.socket, node7(fabric.RoleEcho)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.node.Close() })
	return f
}

func (f *kernelFleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// on returns with what a command must begin to run on a member's machine.
func (f *kernelFleet) on(n int) string { return fmt.Sprintf("nsenter -t %d -n ", f.machines[n].pid()) }

// machine makes a member's machine, with its cables.
func (f *kernelFleet) machine(n int) {
	f.t.Helper()
	var err error
	f.machines[n], err = f.rig.ns.launch(fmt.Sprint("machine ", n), f.rig.file(fmt.Sprint("machine", n)), "unshare", "-n", "sleep", "infinity")
	f.must(err)
	for ctx := within(f.t, stepTime); f.rig.ns.run(f.on(n)+"ip link show "+segment) == nil; time.Sleep(pollEvery) {
		f.must(ctx.Err()) // it is still in the segment's namespace
	}
	f.bed.Segment(fmt.Sprintf(`
		ip link add s%[1]d mtu %[2]d type veth peer name port mtu %[2]d netns %[3]d
		ip link set s%[1]d master %[4]s up
		ip link add e%[1]d type veth peer name etcd netns %[3]d
		ip link set e%[1]d master etcd up`, n, wireMTU, f.machines[n].pid(), segment))
	for _, line := range []string{"ip link set lo up", fmt.Sprintf("ip addr add 10.99.0.%d/24 dev etcd", n), "ip link set etcd up", "ip link set port up"} {
		f.bed.Machine(n, line)
	}
	f.capture.Ethernet(f.rig.Do, fmt.Sprint("s", n), n)
}

// vote starts a voter, an etcd server on the machine of the segment, or starts it again with what it had.
func (f *kernelFleet) vote(n int) {
	f.t.Helper()
	const at, all = "http://10.99.0.254:%d", "v1=http://10.99.0.254:2381,v2=http://10.99.0.254:2382,v3=http://10.99.0.254:2383"
	name := fmt.Sprint("v", n)
	words := etcdtest.Command(name, f.rig.file(name), fmt.Sprintf(at, 2370+n), fmt.Sprintf(at, 2380+n), all)
	voter, err := f.rig.ns.launch(name, f.rig.file(fmt.Sprintf("%s-%d.log", name, runs.Add(1))), append(words, etcdtest.Prompt...)...)
	f.must(err)
	f.voters[n] = voter
}

// ask returns what a voter answers to a request, or why it does not.
func (f *kernelFleet) ask(n int, path string) string {
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = f.rig.Do(func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	answer, err := client.Get(fmt.Sprintf("http://10.99.0.254:%d%s", 2370+n, path))
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprint(string(text), err)
}

// start starts a member.
func (f *kernelFleet) start(n int) {
	f.t.Helper()
	bin, err := bridgeProgram()
	f.must(err)
	text := strings.NewReplacer("mN", fmt.Sprint("m", n), "25N", fmt.Sprint(250+n), "fN", fmt.Sprint("f", n), "SUBNET", f.socket, "CONSOLE", f.console(n),
		"CPU", fmt.Sprint(n%2), "GROUP4", groupV4, "GROUP6", groupV6, "UDADDY", fmt.Sprint(udaddyPort)).Replace(fleetBridge)
	name := fmt.Sprintf("m%d-%d", n, runs.Add(1))
	file := f.rig.file(name + ".toml")
	f.must(os.WriteFile(file, []byte(text), 0o600))
	f.capture.Started(n)
	f.members[n], err = f.rig.ns.launch(name, f.rig.file(name+".log"), append(strings.Fields(f.on(n)), bin, "run", "-c", file)...)
	f.must(err)
}

func (f *kernelFleet) console(n int) string { return f.rig.file(fmt.Sprintf("fleet-m%d.sock", n)) }

// ctl says a command at a member's console.
func (f *kernelFleet) ctl(n int, words ...string) (string, error) {
	bin, err := bridgeProgram()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(bin, append([]string{"ctl", "-s", f.console(n)}, words...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("m%d: %v: %w: %s", n, words, err, out)
	}
	return string(out), err
}

// end ends all that was started; each member must have counted every packet.
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
	for _, all := range []map[int]*process{f.voters, f.machines} { // a machine's interfaces go with it
		for _, p := range all {
			_ = p.stop(syscall.SIGKILL) // it has no more to say
		}
	}
	_ = f.rig.ns.run("ip link del etcd") // the namespace may have ended
}

var hostShardsLine = regexp.MustCompile(`fleet_shards host_shards=(\d+)`)

// shards waits until these members have all host shards, at least so many each.
func (f *kernelFleet) shards(what string, least int, members ...int) {
	f.t.Helper()
	has := map[int]int{}
	for ctx := within(f.t, readyWithin); ; time.Sleep(pollEvery) {
		sum := 0
		for _, n := range members {
			has[n] = 0
			if all := hostShardsLine.FindAllStringSubmatch(f.members[n].output(), -1); all != nil {
				has[n], _ = strconv.Atoi(all[len(all)-1][1])
			}
			sum += has[n]
		}
		if sum == 64 && slices.Min(slices.Collect(maps.Values(has))) >= least {
			return
		}
		if ctx.Err() != nil {
			f.t.Fatalf("%s: the members have %v host shards", what, has)
		}
	}
}

// lossy reports how often shards have passed without an overlap, because this machine is slow.
func (f *kernelFleet) lossy() (times int) {
	for _, m := range f.members {
		times += strings.Count(m.output(), "fleet_no_overlap")
	}
	return times
}

var assignmentText = regexp.MustCompile(`its assignment number (\d+)`)

// newest returns the number of the newest assignment that a member knows of.
func (f *kernelFleet) newest() (newest int) {
	f.t.Helper()
	for n := range f.members {
		said, err := f.ctl(n, "show", "fleet")
		f.must(err)
		found := assignmentText.FindStringSubmatch(strings.Join(strings.Fields(said), " "))
		if found == nil {
			f.t.Fatalf("m%d has no assignment:\n%s", n, said)
		}
		number, _ := strconv.Atoi(found[1])
		newest = max(newest, number)
	}
	return newest
}
