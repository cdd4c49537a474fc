// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/shards"
)

// held is a time in which a member would have forwarded a shard.
type held struct {
	name       string
	from, till int64
}

// forwardings reads what a member told, and adds to what each shard was forwarded by.
func forwardings(t *testing.T, name, told string, all map[shards.Shard][]held) {
	t.Helper()
	open, until := map[shards.Shard]int64{}, int64(0)
	// pass ends what is open, or goes on with it, at a time, by a lease that lasted so long.
	pass := func(at int64, which []shards.Shard, on bool) {
		for _, s := range which {
			if from, ok := open[s]; ok && min(at, until) > from {
				all[s] = append(all[s], held{name, from, min(at, until)})
			}
			if delete(open, s); on {
				open[s] = at
			}
		}
	}
	every := func() (which []shards.Shard) {
		for s := range open {
			which = append(which, s)
		}
		return which
	}
	last := int64(0)
	for line := range strings.Lines(told) {
		var e gateEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			break // a process that was killed in a line
		}
		switch last = e.At; e.Event {
		case "until":
			pass(e.At, every(), true)
			until = e.Until
		default:
			pass(e.At, e.Shards, e.Event == "open")
		}
	}
	pass(max(last, until), every(), false)
}

// rehearsed are members of a fleet, each a process.
type rehearsed struct {
	t    *testing.T
	args []string
	all  map[shards.Shard][]held
}

func (r *rehearsed) start(name string) *program {
	r.t.Helper()
	return launch(r.t, append(slices.Clone(r.args), "-name", name)...)
}

// ended takes in what a member told.
func (r *rehearsed) ended(name string, p *program) {
	r.t.Helper()
	if said := p.stderr.String(); said != "" {
		r.t.Errorf("%s: %s", name, said)
	}
	forwardings(r.t, name, p.stdout.String(), r.all)
}

// owns counts what a member has open by what it told.
func owns(p *program) int {
	open := map[shards.Shard]bool{}
	for line := range strings.Lines(p.stdout.String()) {
		var e gateEvent
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		for _, s := range e.Shards {
			open[s] = e.Event == "open"
		}
	}
	n := 0
	for _, yes := range open {
		if yes {
			n++
		}
	}
	return n
}

// shard waits until members have so many shards each, all together all of them.
func shard(what string, least int, members ...*program) {
	members[0].t.Helper()
	members[0].await(what, func() bool {
		sum := 0
		for _, m := range members {
			n := owns(m)
			if sum += n; n < least {
				return false
			}
		}
		return sum == shards.Count
	})
}

// TestFleetRehearsal has three members share the work by a real etcd, while one is killed, one is stopped and goes on, and
// etcd is stopped, too: at no time do two forward one shard.
func TestFleetRehearsal(t *testing.T) {
	t.Parallel()
	url, etcd := etcdtest.Start(t)
	r := &rehearsed{t, []string{"fleet", "rehearse", "-json", "-etcd", url}, map[shards.Shard][]held{}}
	a, b, c := r.start("a"), r.start("b"), r.start("c")
	shard("a third each", shards.Count/3-1, a, b, c)
	signalTo(t, a, syscall.SIGKILL)
	began := time.Now()
	shard("half each", shards.Count/2-1, b, c)
	t.Logf("a killed: all of its shards have another after %v", time.Since(began))
	a.wait()
	r.ended("a", a)
	a = r.start("a")
	shard("a third each again", shards.Count/3-1, a, b, c)
	signalTo(t, b, syscall.SIGSTOP)
	began = time.Now()
	a.await("all of b's", func() bool { return owns(a)+owns(c) == shards.Count })
	t.Logf("b stopped: all of its shards have another after %v", time.Since(began))
	signalTo(t, b, syscall.SIGCONT)
	shard("a third each after b went on", shards.Count/3-1, a, b, c)
	sendSignal(t, etcd, syscall.SIGSTOP)
	time.Sleep(2500 * time.Millisecond) // all leases run out
	sendSignal(t, etcd, syscall.SIGCONT)
	shard("a third each after etcd went on", shards.Count/3-1, a, b, c)
	for name, p := range map[string]*program{"a": a, "b": b, "c": c} {
		p.end(syscall.SIGTERM)
		r.ended(name, p)
	}
	for s, all := range r.all {
		slices.SortFunc(all, func(x, y held) int { return cmp.Compare(x.from, y.from) })
		for i := range max(0, len(all)-1) {
			if x, y := all[i], all[i+1]; y.from < x.till && x.name != y.name {
				t.Fatalf("%v was forwarded by %s until %d, and by %s from %d", s, x.name, x.till, y.name, y.from)
			}
		}
	}
	if len(r.all) != shards.Count {
		t.Errorf("%d shards were forwarded, of %d", len(r.all), shards.Count)
	}
}

func signalTo(t *testing.T, p *program, which syscall.Signal) {
	t.Helper()
	sendSignal(t, p.cmd.Process, which)
}

func sendSignal(t *testing.T, p *os.Process, which syscall.Signal) {
	t.Helper()
	if err := p.Signal(which); err != nil {
		t.Fatal(err)
	}
}
