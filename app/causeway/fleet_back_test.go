// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"causeway/fleet/shards"
)

// data is where a server of etcd keeps what it has.
func (v voter) data() string { return filepath.Join(v.dir, "member") }

// replaced has all servers of etcd be killed, and start with other data.
func (f *bridgeFleet) replaced(with func(n int)) {
	f.t.Helper()
	f.voters(syscall.SIGKILL)
	for n, v := range f.etcd {
		v.program.wait()
		with(n)
	}
	for n, v := range f.etcd {
		f.vote(n, v.dir)
	}
	for n := range f.etcd {
		f.caughtUp(n)
	}
}

// numbered waits until a member knows of an assignment of such a number, and returns it.
func (f *bridgeFleet) numbered(n int, such func(int) bool) (is int) {
	f.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		says := f.ctl(n, "show", "fleet")
		_, after, _ := strings.Cut(says, "its assignment number ")
		if _, err := fmt.Sscan(after, &is); err == nil && such(is) {
			return is
		}
		if time.Now().After(end) {
			f.t.Fatalf("m%d does not get such an assignment:\n%s", n, says)
		}
	}
}

// drains has the last member be drained and resume, while others share the work.
func (f *bridgeFleet) drains(others ...int) {
	f.t.Helper()
	f.drain(3)
	f.shard("all without the last", shards.Hosts/len(others), others...)
	f.ctl(3, "fleet", "resume")
	f.shard("all with the last again", shards.Hosts/(len(others)+1), append(others, 3)...)
}

// setBack has etcd be set back by a copy of its data, while one member is cut off from it, until the assignments' numbers are those
// again that this one knows of others; and then lose all that it had.
func (f *bridgeFleet) setBack(lease time.Duration) {
	f.during("etcd is set back while one is cut off", 5*lease, func() {
		copies := f.t.TempDir()
		had := f.assignment()
		f.replaced(func(n int) { f.segment.do(f.t, fmt.Sprintf("cp -a %s %s/%d", f.etcd[n].data(), copies, n)) })
		f.drains(1, 2)
		f.machine[2].do(f.t, "ip link set etcd down")
		f.shard("half each while one is cut off", shards.Hosts/2, 1, 3)
		last := f.numbered(1, func(int) bool { return true })
		f.replaced(func(n int) {
			f.segment.do(f.t, "rm -rf "+f.etcd[n].data())
			f.segment.do(f.t, fmt.Sprintf("cp -a %s/%d %s", copies, n, f.etcd[n].data()))
		})
		f.numbered(1, func(is int) bool { return is < last })
		f.shard("half each after etcd was set back", shards.Hosts/2, 1, 3)
		for f.numbered(1, func(int) bool { return true }) < last {
			f.drains(1)
		}
		f.machine[2].do(f.t, "ip link set etcd up")
		f.shard("a third each after etcd was set back", shards.Hosts/3, 1, 2, 3)
		f.gone += last - had
	})
	f.during("etcd has lost its data", 5*lease, func() {
		had := f.assignment()
		f.replaced(func(n int) { f.segment.do(f.t, "rm -rf "+f.etcd[n].data()) })
		f.numbered(1, func(is int) bool { return is < had-f.gone })
		f.shard("a third each after etcd has lost its data", shards.Hosts/3, 1, 2, 3)
		f.gone = had
	})
	f.spread()
}
