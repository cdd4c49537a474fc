// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"causeway/app/fleettest"
	"causeway/fleet/shards"
)

// bed is where the fleet is.
func (f *bridgeFleet) bed() *fleettest.Bed {
	return &fleettest.Bed{
		T: f.t, Subnet: f.subnet,
		Segment: func(line string) { f.segment.do(f.t, line) },
		Machine: func(member int, line string) { f.machine[member].do(f.t, line) },
		Process: func(member int) int { return f.members[member].cmd.Process.Pid },
	}
}

// cuts has the second member lose what it can lose, and have it again.
func (f *bridgeFleet) cuts(lease, moment time.Duration) {
	for _, c := range f.bed().Cuts(lease, moment) {
		if f.behind = 0; c.Behind {
			f.behind = c.Most
		}
		f.during(c.What, c.Most, func() {
			f.late = c.Take()
			f.shard("half each: "+c.What, shards.Hosts/2, 1, 3)
			c.Mend()
			f.shard("a third each again: "+c.What, shards.Hosts/3, 1, 2, 3)
		})
	}
	f.behind = 0
	f.apart(lease)
}

// apart has two members not hear each other on either fabric, for longer than a lease. All else hear them, and they hear all else: nobody
// is lost, and nothing changes.
func (f *bridgeFleet) apart(lease time.Duration) {
	before, bed := f.assignment(), f.bed()
	f.during("two do not hear each other", 0, func() {
		bed.Apart(true)
		for _, way := range []string{"ethernet", "infiniband"} {
			f.hears(2, "m3", way, "down")
		}
		time.Sleep(3 * lease / 2)
		bed.Apart(false)
		for _, way := range []string{"ethernet", "infiniband"} {
			f.hears(2, "m3", way, "up")
		}
	})
	if now := f.assignment(); now != before {
		f.t.Errorf("two do not hear each other: there were %d assignments", now-before)
	}
}

// hears waits until a member's session with another is in a state on a fabric, by the words of show fleet.
func (f *bridgeFleet) hears(n int, other, on, state string) {
	f.t.Helper()
	line := regexp.MustCompile(fmt.Sprintf(`(?mi)^%s +%s +%s\b`, other, on, state))
	for end := time.Now().Add(within); !line.MatchString(f.ctl(n, "show", "fleet")); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%s on %s does not get %s:\n%s", other, on, state, f.ctl(n, "show", "fleet"))
		}
	}
}

// slowed drains the first member while something hinders it, several times, and has it resume.
func (f *bridgeFleet) slowed(lease time.Duration) {
	for _, h := range f.bed().Hindrances(lease) {
		what := h.What + " is drained and resumes"
		f.during(what, 0, func() {
			h.During(func() {
				for range 5 {
					f.drain(1)
					f.shard("half each: "+what, shards.Hosts/2, 2, 3)
					f.ctl(1, "fleet", "resume")
					f.shard("a third each again: "+what, shards.Hosts/3, 1, 2, 3)
				}
			})
		})
	}
}

// without has the members be without etcd. They go on, but not when one of them has died.
func (f *bridgeFleet) without(lease time.Duration, all func(what string)) {
	f.during("etcd is stopped for two leases, and goes on", 0, func() {
		f.voters(syscall.SIGSTOP)
		time.Sleep(2 * lease)
		f.voters(syscall.SIGCONT)
		for n := range f.etcd {
			f.caughtUp(n)
		}
		all("a third each after etcd")
	})
	// Until etcd has a leader again, who has promised may propose, and successors have seen all.
	f.during("one is killed while etcd is stopped", 5*lease, func() {
		f.voters(syscall.SIGSTOP)
		time.Sleep(lease)
		signalTo(f.t, f.members[3], syscall.SIGKILL)
		f.members[3].wait()
		time.Sleep(2 * lease)
		f.voters(syscall.SIGCONT)
		f.shard("half each after etcd", shards.Hosts/2, 1, 2)
	})
	f.back(3)
}

// caughtUp waits until one of etcd's servers has all that the others have: before, there is no majority without each of them.
func (f *bridgeFleet) caughtUp(n int) {
	f.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		says := f.ask(n, "/health")
		if strings.Contains(says, `"health":"true"`) {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("etcd's server %d: %s", n, says)
		}
	}
}

// ask returns what one of etcd's servers answers, or why it does not.
func (f *bridgeFleet) ask(n int, path string) string {
	get := fmt.Sprintf(`exec 3<>/dev/tcp/10.99.0.254/237%d && printf "GET %s HTTP/1.0\r\n\r\n" >&3 && cat <&3`, n, path)
	words := append(f.segment[1:len(f.segment):len(f.segment)], "timeout", "1", "bash", "-c", get)
	out, err := exec.Command(f.segment[0], words...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return string(out)
}
