// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"causeway/fleet/shares"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// A cut is what a member loses, and has again.
type cut struct {
	what      string
	most      time.Duration // may be lost
	behind    bool          // also of what it sends
	cut, mend func()
}

// cuts has the second member lose a cable after another, and ways of one direction. What tells it at once is taken over at
// once; what it cannot know, when its right has run out.
func (f *bridgeFleet) cuts(right, moment time.Duration) {
	ethernet := func(way string) func() { return func() { f.segment.do(f.t, "ip link set s2 "+way) } }
	infiniband := func(cut bool) func() {
		return func() {
			if err := f.subnet.Cut(f.guid(2), cut); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	etcd := func(way string) func() { return func() { f.segment.do(f.t, "ip link set e2 "+way) } }
	oneWay := func(command string) func() {
		return func() { f.machine[2].do(f.t, "tc qdisc "+command+" dev etcd root blackhole") }
	}
	for _, c := range append([]cut{
		{"one loses its Ethernet cable", moment, false, ethernet("down"), ethernet("up")},
		{"one loses its InfiniBand cable", moment, false, infiniband(true), infiniband(false)},
		{"one is cut from etcd", right + moment, false, etcd("down"), etcd("up")},
		{"one hears etcd, and is not heard", right + moment, false, oneWay("add"), oneWay("del")},
	}, f.directions(right+moment)...) {
		if f.behind = 0; c.behind {
			f.behind = c.most
		}
		f.during(c.what, c.most, right, func() {
			c.cut()
			f.share("half each: "+c.what, shares.Hosts/2, 1, 3)
			c.mend()
			f.share("a third each again: "+c.what, shares.Hosts/3, 1, 2, 3)
		})
	}
	f.behind = 0
	f.apart(right)
}

// directions are those in which a member's fabric can fail while its link is up.
func (f *bridgeFleet) directions(most time.Duration) []cut {
	deaf := func(command string) func() {
		return func() { f.segment.do(f.t, "tc qdisc "+command+" dev s2 root blackhole") }
	}
	// A bridge takes nothing from a port that is locked but of hosts that it knows there, and that it is to forget.
	mute := func(locked string) func() {
		return func() { f.segment.do(f.t, "ip link set s2 type bridge_slave locked "+locked+" fdb_flush") }
	}
	parted := func(from, to int, is bool) func() { return func() { f.subnet.Part(f.guid(from), f.guid(to), is) } }
	return []cut{
		{"one hears nobody on Ethernet, though its port is up", most, false, deaf("add"), deaf("del")},
		{"nobody hears one on Ethernet, though its port is up", most, true, mute("on"), mute("off")},
		{"one hears nobody on InfiniBand, though its port is up", most, false, parted(0, 2, true), parted(0, 2, false)},
		{"nobody hears one on InfiniBand, though its port is up", most, true, parted(2, 0, true), parted(2, 0, false)},
	}
}

// apart has two members not hear each other on either fabric, for three rights. All else hear them, and they hear all else: nobody
// is lost, and nothing changes.
func (f *bridgeFleet) apart(right time.Duration) {
	apart := func(is bool, isolated string) {
		for _, n := range []int{2, 3} {
			f.segment.do(f.t, fmt.Sprintf("ip link set s%d type bridge_slave isolated %s", n, isolated))
			f.subnet.Part(f.guid(n), f.guid(5-n), is)
		}
	}
	before := f.assignment()
	f.during("two do not hear each other", 0, right, func() {
		apart(true, "on")
		for _, way := range []string{"ethernet", "infiniband"} {
			f.hears(2, "m3", way, "down")
		}
		time.Sleep(3 * right)
		apart(false, "off")
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

// guid is that of a member's port; 0 for 0.
func (f *bridgeFleet) guid(n int) ib.GUID {
	f.t.Helper()
	if n == 0 {
		return 0
	}
	ports := f.subnet.Ports()
	i := slices.IndexFunc(ports, func(p fabric.PortInfo) bool { return p.Name == fmt.Sprint("m", n) })
	if i < 0 {
		f.t.Fatalf("m%d is not on the subnet: %v", n, ports)
	}
	return ports[i].GUID
}

// slowed drains a member whose InfiniBand link has no credits half of the time, in each direction, and one whose process stands
// still half of the time. What they have posted leaves late, and still before what their heirs send; and what they hear late others
// have carried.
func (f *bridgeFleet) slowed(right time.Duration) {
	guid := f.guid(1)
	f.drained("one whose InfiniBand link stalls is drained and resumes", right, 25*time.Millisecond, func(on bool) {
		if err := f.subnet.Stall(guid, on); err != nil {
			f.t.Error(err)
		}
	})
	f.drained("one that InfiniBand's messages come to late is drained and resumes", right, right/100, func(on bool) {
		if err := f.subnet.Withhold(guid, on); err != nil {
			f.t.Error(err)
		}
	})
	f.drained("one that is slow is drained and resumes", right, 25*time.Millisecond, func(on bool) {
		signal := syscall.SIGCONT
		if on {
			signal = syscall.SIGSTOP
		}
		if err := syscall.Kill(f.members[1].cmd.Process.Pid, signal); err != nil {
			f.t.Error(err)
		}
	})
}

// drained drains the first member and has it resume, several times, while what hinders it is there for half of the time, for so
// long each.
func (f *bridgeFleet) drained(what string, right, half time.Duration, hinder func(on bool)) {
	f.during(what, 0, right, func() {
		ended, hindering := make(chan struct{}), sync.WaitGroup{}
		hindering.Go(func() {
			defer hinder(false)
			for on := true; ; on = !on {
				hinder(on)
				select {
				case <-ended:
					return
				case <-time.After(half):
				}
			}
		})
		defer func() { // in any case: it reports mistakes to the test
			close(ended)
			hindering.Wait()
		}()
		for range 5 {
			f.ctl(1, "fleet", "drain")
			f.share("half each: "+what, shares.Hosts/2, 2, 3)
			f.ctl(1, "fleet", "resume")
			f.share("a third each again: "+what, shares.Hosts/3, 1, 2, 3)
		}
	})
}

// without has the members be without etcd. They go on, but not when one of them has died.
func (f *bridgeFleet) without(right time.Duration, all func(what string)) {
	f.during("etcd is stopped for five times a right, and goes on", 0, right, func() {
		f.voters(syscall.SIGSTOP)
		time.Sleep(5 * right)
		f.voters(syscall.SIGCONT)
		time.Sleep(right)
	})
	all("a third each after etcd")
	// Until etcd has a leader again, who has promised may propose, and heirs have seen all.
	f.during("one is killed while etcd is stopped", 5*right, right, func() {
		f.voters(syscall.SIGSTOP)
		time.Sleep(right)
		signalTo(f.t, f.members[3], syscall.SIGKILL)
		f.members[3].wait()
		time.Sleep(2 * right)
		f.voters(syscall.SIGCONT)
		f.share("half each after etcd", shares.Hosts/2, 1, 2)
	})
	f.start(3)
	all("a third each after the last one")
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
