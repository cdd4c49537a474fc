// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"causeway/app/fleettest"
	"causeway/fleet/shards"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// shardOf returns the shard of a host.
func (f *bridgeFleet) shardOf(host int) shards.Shard {
	f.t.Helper()
	mac, err := frame.ParseMAC(regexp.MustCompile(`link/ether (\S+)`).FindStringSubmatch(f.hosts[host].do(f.t, "ip link show h0"))[1])
	if err != nil {
		f.t.Fatal(err)
	}
	return shards.OfHost(mac)
}

// ownerOf returns the number of the member that has a shard.
func (f *bridgeFleet) ownerOf(s shards.Shard) int {
	f.t.Helper()
	owner := regexp.MustCompile(fmt.Sprintf(`(?m)^%v +\S+ +m(\d+)`, s)).FindStringSubmatch(f.ctl(1, "show", "shards"))
	n, err := strconv.Atoi(owner[1])
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// switched checks that the switch, which forgets what has been silent for five seconds, knows each host shard at the port of the
// member that has it: by each announcement, or the one a second later.
func (f *bridgeFleet) switched() {
	f.t.Helper()
	line := regexp.MustCompile(`(?m)^host/\d+ +(\S+) +m(\d+)`)
	var wrong []string
	for end := time.Now().Add(fleettest.Bound(f.t)(2 * time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		known := f.segment.do(f.t, "bridge fdb show br br0")
		wrong = nil
		all := line.FindAllStringSubmatch(f.ctl(f.running()[0], "show", "shards"), -1)
		for _, x := range all {
			if !strings.Contains(known, fmt.Sprintf("%s dev s%s ", x[1], x[2])) {
				wrong = append(wrong, fmt.Sprintf("%s of m%s", x[1], x[2]))
			}
		}
		if len(all) == shards.Hosts && len(wrong) == 0 {
			return
		}
	}
	f.t.Errorf("the switch does not know %d shards where they are: %v\n%s", len(wrong), wrong, f.segment.do(f.t, "bridge fdb show br br0"))
}

// has waits until a member has a shard, for a reason by the words of show shards.
func (f *bridgeFleet) has(s shards.Shard, n int, why string) {
	f.t.Helper()
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^%v +\S+ +m%d .*open *%s`, s, n, why))
	for end := time.Now().Add(within); !line.MatchString(f.ctl(n, "show", "shards")); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("m%d does not get %v:\n%s", n, s, f.ctl(n, "show", "shards"))
		}
	}
}

// mgidOf returns a group's MGID.
func mgidOf(ip string) ib.GID { return ib.MGIDRDMACM(netip.MustParseAddr(ip), ib.PKeyDefault, 2) }

// spread pins shards of hosts and of groups to each member, so that nothing can happen to one without traffic.
func (f *bridgeFleet) spread() {
	f.t.Helper()
	pinned := map[shards.Shard]int{}
	for i := range 3 {
		pinned[f.shardOf(i)] = i + 1
	}
	for i, g := range toRoCE {
		pinned[shards.OfGroup(mgidOf(g))] = i%3 + 1
	}
	for s, n := range pinned {
		f.ctl(n, "fleet", "pin", s.String(), fmt.Sprint("m", n))
	}
	for s, n := range pinned {
		f.has(s, n, fmt.Sprint("m", n))
	}
}

// pin pins the shard of the last host, which is free, to each member in turn, and moves it away from where it is then.
func (f *bridgeFleet) pin() {
	f.t.Helper()
	s := f.shardOf(fleetHosts - 1)
	for n := 1; n <= 3; n++ {
		f.ctl(4-n, "fleet", "pin", s.String(), fmt.Sprint("m", n))
		f.has(s, n, fmt.Sprint("m", n))
	}
	f.ctl(1, "fleet", "unpin", s.String())
	to := f.ownerOf(s)%3 + 1
	f.ctl(2, "fleet", "move", s.String(), fmt.Sprint("m", to))
	f.has(s, to, "")
}

// listed has "causeway acm" list each host with the GID of the member that has it.
func (f *bridgeFleet) listed() {
	f.t.Helper()
	const unknown = "fe80::99"
	p := launch(f.t, "acm", "-gid", unknown, f.files[1])
	if code := p.wait(); code != exitOK {
		f.t.Fatalf("acm: %d: %v%v", code, &p.stdout, &p.stderr)
	}
	text := p.stdout.String()
	gids := map[string]ib.GID{}
	for _, port := range f.subnet.Ports() {
		gids[port.Name] = port.GID
	}
	for i := range f.hosts {
		owner := fmt.Sprint("m", f.ownerOf(f.shardOf(i)))
		if line := fmt.Sprintf("10.9.0.%d %v\n", i+1, gids[owner]); !strings.Contains(text, line) {
			f.t.Errorf("%s has host %d, but %q is not in\n%v", owner, i+1, line, text)
		}
	}
	if !strings.Contains(text, "10.9.0.99 "+unknown+"\n") {
		f.t.Errorf("a host that nobody knows is not the bridge's own in\n%v", text)
	}
}

// drain has a member leave its shards to the others. Where these cannot have them without a loss, as on a machine that is too busy, it
// says so, goes on with them and tries again.
func (f *bridgeFleet) drain(n int) {
	f.t.Helper()
	code, says, errs := try("ctl", "-s", f.console(n), "fleet", "drain")
	switch putOff := strings.Contains(errs, "goes on with them, and tries again"); {
	case code == exitFailed && putOff:
		f.t.Logf("m%d is not drained at once: %s", n, errs)
	case code != exitOK:
		f.t.Fatalf("m%d is not drained: %d: %s%s", n, code, says, errs)
	}
}
