// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// A Bed is where three members run, each on a machine of its own. The machine of member N has the interface eN of etcd's network as
// etcd, and the port of its bridge is at sN of the segment.
type Bed struct {
	T       *testing.T
	Segment func(line string)             // runs a command where the segment is
	Machine func(member int, line string) // and on a member's machine
	Process func(member int) int          // the bridge's process
	Subnet  *fabric.Fabric
}

// A Cut is what a member loses, and has again.
type Cut struct {
	What   string
	Most   time.Duration // may be lost, and what Take returns
	Behind bool          // also of what it sends
	cut    func()
	Mend   func()
}

// Take makes the cut, and returns how much longer that took than the usual 20 ms. The end of a cable that goes down drops what it is given, while the other has its
// carrier until the kernel has waited for all who read its tables: on a busy machine for up to a second.
func (c *Cut) Take() time.Duration {
	began := time.Now()
	c.cut()
	return max(0, time.Since(began)-20*time.Millisecond)
}

// Cuts has the second member lose a cable after another, and ways of one direction. What tells it at once is taken over at once;
// what it cannot know, when its lease has run out.
func (b *Bed) Cuts(lease, moment time.Duration) []Cut {
	ethernet := func(way string) func() { return func() { b.Segment("ip link set s2 " + way) } }
	infiniband := func(cut bool) func() { return func() { b.no(b.Subnet.Cut(b.GUID(2), cut)) } }
	etcd := func(way string) func() { return func() { b.Segment("ip link set e2 " + way) } }
	unheard := func(command string) func() {
		return func() { b.Machine(2, "tc qdisc "+command+" dev etcd root blackhole") }
	}
	return append([]Cut{
		{"one loses its Ethernet cable", moment, false, ethernet("down"), ethernet("up")},
		{"one loses its InfiniBand cable", moment, false, infiniband(true), infiniband(false)},
		{"one is cut from etcd", lease + moment, false, etcd("down"), etcd("up")},
		{"one hears etcd, and is not heard", lease + moment, false, unheard("add"), unheard("del")},
	}, b.directions(lease+moment)...)
}

// directions are those in which a member's fabric can fail while its link is up.
func (b *Bed) directions(most time.Duration) []Cut {
	deaf := func(command string) func() {
		return func() { b.Segment("tc qdisc " + command + " dev s2 root blackhole") }
	}
	// A bridge takes nothing from a port that is locked but of hosts that it knows there, and that it is to forget.
	mute := func(locked string) func() {
		return func() { b.Segment("ip link set s2 type bridge_slave locked " + locked + " fdb_flush") }
	}
	parted := func(from, to int, is bool) func() {
		return func() { b.Subnet.Part(b.GUID(from), b.GUID(to), is) }
	}
	return []Cut{
		{"one hears nobody on Ethernet, though its port is up", most, false, deaf("add"), deaf("del")},
		{"nobody hears one on Ethernet, though its port is up", most, true, mute("on"), mute("off")},
		{"one hears nobody on InfiniBand, though its port is up", most, false, parted(0, 2, true), parted(0, 2, false)},
		{"nobody hears one on InfiniBand, though its port is up", most, true, parted(2, 0, true), parted(2, 0, false)},
	}
}

// Apart has the second and the third member not hear each other on either fabric, and hear each other again.
func (b *Bed) Apart(is bool) {
	isolated := map[bool]string{false: "off", true: "on"}[is]
	for _, n := range []int{2, 3} {
		b.Segment(fmt.Sprintf("ip link set s%d type bridge_slave isolated %s", n, isolated))
		b.Subnet.Part(b.GUID(n), b.GUID(5-n), is)
	}
}

// A Hindrance is there for half of the time.
type Hindrance struct {
	What   string
	half   time.Duration
	hinder func(on bool)
}

// Hindrances has the first member's InfiniBand link have no credits, in each direction, and its process stand still. What it has
// posted leaves late, and still before what its successors send; and what it hears late others have forwarded.
func (b *Bed) Hindrances(lease time.Duration) []Hindrance {
	guid := b.GUID(1)
	return []Hindrance{
		{"one whose InfiniBand link stalls", 25 * time.Millisecond, func(on bool) { b.no(b.Subnet.Stall(guid, on)) }},
		{"one that InfiniBand's messages come to late", lease / 100, func(on bool) { b.no(b.Subnet.Withhold(guid, on)) }},
		{"one that is slow", 25 * time.Millisecond, func(on bool) {
			b.no(syscall.Kill(b.Process(1), map[bool]syscall.Signal{false: syscall.SIGCONT, true: syscall.SIGSTOP}[on]))
		}},
	}
}

// During has something happen while it hinders. What hinders runs by a thread that waits for nobody: else a busy machine would make
// it longer than it is meant to be.
func (h Hindrance) During(happens func()) {
	ended, hindering := make(chan struct{}), sync.WaitGroup{}
	hindering.Go(func() {
		runtime.LockOSThread()                          // for good: the thread ends with its goroutine
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // of the thread; members' namespaces need root, too
		defer h.hinder(false)
		for on := true; ; on = !on {
			h.hinder(on)
			select {
			case <-ended:
				return
			case <-time.After(h.half):
			}
		}
	})
	defer func() { // in any case: it reports mistakes to the test
		close(ended)
		hindering.Wait()
	}()
	happens()
}

// GUID is that of a member's port; 0 for 0.
func (b *Bed) GUID(member int) ib.GUID {
	b.T.Helper()
	if member == 0 {
		return 0
	}
	return b.port(member).GUID
}

// GID is that of a member's port.
func (b *Bed) GID(member int) ib.GID {
	b.T.Helper()
	return b.port(member).GID
}

func (b *Bed) port(member int) fabric.PortInfo {
	b.T.Helper()
	ports := b.Subnet.Ports()
	i := slices.IndexFunc(ports, func(p fabric.PortInfo) bool { return memberOf(p.Name) == member })
	if i < 0 {
		b.T.Fatalf("m%d is not on the subnet: %v", member, ports)
	}
	return ports[i]
}

// no reports a mistake.
func (b *Bed) no(err error) {
	b.T.Helper()
	if err != nil {
		b.T.Error(err)
	}
}
