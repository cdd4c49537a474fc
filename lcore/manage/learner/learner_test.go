// SPDX-License-Identifier: Apache-2.0

package learner_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/learner/bounds"
	"causeway/lcore/manage/nodes"
)

type owners = map[netip.Addr]ib.GID

// TestLearn checks each way in which a node becomes known, and those in which none does.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(r *rig)
		want owners
	}{
		{"a RoCE host asks for its address", func(r *rig) { r.Wanted(addr(7), false, time.Now()) }, owners{addr(7): gid(7)}},
		{"its LID", func(r *rig) { r.kernel.heard(addr(7), gid(7)); r.Unknown(7, ib.GID{}, time.Now()) }, owners{addr(7): gid(7)}},
		{"its GID", func(r *rig) { r.kernel.heard(addr(7), gid(7)); r.Unknown(1, gid(7), time.Now()) }, owners{addr(7): gid(7)}},
		{"its GID before its address", func(r *rig) { r.Unknown(1, gid(7), time.Now()); r.turn(time.Second); r.kernel.heard(addr(7), gid(7)) },
			owners{addr(7): gid(7)}},
		{"nobody asks", func(r *rig) { r.kernel.heard(addr(7), gid(7)) }, nil},
		{"nobody has it", func(r *rig) { r.Wanted(addr(8), false, time.Now()) }, nil},
		{"a LID that nobody has", func(r *rig) { r.Unknown(0x999, ib.GID{}, time.Now()) }, nil},
		{"a GID without an address", func(r *rig) { r.Unknown(1, gid(9), time.Now()) }, nil},
		{"a GID that the subnet does not have", func(r *rig) { r.kernel.heard(addr(7), gid(0x77)); r.Unknown(1, gid(0x77), time.Now()) }, nil},
		{"the bridge's own GID", func(r *rig) { r.kernel.heard(addr(7), gid(0xa)); r.Wanted(addr(7), false, time.Now()) }, nil},
		{"a RoCE host has the address", func(r *rig) { r.hosts[addr(7)] = true; r.Wanted(addr(7), false, time.Now()) }, nil},
		{"a RoCE host has the address of a GID", func(r *rig) {
			r.hosts[addr(7)] = true
			r.kernel.heard(addr(7), gid(7))
			r.Unknown(1, gid(7), time.Now())
		}, nil},
		{"an address that is not allowed", func(r *rig) {
			r.SetAllow([]netip.Prefix{netip.PrefixFrom(addr(8), 32)})
			r.Wanted(addr(7), false, time.Now())
		}, nil},
		{"a configured node's GID", func(r *rig) { r.kernel.heard(addr(7), gid(5)); r.Wanted(addr(7), false, time.Now()) }, owners{addr(5): gid(5)}},
		{"a configured node's address", func(r *rig) { r.kernel.heard(addr(5), gid(7)); r.Unknown(1, gid(7), time.Now()) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, []nodes.Node{{IP4: addr(5), GID: gid(5), LID: 5}}, 8, func(r *rig) {
				r.kernel.set(func() { r.kernel.have[addr(7)] = gid(7) })
				c.does(r)
				r.turn(time.Second)
				want := owners{addr(5): gid(5)}
				for ip, g := range c.want {
					want[ip] = g
				}
				r.expect("in the end", want)
			})
		})
	}
}

// TestQuestions checks that a flood of messages and requests asks for little.
func TestQuestions(t *testing.T) {
	run(t, nil, 8, func(r *rig) {
		for range 1000 {
			r.Unknown(0x999, ib.GID{}, time.Now())
			r.Wanted(addr(9), false, time.Now())
		}
		r.turn(time.Second)
		if r.subnet.asked != 1 || len(r.kernel.asked) != 1 {
			t.Errorf("asked the subnet administrator %d times, the kernel for %v", r.subnet.asked, r.kernel.asked)
		}
		r.turn(3 * time.Second)
		r.Unknown(0x999, ib.GID{}, time.Now())
		r.turn(time.Second)
		if r.subnet.asked != 2 {
			t.Errorf("asked %d times", r.subnet.asked)
		}
		for lid := range ib.LID(2000) {
			r.Unknown(0x1000+lid, ib.GID{}, time.Now())
		}
		r.turn(time.Second)
		if c := r.Counters(); c.NodesRejected == 0 || r.subnet.asked > 1100 {
			t.Errorf("asked %d times, %+v", r.subnet.asked, c)
		}
	})
}

// TestStrangersQuestions checks that hosts which have never answered leave others half of the questions.
func TestStrangersQuestions(t *testing.T) {
	run(t, nil, 8, func(r *rig) {
		r.kernel.set(func() { r.kernel.waits = true })
		ip := six
		ask := func(n int, stranger bool) uint64 {
			before := r.Counters().NodesAsked
			for range n {
				ip = ip.Next()
				r.Wanted(ip, stranger, time.Now())
			}
			return r.Counters().NodesAsked - before
		}
		if n := ask(2000, true); n != bounds.MostForStrangers {
			t.Errorf("strangers asked %d questions", n)
		}
		if n := ask(1000, false); n != bounds.Most-bounds.MostForStrangers {
			t.Errorf("others asked %d questions", n)
		}
		r.turn(bounds.Rest)
		if n := ask(100, true); n != 100 {
			t.Errorf("later, strangers asked %d of 100 questions", n)
		}
	})
}

// TestAddresses checks that a learned node's addresses are followed.
func TestAddresses(t *testing.T) {
	run(t, nil, 8, func(r *rig) {
		r.kernel.set(func() { r.kernel.have[addr(7)], r.kernel.have[six] = gid(7), gid(7) })
		r.Wanted(addr(7), false, time.Now())
		r.turn(time.Second)
		r.Wanted(six, false, time.Now())
		r.turn(time.Second)
		if x, ok := r.nodes.Find(gid(7)); !ok || x.IP4 != addr(7) || x.IP6 != six {
			t.Errorf("it is %+v", x)
		}
		r.kernel.heard(addr(8), gid(7))
		r.turn(5 * time.Second)
		r.expect("a second address while it has the first", owners{addr(7): gid(7)})
		r.kernel.set(func() { delete(r.kernel.have, addr(7)) })
		r.kernel.heard(addr(8), gid(7))
		r.turn(5 * time.Second)
		r.expect("another address", owners{addr(8): gid(7)})
		r.kernel.heard(addr(8), gid(9))
		r.turn(5 * time.Second)
		if x, ok := r.nodes.Find(gid(7)); !ok || x.IP4.IsValid() || x.IP6 != six {
			t.Errorf("without its IPv4 address it is %+v", x)
		}
		r.expect("the address is another node's", owners{addr(8): gid(9)})
	})
}

// TestAnotherAddress checks that a node that has another address in place of its one is known by that, also when it was
// asked for the old one just before, and that nobody is asked for its path again.
func TestAnotherAddress(t *testing.T) {
	run(t, nil, 8, func(r *rig) {
		r.kernel.set(func() { r.kernel.have[addr(7)] = gid(7) })
		r.Wanted(addr(7), false, time.Now())
		r.turn(time.Minute)
		r.Claimed(addr(7), time.Now())
		r.turn(time.Second)
		r.expect("claimed", owners{addr(7): gid(7)})
		asked := r.subnet.asked
		r.kernel.set(func() {
			delete(r.kernel.have, addr(7))
			r.kernel.have[addr(8)] = gid(7)
		})
		for range 6 {
			r.Wanted(addr(8), false, time.Now())
			r.turn(time.Second)
		}
		r.expect("another address", owners{addr(8): gid(7)})
		if c := r.Counters(); c.NodesRejected != 0 || r.subnet.asked != asked {
			t.Errorf("%+v; the administrator was asked %d times", c, r.subnet.asked-asked)
		}
	})
}

// TestAgeing checks that a node that is used, or answers, stays; any other goes.
func TestAgeing(t *testing.T) {
	run(t, nil, 8, func(r *rig) {
		for _, n := range []byte{7, 8, 9} {
			r.kernel.set(func() { r.kernel.have[addr(n)] = gid(uint64(n)) })
			r.Wanted(addr(n), false, time.Now())
		}
		r.turn(time.Second)
		r.used[gid(8)] = true
		r.kernel.set(func() { delete(r.kernel.have, addr(8)); delete(r.kernel.have, addr(9)) })
		r.turn(9 * time.Minute)
		r.expect("soon", owners{addr(7): gid(7), addr(8): gid(8), addr(9): gid(9)})
		r.turn(2 * time.Minute)
		r.expect("later", owners{addr(7): gid(7), addr(8): gid(8)})
		r.turn(time.Hour)
		r.expect("much later", owners{addr(7): gid(7), addr(8): gid(8)})
		if c := r.Counters(); c.NodesLearned != 3 || c.NodesAged != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestClaims checks that a claim from Ethernet changes nothing while the node answers on IPoIB, and frees its address
// when it does not.
func TestClaims(t *testing.T) {
	run(t, nil, 8, func(r *rig) {
		r.kernel.set(func() { r.kernel.have[addr(7)] = gid(7) })
		r.Wanted(addr(7), false, time.Now())
		r.turn(time.Second)
		for range 60 {
			r.Claimed(addr(7), time.Now())
			r.turn(time.Second)
		}
		r.expect("claims", owners{addr(7): gid(7)})
		r.kernel.set(func() { delete(r.kernel.have, addr(7)) })
		r.Claimed(addr(7), time.Now())
		r.turn(5 * time.Second)
		r.expect("the server has moved to Ethernet", nil)
	})
}

// TestRoom checks that a node in use makes no room for another, that an unused one does, and that configured ones come
// first.
func TestRoom(t *testing.T) {
	run(t, nil, 2, func(r *rig) {
		learn := func(n byte) {
			r.kernel.set(func() { r.kernel.have[addr(n)] = gid(uint64(n)) })
			r.Wanted(addr(n), false, time.Now())
			r.turn(time.Second)
		}
		learn(5)
		learn(7)
		learn(8)
		r.expect("all are new", owners{addr(5): gid(5), addr(7): gid(7)})
		r.used[gid(7)] = true
		r.turn(2 * time.Minute)
		learn(8)
		r.expect("one is unused", owners{addr(7): gid(7), addr(8): gid(8)})
		r.SetMax(1, time.Now())
		if r.Learned() != 1 {
			t.Errorf("%d are learned", r.Learned())
		}
		r.nodes.Set([]nodes.Node{{IP4: addr(7), GID: gid(9), LID: 9}})
		r.Reconcile()
		r.turn(time.Second)
		if r.nodes.GID(addr(7)) != gid(9) {
			t.Errorf("%v is %v's", addr(7), r.nodes.GID(addr(7)))
		}
		if c := r.Counters(); c.NodesEvicted != 2 || c.NodesRejected == 0 {
			t.Errorf("%+v", c)
		}
	})
}
