// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"causeway/fleet/shards"
)

// sharedByAll is what is pushed first: less than the members' files have.
const sharedByAll = `[policy]
allow = ["10.9.0.0/24"]
[[group]]
ip = "239.1.2.1"
`

// push pushes a text, or shows what was pushed.
func (f *bridgeFleet) push(text string) *program {
	f.t.Helper()
	words := []string{os.Args[0], "push", "-c", f.files[1], "-wait", "4s"}
	if text != "" {
		file := filepath.Join(f.t.TempDir(), "shared.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
		words = append(words, file)
	}
	return f.program(f.segment, words...)
}

// pushed checks how a push ends, and what it says.
func (f *bridgeFleet) pushed(p *program, code int, says ...string) {
	f.t.Helper()
	got := p.wait()
	said := p.stdout.String() + p.stderr.String()
	for _, part := range says {
		if got != code || !strings.Contains(said, part) {
			f.t.Fatalf("exit code %d, want %d and %q:\n%s", got, code, part, said)
		}
	}
}

// followed returns how often a member changed to pushed configurations, and the version of the last one.
func followed(p *program) (times, version int) {
	for _, x := range p.lines() {
		if x["msg"] == "fleet_push_followed" {
			times, version = times+1, int(x["version"].(float64))
		}
	}
	return times, version
}

// TestFleetPush gives two bridges another configuration, which a third one takes when it comes; has one refuse one, which
// changes nothing; has one turn unready, which is undone; kills a push, which is undone, too; and has etcd lose it, which gets it
// back.
func TestFleetPush(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.keys += "configuration = \"etcd\"\n"
	f.start(1)
	f.start(2)
	f.shard("half each", shards.Hosts/2, 1, 2)
	f.pushed(f.push("[bridge]\nname = \"x\"\n"), exitFailed, "shared.toml:2: bridge: name is each member's own")
	f.pushed(f.push(sharedByAll), exitOK, "m1 has it.\nm2 has it.\nFleet test has configuration 1.")
	f.shard("half each after the push", shards.Hosts/2, 1, 2)
	f.start(3)
	f.shard("a third each", shards.Hosts/3, 1, 2, 3)
	is := func(what string, times int) {
		t.Helper()
		f.pushed(f.push(""), exitOK, "Fleet test has configuration 1, which process ", "m1      1", "m2      1", "m3      1")
		if n, version := followed(f.members[1]); n != times || version != 1 {
			t.Errorf("%s: m1 changed %d times, want %d, and last to version %d", what, n, times, version)
		}
		for n := 2; n <= 3; n++ {
			if times, _ := followed(f.members[n]); times != 3-n {
				t.Errorf("%s: m%d changed %d times", what, n, times)
			}
		}
		if says := f.ctl(2, "show", "fleet"); !strings.Contains(says, "members last had version 1 by m1, m2, m3.") {
			t.Errorf("%s: show fleet says %s", what, says)
		}
	}
	is("followed", 1)
	host := func(ip string) string {
		return sharedByAll + fmt.Sprintf("[[host]]\nip = %q\nside = \"ib\"\ngid = \"fe80::99\"\n", ip)
	}
	f.pushed(f.push(host("10.9.0.102")), exitFailed, "configuration 2 is not the fleet's: nothing was changed: m2 refuses it: ", "10.9.0.102")
	is("refused", 1)
	f.pushed(f.push(host("10.9.0.99")), exitFailed, "configuration 3 is not the fleet's: m1 is not ready: it waits for 1 joins, paths and P_Keys", "m1 has gone back to configuration 1.")
	is("undone", 3)
	killed := f.push(host("10.9.0.99"))
	f.members[1].await("that m1 follows", func() bool { n, _ := followed(f.members[1]); return n == 4 })
	f.pushed(f.push(sharedByAll), exitFailed, "another push is under way: process ")
	signalTo(t, killed, syscall.SIGKILL)
	f.members[1].await("that m1 goes back", func() bool { n, _ := followed(f.members[1]); return n == 5 })
	f.members[1].await("that m1 says so", func() bool { return strings.Contains(f.ctl(2, "show", "fleet"), "version 1 by m1, m2, m3.") })
	is("killed", 5)
	f.replaced(func(n int) { f.segment.do(t, "rm -rf "+f.etcd[n].data()) })
	f.numbered(1, func(is int) bool { return is > 0 })
	f.members[1].await("that etcd has it again", func() bool { return strings.Contains(f.ctl(2, "show", "fleet"), "version 1 by m1, m2, m3.") })
	is("etcd has lost its data", 5)
	f.shard("a third each at the end", shards.Hosts/3, 1, 2, 3)
}
