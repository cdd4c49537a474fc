// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"causeway/fleet/shares"
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
	for _, c := range []struct {
		what      string
		most      time.Duration
		cut, mend func()
	}{
		{"one loses its Ethernet cable", moment, ethernet("down"), ethernet("up")},
		{"one loses its InfiniBand cable", moment, infiniband(true), infiniband(false)},
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
