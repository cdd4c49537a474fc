// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"syscall"
	"time"

	"causeway/fleet/shards"
)

// successorStops has a member stand still while it gets shards of one that is drained, until the third one has them all. When it goes on
// it may say nothing of what it was about to have.
func (f *bridgeFleet) successorStops(most time.Duration) {
	const times = 3
	f.during("a successor is stopped while shards pass to it", times*most, func() {
		for i := range times {
			began := time.Now()
			drain := f.program(f.segment, os.Args[0], "ctl", "-s", f.console(1), "fleet", "drain")
			time.Sleep(time.Duration(10+15*i) * time.Millisecond)
			signalTo(f.t, f.members[2], syscall.SIGSTOP)
			drain.wait()
			f.shard("all while the successor stands still", shards.Hosts, 3)
			time.Sleep(2*time.Second - time.Since(began))
			signalTo(f.t, f.members[2], syscall.SIGCONT)
			f.shard("half each when it goes on", shards.Hosts/2, 2, 3)
			f.switched()
			f.ctl(1, "fleet", "resume")
			f.shard("a third each after that", shards.Hosts/3, 1, 2, 3)
		}
	})
}

// stands has each of etcd's servers stand still while a member is drained and resumes: what it was asked, another one is asked, and
// who watches there notices that it tells nothing.
func (f *bridgeFleet) stands() {
	f.during("one of etcd's servers stands still while one is drained and resumes", 0, func() {
		for n, v := range f.etcd {
			signalTo(f.t, v.program, syscall.SIGSTOP)
			f.drain(1)
			f.shard("half each while a server of etcd stands still", shards.Hosts/2, 2, 3)
			f.ctl(1, "fleet", "resume")
			f.shard("a third each while a server of etcd stands still", shards.Hosts/3, 1, 2, 3)
			signalTo(f.t, v.program, syscall.SIGCONT)
			f.caughtUp(n)
		}
	})
}
