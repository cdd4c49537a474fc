// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/fleet/bfd"
)

// TestUp: all sessions come up, with what each member hears of the others, and nothing is dropped.
func TestUp(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		a := r.members["a"]
		all := a.Sessions()
		if len(all) != 4 {
			t.Fatalf("%+v", all)
		}
		for i, s := range all {
			if want := []string{"b ethernet", "b infiniband", "c ethernet", "c infiniband"}[i]; s.Member+" "+s.Way != want || s.Process != r.members[s.Member].config.Process {
				t.Errorf("%+v is no session of %s", s, want)
			}
			if s.State != bfd.Up || s.Remote != bfd.Up || s.Received < 10 || s.Sent < 10 || s.Counter < s.Received || time.Since(s.Since) < time.Second {
				t.Errorf("%+v", s)
			}
			if want := map[string]uint8{"ethernet": 1, "infiniband": 1}; !reflect.DeepEqual(s.Others, want) {
				t.Errorf("%s hears on %s %v others", s.Member, s.Way, s.Others)
			}
		}
		for why, n := range a.Dropped() {
			if n > 0 && why != "unknown_sender" && why != "replayed" { // one of whom etcd tells others first; messages that were overtaken
				t.Errorf("%d are dropped: %s", n, why)
			}
		}
		up := a.logged("fleet_peer_up")
		slices.Sort(up)
		if want := []string{"level=INFO msg=fleet_peer_up member=b fabric=ethernet", "level=INFO msg=fleet_peer_up member=b fabric=infiniband",
			"level=INFO msg=fleet_peer_up member=c fabric=ethernet", "level=INFO msg=fleet_peer_up member=c fabric=infiniband"}; !slices.Equal(up, want) {
			t.Errorf("logged is %q", up)
		}
	})
}

// TestEnd: a member that ends in order says so, though most of what it says is lost, and etcd is away; or etcd alone says so.
// Nobody warns of it.
func TestEnd(t *testing.T) {
	for why, away := range map[string]bool{"the member has ended in order": true, "the process has ended": false} {
		fleet(t, 1, "abc", func(r *rig) {
			said := 0
			r.mu.Lock()
			r.away = away
			r.cut = func(from, _ string, _ Fabric) bool {
				if from == "c" {
					said++
				}
				return said <= 8 || !away // two of what it says to each, or all
			}
			r.mu.Unlock()
			c := r.members["c"]
			began := time.Now()
			c.end()
			<-c.ended
			if took := time.Since(began); took > 50*time.Millisecond {
				t.Errorf("%s: it ends after %v", why, took)
			}
			time.Sleep(5 * time.Millisecond)
			r.mu.Lock()
			delete(r.members, "c")
			r.mu.Unlock()
			for name, n := range r.members {
				if all := n.Sessions(); away != n.Down("c") || !away && len(all) != 2 {
					t.Errorf("%s: %s has %+v", why, name, all)
				}
				lines := n.logged("fleet_peer_down")
				if all := strings.Join(lines, " "); len(lines) != 2 || strings.Count(all, why) != 2 || strings.Count(all, "level=INFO") != 2 {
					t.Errorf("%s: %s logs %q", why, name, lines)
				}
			}
			if n := len(c.logged("fleet_peer_down")); n > 0 {
				t.Errorf("%s: the one that ends logs %d lines", why, n)
			}
		})
	}
}

// TestStoreAway: what is known stays while etcd does not answer, and so do sessions.
func TestStoreAway(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		r.leave()
		time.Sleep(30 * time.Second)
		r.up()
		if lines := r.members["a"].logged("fleet_peer_down"); len(lines) > 0 {
			t.Errorf("%q", lines)
		}
		r.kill("c") // it cannot say so, either
		time.Sleep(time.Second)
		if !r.members["a"].Down("c") || len(r.members["a"].Sessions()) != 4 {
			t.Errorf("%+v", r.members["a"].Sessions())
		}
		r.start("c")
		time.Sleep(time.Second)
		if n := r.members["c"]; n.Word(nil) == nil || len(n.Sessions()) > 0 {
			t.Errorf("without etcd it knows %+v", n.Sessions())
		}
		r.mu.Lock()
		r.away = false
		r.mu.Unlock()
		r.up()
	})
}

// TestEmptied: members of a fleet whose etcd was emptied, or set back to before they had started, hear each other again; a copy of what
// they said before is worth nothing.
func TestEmptied(t *testing.T) {
	for name, back := range map[string]func(r *rig){
		"emptied":  func(r *rig) { r.founding, r.records = r.founding+1, map[string]Record{} },
		"set back": func(r *rig) { r.records = map[string]Record{"a": {Process: 1}, "b": {Process: 2}, "x": {Process: 3}} },
	} {
		t.Run(name, func(t *testing.T) {
			fleet(t, 1, "abc", func(r *rig) {
				before := r.members["a"].identity.Load()
				r.leave()
				time.Sleep(time.Second) // watches end
				r.mu.Lock()
				back(r)
				r.away = false
				r.mu.Unlock()
				time.Sleep(5 * time.Second)
				r.mu.Lock()
				delete(r.records, "x")
				r.mu.Unlock()
				if err := r.change(func() {}); err != nil {
					t.Fatal(err)
				}
				r.up()
				now := r.members["a"].identity.Load()
				if bytes.Equal(now.secret, before.secret) != (name == "set back") {
					t.Error("the secret is that of before")
				}
			})
		})
	}
}

// TestRemoved: a record that somebody removed comes back.
func TestRemoved(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		if err := r.change(func() { delete(r.records, "b") }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r.up()
	})
}

// TestReach: a member whose address changes is reached at the new one, and one that has none is not called.
func TestReach(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		b := r.members["b"]
		b.Reach(Ethernet, "nowhere")
		time.Sleep(time.Second)
		a := r.members["a"]
		unsent := a.Dropped()["unsent"]
		if s := a.Sessions()[0]; s.State == bfd.Up || unsent == 0 {
			t.Errorf("%+v; %d are not sent", s, unsent)
		}
		b.Reach(Ethernet, "")
		time.Sleep(time.Second)
		unsent = a.Dropped()["unsent"]
		time.Sleep(10 * time.Second)
		if n := a.Dropped()["unsent"]; n > unsent {
			t.Errorf("%d are sent to no address", n-unsent)
		}
		b.Reach(Ethernet, "b")
		time.Sleep(2 * time.Second)
		r.up()
	})
}

// TestWords: each is heard by all, once by each fabric, at once.
func TestWords(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		longest := strings.Repeat("w", MaxWord)
		for _, word := range []string{"first", longest} {
			b := []byte(word)
			if err := r.members["b"].Word(b); err != nil {
				t.Error(err)
			}
			clear(b)
			time.Sleep(4 * time.Millisecond)
		}
		for name, want := range map[string][]string{"a": {"b: first", "b: first", "b: " + longest, "b: " + longest}, "b": nil} {
			if heard := r.members[name].words(); !slices.Equal(heard, want) {
				t.Errorf("%s hears %q", name, heard)
			}
		}
		if err := r.members["b"].Word(make([]byte, MaxWord+1)); err == nil {
			t.Error("a word that is too long is said")
		}
		failed := false
		for range 100 { // before Run's goroutine takes any
			failed = r.members["b"].Word([]byte("x")) != nil || failed
		}
		synctest.Wait()
		if !failed {
			t.Error("any number of words is taken")
		}
		r.up()
	})
}

// TestStandsStill: a process that stood still for the detection time takes what came meanwhile before it takes anybody for
// lost. Others may have missed its own messages, and say so.
func TestStandsStill(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		a := r.members["a"]
		r.mu.Lock()
		a.stands = time.Now().Add(3*DefaultInterval + 7*time.Millisecond) // what comes is with the ways, until shortly after it goes on
		r.mu.Unlock()
		a.later(func() { time.Sleep(3 * DefaultInterval) })
		time.Sleep(time.Second)
		if lines := a.logged("fleet_peer_down"); slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, "Expired") }) {
			t.Errorf("%q", lines)
		}
	})
}

// later has Run's goroutine do something.
func (n *node) later(f func()) {
	n.Peers.mu.Lock()
	n.Peers.later = append(n.Peers.later, f)
	n.Peers.mu.Unlock()
}

// TestReplay: what was recorded keeps no session up, on no fabric, and brings no word again.
func TestReplay(t *testing.T) {
	fleet(t, 1, "ab", func(r *rig) {
		var recorded [][]byte
		r.mu.Lock()
		r.saw = func(from, _ string, f Fabric, message []byte) {
			if from == "a" && f == Ethernet {
				recorded = append(recorded, message)
			}
		}
		r.mu.Unlock()
		if err := r.members["a"].Word([]byte("word")); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		r.kill("a")
		b := r.members["b"]
		time.Sleep(5 * time.Millisecond)
		heard, overtaken := len(b.words()), b.Dropped()["replayed"]
		for _, message := range recorded {
			b.Received(Ethernet, message)
			b.Received(InfiniBand, message)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(3 * DefaultInterval)
		if n := uint64(len(recorded)); !b.Down("a") || b.Dropped()["replayed"]-overtaken != n || b.Dropped()["other_fabric"] != n || len(b.words()) != heard {
			t.Errorf("of %d messages %v are dropped, and %+v", n, b.Dropped(), b.Sessions())
		}
	})
}

// TestConfigs: what is no member is rejected.
func TestConfigs(t *testing.T) {
	good := Config{Fleet: "east", Name: "a", Store: newRig(t, 0), Log: slog.New(slog.DiscardHandler)}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Fleet = "" }, func(c *Config) { c.Name = "" }, func(c *Config) { c.Store = nil }, func(c *Config) { c.Log = nil },
		func(c *Config) { c.Interval = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%+v is a member", c)
		}
	}
}
