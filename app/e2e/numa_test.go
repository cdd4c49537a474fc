// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// numaHost is a guest with two NUMA nodes, each with two CPUs: 0 and 1, 2 and 3. A page of 1 GiB is reserved on node 1,
// which alone has room for it; pages of 2 MiB on both come later.
var numaHost = GuestConfig{Name: "U", MiB: 4096, CPUs: 4, NICs: []NIC{{Mute: true}, {Mute: true, MTU: hostMTU}},
	QEMU: []string{
		"-object", "memory-backend-ram,id=near,size=1G", "-numa", "node,nodeid=0,cpus=0-1,memdev=near",
		"-object", "memory-backend-ram,id=far,size=3G", "-numa", "node,nodeid=1,cpus=2-3,memdev=far"},
	Kernel: "hugepagesz=1G hugepages=1:1",
}

// numaBridge has its workers on node 1, and management, too.
const numaBridge = `[roce]
port = "af_packet:eth1"
addresses = ["10.9.0.254/24"]
mtu = 4200
[ib]
port = "fabric:FABRIC"
[workers]
lcores = %s
management = %d
idle = "sleep"
memory_mib = %d
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::2:c903:0:7"
[console]
listen = ["unix:/tmp/console.sock"]
`

// numaCases are bridges one after the other in that guest, and what the console says of their memory and cores.
var numaCases = []struct {
	name       string
	prepare    string // in the guest, before
	lcores     string
	management int
	miB        int
	want       []string // patterns of lines of show memory and show cores
	not        string
	log        string
}{
	{name: "1 GiB pages where those of 2 MiB are too few", lcores: "[2]", management: 3, miB: 128,
		want: []string{`packets +1 `, `tables +1 `, `worker 0 +1 `, `DPDK in all +1 +1\.00 GiB +1\.00 GiB`,
			`1 +worker 0 +1 +2 +1 `, `management +1 +3 +1 `}},
	{name: "2 MiB pages of the workers' node", lcores: "[2]", management: 0, miB: 128,
		prepare: pagesOf(0, 100) + pagesOf(1, 100) + "echo 0 >/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages; ",
		want:    []string{`packets +1 `, `tables +1 `, `worker 0 +1 `, `DPDK in all +1 +\S+ MiB +2\.00 MiB`, `management +1 +0 +0 `}, not: `DPDK in all +0 `},
	{name: "a worker on each", lcores: "[2, 1]", management: 3, miB: 128,
		want: []string{`packets +1 `, `worker 0 +1 `, `worker 1 +0 `, `1 +worker 0 +1 +2 +1 `, `2 +worker 1 +1 +1 +0 `}},
	{name: "the workers' node is short", lcores: "[2]", management: 3, miB: 128,
		prepare: pagesOf(1, 8),
		want:    []string{`packets +0 `, `tables +1 `, `DPDK in all +0 `}, log: "memory_elsewhere"},
	{name: "ordinary memory", lcores: "[2]", management: 3, miB: 128,
		prepare: pagesOf(0, 0) + pagesOf(1, 0), want: []string{`packets +1 `, `tables +1 `, `worker 0 +1 `, ` 4\.00 KiB`}, not: ` 2\.00 MiB`},
}

func pagesOf(node, n int) string {
	return fmt.Sprintf("echo %d >/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages; ", n, node)
}

// TestNUMA: Causeway in a guest with two NUMA nodes. Packets, tables and workers are on the workers' node while that has
// memory, and where they are is said; hugepages of both sizes.
func TestNUMA(t *testing.T) {
	r, _, _ := theRig(t)
	proof := proves(t, "memory of packets, tables and workers on the workers' NUMA node; pages of 1 GiB, 2 MiB and 4 KiB")
	u, err := r.BootBridgeGuest(t.Context(), numaHost)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Stop()
	for _, c := range numaCases {
		t.Run(c.name, func(t *testing.T) {
			ctx := within(t, stepTime)
			if err := u.Must(ctx, c.prepare+"true"); err != nil {
				t.Fatal(err)
			}
			bridge, err := u.StartBridge(ctx, fmt.Sprintf(numaBridge, c.lcores, c.management, c.miB), echoTopology)
			if err != nil {
				t.Fatal(err)
			}
			kill := func() error { return bridge.Kill(within(t, stepTime)) } // also when ctx has ended: the next one needs its socket
			if err := bridge.Ready(ctx); err != nil {
				t.Fatal(errors.Join(err, kill()))
			}
			said, exit, err := u.Run(ctx, "/tmp/causeway ctl -s /tmp/console.sock show memory; /tmp/causeway ctl -s /tmp/console.sock show cores")
			if err != nil || exit != 0 {
				t.Fatalf("exit code %d, %v: %s; %v", exit, err, said, kill())
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(said) {
					t.Errorf("no line matches %q", want)
				}
				proof.add(1)
			}
			if c.not != "" && regexp.MustCompile(c.not).MatchString(said) {
				t.Errorf("a line matches %q", c.not)
			}
			if short := strings.Contains(bridge.Log(), "memory_elsewhere"); short != (c.log != "") {
				t.Errorf("the log says that memory is elsewhere: %v", short)
			}
			if err := bridge.Stop(ctx); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("it said\n%s\nand logged\n%s", said, lastLines(bridge.Log()))
			}
		})
	}
}
