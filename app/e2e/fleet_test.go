// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/sha256"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/fleet/shards"
	"causeway/ibside/fabric"
	"causeway/ibside/fabric/fabrictest"
	"causeway/lcore/frame"
)

func othersThan(n int) []int {
	return slices.DeleteFunc([]int{1, 2, 3}, func(m int) bool { return m == n })
}

// drained has a member be drained and resume.
func (f *kernelFleet) drained(n int) {
	for _, word := range []string{"drain", "resume"} {
		_, err := f.ctl(n, "fleet", word)
		f.must(err)
		if word == "drain" {
			f.shards("half each while one is drained", 32, othersThan(n)...)
		}
	}
	f.shards("a third each after the drain", 21, 1, 2, 3)
}

// ended has a member be ended by a signal, and started again. One that ends in order has sent what was captured.
func (f *kernelFleet) ended(n int, signal syscall.Signal) {
	if err := f.members[n].stop(signal); (err == nil) != (signal == syscall.SIGTERM) {
		f.t.Errorf("m%d ended with %v", n, err)
	}
	f.shards("half each while one is gone", 32, othersThan(n)...)
	if toRoCE, toIB := f.capture.Sent(n); signal == syscall.SIGTERM {
		for direction, captured := range map[string]uint64{"ib_to_roce": toRoCE, "roce_to_ib": toIB} {
			var received, sent uint64
			_, counters, _ := strings.Cut(f.members[n].output(), "msg=stopped direction="+direction)
			if _, err := fmt.Sscanf(counters, " received=%d sent=%d", &received, &sent); err != nil || sent != captured || sent == 0 {
				f.t.Errorf("m%d, %s: %d sent, and %d captured (%v)", n, direction, sent, captured, err)
			}
		}
	}
	f.start(n)
	f.shards("a third each after it has come back", 21, 1, 2, 3)
}

// stopped has a member's process stand still until the others have its shards, and go on.
func (f *kernelFleet) stopped(n int) {
	f.must(syscall.Kill(f.members[n].pid(), syscall.SIGSTOP))
	f.shards("half each while one stands still", 32, othersThan(n)...)
	f.must(syscall.Kill(f.members[n].pid(), syscall.SIGCONT))
	f.shards("a third each after it has gone on", 21, 1, 2, 3)
}

// given pins to a member what a host sends, and what the node sends to its group, so that nothing happens to it without traffic.
func (f *kernelFleet) given(host *Guest, n int) {
	hw, err := frame.ParseMAC(mac(host.Name, 0))
	f.must(err)
	for _, s := range []shards.Shard{shards.OfHost(hw), shards.OfGroup(mgid(groupV6).MGID)} {
		_, err := f.ctl(n, "fleet", "pin", s.String(), fmt.Sprint("m", n))
		f.must(err)
		open := regexp.MustCompile(fmt.Sprintf(`(?m)^%v +\S+ +m%d .*open`, s, n))
		for ctx := within(f.t, stepTime); ; time.Sleep(pollEvery) {
			said, err := f.ctl(n, "show", "shards")
			f.must(err)
			if open.MatchString(said) {
				break
			}
			f.must(ctx.Err())
		}
	}
}

// planned has what an operator does, and what slows a bridge down meanwhile: nothing is lost.
func (f *kernelFleet) planned(host *Guest) {
	f.given(host, 2)
	f.during("m2 is drained and resumes", 0, func() { f.drained(2) })
	f.during("shards are pinned to m3", 0, func() { f.given(host, 3) })
	f.during("m3 ends and comes back", 0, func() { f.ended(3, syscall.SIGTERM) })
	f.given(host, 1)
	for _, h := range f.bed.Hindrances(fleetLease) {
		f.during(h.What+" is drained and resumes", 0, func() { h.During(func() { f.drained(1) }) })
	}
}

// faults has bridges die, and lose what is between them.
func (f *kernelFleet) faults(host *Guest) {
	const moment = 3 * 150 * time.Millisecond
	f.during("m1 is killed and comes back", moment, func() { f.ended(1, syscall.SIGKILL) })
	f.given(host, 2)
	f.during("m2 stands still and goes on", fleetLease+moment, func() { f.stopped(2) })
	for _, c := range f.bed.Cuts(fleetLease, moment) {
		f.behind = 0
		if c.Behind {
			f.behind = c.Most
		}
		f.during(c.What, c.Most, func() {
			f.late = c.Take()
			f.shards("half each: "+c.What, 32, 1, 3)
			c.Mend()
			f.shards("a third each again: "+c.What, 21, 1, 2, 3)
		})
	}
	f.behind = 0
	f.during("two do not hear each other", 0, func() {
		f.bed.Apart(true)
		time.Sleep(3 * fleetLease)
		f.bed.Apart(false)
		time.Sleep(fleetLease)
	})
}

// etcd has each voter be killed, the leader among them, and all stand still for five times a lease.
func (f *kernelFleet) etcd() {
	f.during("each of etcd's servers is killed", fleetLease, func() {
		for n, v := range f.voters {
			_ = v.stop(syscall.SIGKILL) // it says that it was killed
			time.Sleep(fleetLease)
			f.vote(n)
			for ctx := within(f.t, stepTime); !strings.Contains(f.ask(n, "/health"), `"health":"true"`); time.Sleep(pollEvery) {
				if ctx.Err() != nil {
					f.t.Fatalf("v%d: %s", n, f.ask(n, "/health"))
				}
			}
			time.Sleep(fleetLease)
		}
	})
	all := func(s syscall.Signal) {
		for _, v := range f.voters {
			f.must(syscall.Kill(v.pid(), s))
		}
	}
	f.during("etcd stands still for five times a lease", fleetLease, func() {
		all(syscall.SIGSTOP)
		time.Sleep(5 * fleetLease)
		all(syscall.SIGCONT)
		time.Sleep(fleetLease)
	})
}

// TestFleetHosts has a fleet of three bridges between kernel RoCE hosts and InfiniBand: messages both ways, unicast and to groups,
// while bridges are drained, ended, killed, stopped, slowed, and cut from etcd, from either fabric and from each other, and etcd's
// servers are killed and stopped. Captures of all that leaves show that no message leaves twice, that no two members forward a shard,
// and what was lost: nothing that is planned. Hosts' neighbour entries and address handles stay as they are.
func TestFleetHosts(t *testing.T) {
	_, a, b := theRig(t)
	proof := proves(t, "a fleet of three bridges: each drained, ended, killed; slowed, stopped, cut from etcd, a fabric, each other, one way too; etcd's servers killed")
	f := newKernelFleet(t, proof, a, b)
	f.begin(a, b)
	addresses := []string{"10.9.0.7", "fd09::7"}
	known := [][]string{macsOf(t, a, addresses[:1]), macsOf(t, b, addresses[1:])}
	f.during("no fault", 0, func() { time.Sleep(time.Second) })
	f.planned(a)
	f.faults(a)
	f.etcd()
	f.stop()
	f.udaddy(a, b)
	if now := [][]string{macsOf(t, a, addresses[:1]), macsOf(t, b, addresses[1:])}; fmt.Sprint(now) != fmt.Sprint(known) || !strings.HasPrefix(known[0][0], shardsOf("kernel")) {
		t.Errorf("the hosts have the node at %v, and had it at %v; a fleet's addresses begin with %s", now, known, shardsOf("kernel"))
	}
}

// udaddy has the example connect both ways: a host to a node by its own bridge, and the node to the host by each, whichever has the
// host.
func (f *kernelFleet) udaddy(a, b *Guest) {
	f.t.Helper()
	node, err := attachNode(f.socket, fabric.NodeConfig{Name: "node8", GUID: nodeGUID + 1})
	f.must(err)
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
		for n := 1; n <= 3; n++ {
			r.gid = f.bed.GID(n)
			r.toHost(f.t, hosts[0], caller)
		}
	}
}

// shardsOf is how the MAC addresses of a fleet's host shards begin.
func shardsOf(fleet string) string {
	sum := sha256.Sum256([]byte(fleet))
	sum[0] = sum[0]&^3 | 2
	return net.HardwareAddr(sum[:5]).String()
}
