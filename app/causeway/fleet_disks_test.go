// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/shards"
)

// stalledFor is how long a disk is stalled: longer than a lease, and six of etcd's elections.
const stalledFor = 1500 * time.Millisecond

// disk returns where one of etcd's servers keeps its data: a file system of its own, which can be frozen. It is mounted where
// the segment's programs are, and gone with the last of them, however the test ends.
func (f *bridgeFleet) disk(n int) (dir string) {
	f.t.Helper()
	dir = f.t.TempDir()
	image := filepath.Join(etcdtest.Dir(f.t), fmt.Sprint("disk", n))
	file, err := os.Create(image)
	if err == nil {
		err = errors.Join(file.Truncate(1<<30), file.Close()) // it takes as much of that as is written
	}
	if err != nil {
		f.t.Fatal(err)
	}
	for _, line := range []string{"mkfs.ext4 -q -E nodiscard " + image, "mount -o loop " + image + " " + dir} {
		words := append(f.segment[1:len(f.segment):len(f.segment)], strings.Fields(line)...)
		if out, err := exec.Command(f.segment[0], words...).CombinedOutput(); err != nil {
			f.noDisks = fmt.Sprintf("%s: %v: %s", line, err, out)
			break
		}
	}
	return dir
}

// stall has the disk of one of etcd's servers complete nothing for a time, while something happens. A process of its own thaws
// it, also when the test ends meanwhile.
func (f *bridgeFleet) stall(n int, happens func()) {
	f.t.Helper()
	script := `fsfreeze -f "$0" && { echo frozen; sleep "$1"; fsfreeze -u "$0"; }`
	words := append(f.segment[1:len(f.segment):len(f.segment)], "sh", "-c", script, f.etcd[n].dir, fmt.Sprint(stalledFor.Seconds()))
	freezer := exec.Command(f.segment[0], words...)
	said, err := freezer.StdoutPipe()
	if err == nil {
		err = freezer.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() {
		if err := freezer.Wait(); err != nil {
			f.t.Errorf("thaw: %v", err)
		}
	}()
	if n, err := said.Read(make([]byte, 64)); n == 0 {
		f.t.Fatalf("freeze: %v", err)
	}
	happens()
}

// leads returns which of these servers of etcd leads; -1: none.
func (f *bridgeFleet) leads(servers ...int) int {
	i := slices.IndexFunc(servers, func(n int) bool { return strings.Contains(f.ask(n, "/metrics"), "\netcd_server_is_leader 1") })
	if i < 0 {
		return -1
	}
	return servers[i]
}

// disks stalls the disk of etcd's leader, which goes on to say that it leads, and takes requests, but completes none. Members
// that ask it or watch there must get on by the others.
func (f *bridgeFleet) disks(lease time.Duration) {
	const what = "the disk of etcd's leader is stalled for longer than a lease"
	if f.noDisks != "" {
		f.t.Logf("LEFT OUT: %s: a file cannot be mounted here: %s", what, f.noDisks)
		return
	}
	f.during(what, lease, func() {
		leader := f.leads(0, 1, 2)
		if leader < 0 {
			f.t.Fatal("etcd has no leader")
		}
		f.stall(leader, func() {
			began, next := time.Now(), -1
			for next < 0 && time.Since(began) < stalledFor {
				next = f.leads((leader+1)%3, (leader+2)%3)
			}
			took := time.Since(began)
			f.t.Logf("the disk of etcd's server %d is stalled: after %v server %d leads, and %d says so still", leader, took, next, f.leads(leader))
		})
		f.caughtUp(leader)
	})
	f.shard("a third each after the stalled disk", shards.Hosts/3, 1, 2, 3)
}
