// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pimd makes a network a multicast router between eth0, where it is the querier, and eth1.
func (n *network) pimd() (daemon *program, show func(string) string) {
	n.t.Helper()
	const config = "ip pim rp 10.9.0.1\ninterface eth0\n ip pim\n ip igmp\n ip igmp query-max-response-time 10\n ip igmp query-interval 8\ninterface eth1\n ip pim\n ip igmp\n"
	dir := files(n.t, map[string]string{"pimd.conf": config, "zebra.conf": ""})
	n.run("chmod", "-R", "a+rX", filepath.Dir(dir))
	n.run("chown", "-R", "frr:frr", dir)
	n.run("ip", "netns", "exec", n.name, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	run := func(name string) *program {
		p := start(n.t, exec.Command("ip", "netns", "exec", n.name, "/usr/lib/frr/"+name, "-P", "0", "--log", "stdout", "-z", dir+"/zebra.api",
			"--vty_socket", dir, "-i", dir+"/"+name+".pid", "-f", dir+"/"+name+".conf"))
		p.await(name, func() bool { _, err := os.Stat(dir + "/" + name + ".vty"); return err == nil })
		return p
	}
	run("zebra")
	return run("pimd"), func(what string) string { return n.run("vtysh", "--vty_socket", dir, "-d", "pimd", "-c", "show "+what) }
}

// routedNetwork is the bridge's network, a router on it, a host on it, and one behind the router.
func routedNetwork(t *testing.T) (n, r, near, far *network) {
	t.Helper()
	n, r, near, far = newNetwork(t), newNetwork(t), newNetwork(t), newNetwork(t)
	n.wires()
	n.ip("link add br0 type bridge mcast_snooping 0")
	n.ip("link set theirs master br0")
	n.ip("link set br0 up")
	for i, at := range []*network{r, near} {
		n.ip(fmt.Sprintf("link add p%d mtu 4200 type veth peer name eth0 mtu 4200 netns %s", i, at.name))
		n.ip(fmt.Sprintf("link set p%d master br0 up", i))
	}
	r.ip("link add eth1 mtu 4200 type veth peer name eth0 mtu 4200 netns " + far.name)
	for _, x := range []struct {
		at            *network
		link, address string
	}{{r, "eth0", "10.9.0.1/24"}, {r, "eth1", "10.8.0.1/24"}, {near, "eth0", "10.9.0.2/24"}, {far, "eth0", "10.8.0.5/24"}} {
		x.at.ip("address add " + x.address + " dev " + x.link)
		x.at.ip("link set " + x.link + " up")
	}
	far.ip("route add default via 10.8.0.1")
	return n, r, near, far
}

// TestMulticastRouter has FRR's pimd be the querier of the bridge's network, and carry groups between it and another network: the bridge is a
// member for it, of a source-specific group, too; it leaves it to the router to ask those that leave, and asks itself when the router has ended.
func TestMulticastRouter(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("/usr/lib/frr/pimd"); err != nil {
		t.Skip("needs pimd, of Debian's package frr")
	}
	n, r, near, far := routedNetwork(t)
	router, show := r.pimd()
	p := n.bridge(`"fe80::7"`, "\"fe80::77\"\nlid = 40", `port = "ring"`, "port = \"af_packet:ours\"\nquerier = true", `allow = ["10.9.0.0/24"]`, `allow = ["10.9.0.0/24", "10.8.0.0/24"]`,
		"[metrics]", "[[group]]\nip = \"232.5.0.3\"\nsources = [\"10.8.0.5\"]\nmgid = \"rdmacm\"\ndirection = \"to-ib\"\n[[range]]\nip = \"239.2.0.0/16\"\n[metrics]")
	p.await("that the bridge knows the router, which knows the bridge's groups", func() bool {
		time.Sleep(200 * time.Millisecond) // show starts programs
		known := show("ip igmp sources")
		return n.gauge("causeway_group_queries_total") > 1 && strings.Contains(known, "239.1.2.3") && strings.Contains(known, "232.5.0.3")
	})
	on := []string{"-on", "packet:eth0"}
	node := []string{"-guid", "0x77", "-on", "fabric:" + filepath.Join(filepath.Dir(p.cmd.Args[len(p.cmd.Args)-1]), "fabric.sock")}
	crosses := func(group string, from, to *network, sender, listener []string) {
		l := to.start(append([]string{"listen", "-json", "-group", group, "-count", "10", "-expect", "10", "-duration", "60s"}, listener...)...)
		l.qpn()
		from.start(append([]string{"send", "-to", group, "-count", "500", "-rate", "100"}, sender...)...).wait() // the first ones make the router look for a way
		if l.wait() != exitOK {
			t.Errorf("%s: %v%v", group, &l.stdout, show("ip mroute"))
		}
	}
	crosses("239.1.2.3", far, n, on, node)
	crosses("232.5.0.3", far, n, on, node)
	crosses("239.1.2.3", n, far, node, on)

	member := func() *program {
		return near.start("listen", "-on", "packet:eth0", "-group", "239.2.0.5")
	}
	groups := func() int { return n.gauge("causeway_groups") }
	asked := func() int { return n.gauge("causeway_group_queries_sent_total") }
	m, before := member(), asked()
	p.await("the member's group", func() bool { return groups() == 3 })
	m.end(syscall.SIGTERM)
	p.await("that it is left", func() bool { return groups() == 2 })
	if now := asked(); now != before {
		t.Errorf("the router is the querier, and the bridge has sent %d queries, then %d", before, now)
	}
	if err := router.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(18 * time.Second) // the other querier present interval: 2 × 8 s + 0.5 s, which a router without a CPU is not late by
	m = member()
	p.await("the member's group again", func() bool { return groups() == 3 })
	before = asked()
	m.end(syscall.SIGTERM)
	p.await("that it is left again", func() bool { return groups() == 2 })
	if now := asked(); now == before {
		t.Errorf("the router has ended, and the bridge has asked nobody")
	}
	p.endConserved()
}
