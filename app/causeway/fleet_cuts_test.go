// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"causeway/fleet/shares"
	"causeway/ibside/ib"
)

// cuts has the second member lose a cable after another, and the way to etcd in one direction. What tells it at once is
// taken over at once; what it cannot know, when its right has run out.
func (f *bridgeFleet) cuts(right, moment time.Duration) {
	ethernet := func(way string) func() { return func() { f.segment.do(f.t, "ip link set s2 "+way) } }
	infiniband := func(cut bool) func() {
		return func() {
			for _, p := range f.subnet.Ports() {
				if p.Name == "m2" {
					if err := f.subnet.Cut(p.GUID, cut); err != nil {
						f.t.Fatal(err)
					}
				}
			}
		}
	}
	etcd := func(way string) func() { return func() { f.segment.do(f.t, "ip link set e2 "+way) } }
	oneWay := func(command string) func() {
		return func() { f.machine[2].do(f.t, "tc qdisc "+command+" dev etcd root blackhole") }
	}
	deaf := func(command string) func() {
		return func() { f.segment.do(f.t, "tc qdisc "+command+" dev s2 root blackhole") }
	}
	for _, c := range []struct {
		what      string
		most      time.Duration
		cut, mend func()
	}{
		{"one loses its Ethernet cable", moment, ethernet("down"), ethernet("up")},
		{"one loses its InfiniBand cable", moment, infiniband(true), infiniband(false)},
		{"one hears nobody on Ethernet, though its port is up", right + moment, deaf("add"), deaf("del")},
		{"one is cut from etcd", right + moment, etcd("down"), etcd("up")},
		{"one hears etcd, and is not heard", right + moment, oneWay("add"), oneWay("del")},
	} {
		f.during(c.what, c.most, right, func() {
			c.cut()
			f.share("half each: "+c.what, shares.Hosts/2, 1, 3)
			c.mend()
			f.share("a third each again: "+c.what, shares.Hosts/3, 1, 2, 3)
		})
	}
}

// stalls drains a member whose InfiniBand link has no credits half of the time. What it has posted leaves late, and still before
// what its heirs send.
func (f *bridgeFleet) stalls(right time.Duration) {
	var guid ib.GUID
	for _, p := range f.subnet.Ports() {
		if p.Name == "m1" {
			guid = p.GUID
		}
	}
	stall := func(on bool) {
		if err := f.subnet.Stall(guid, on); err != nil {
			f.t.Error(err)
		}
	}
	f.during("one whose InfiniBand link stalls is drained and resumes", 0, right, func() {
		const half = 25 * time.Millisecond
		ended, stalling := make(chan struct{}), sync.WaitGroup{}
		stalling.Go(func() {
			defer stall(false)
			for on := true; ; on = !on {
				stall(on)
				select {
				case <-ended:
					return
				case <-time.After(half):
				}
			}
		})
		defer func() { // in any case: it reports mistakes to the test
			close(ended)
			stalling.Wait()
		}()
		for range 5 {
			f.ctl(1, "fleet", "drain")
			f.share("half each after the drain of one that stalls", shares.Hosts/2, 2, 3)
			f.ctl(1, "fleet", "resume")
			f.share("a third each after the drain of one that stalls", shares.Hosts/3, 1, 2, 3)
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
