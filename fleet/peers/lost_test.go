// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fleet runs a test with members that are all up.
func fleet(t *testing.T, seed uint64, names string, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, seed)
		defer r.close()
		r.start(strings.Split(names, "")...)
		r.up()
		time.Sleep(time.Second)
		f(r)
	})
}

// part has messages cut on a fabric.
func (r *rig) part(cut func(from, to string, f Fabric) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
}

// lose has so many of a thousand messages lost.
func (r *rig) lose(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loss = n
}

func whole(string, string, Fabric) bool { return false }

// foundOut is how long a loss may take to be found: what a session and a witness take.
const foundOut = 450 * time.Millisecond

// TestDeaf: of three members the one that does not hear the others on a fabric, or is not heard there, has lost it, until it
// has it again.
func TestDeaf(t *testing.T) {
	for f := range Fabric(Fabrics) {
		for name, cut := range map[string]func(from, to string, by Fabric) bool{
			"deaf": func(_, to string, by Fabric) bool { return by == f && to == "b" },
			"mute": func(from, _ string, by Fabric) bool { return by == f && from == "b" },
			"both": func(from, to string, by Fabric) bool { return by == f && (from == "b" || to == "b") },
		} {
			fleet(t, 1, "abc", func(r *rig) {
				r.part(cut)
				if bad := r.during(3*DefaultInterval, f, ""); bad != "" {
					t.Errorf("%s, too early: %s", name, bad)
				}
				time.Sleep(foundOut - 3*DefaultInterval)
				if bad := r.during(5*time.Second, f, "b"); bad != "" {
					t.Errorf("%s: %s", name, bad)
				}
				want := fmt.Sprintf("no other member is heard on %v, where a, which is heard on %v, and c, which is heard on %[2]v, hears others", f, 1-f)
				if why := r.members["b"].Lost(f); why != want {
					t.Errorf("%s: %q", name, why)
				}
				if names := r.lost(1 - f); names != "" || r.members["a"].Down("b") || r.members["b"].Down("a") {
					t.Errorf("%s: %q have lost the other fabric; down: %v, %v", name, names, r.members["a"].Down("b"), r.members["b"].Down("a"))
				}
				r.part(whole)
				time.Sleep(1100 * time.Millisecond)
				if bad := r.during(time.Second, f, ""); bad != "" {
					t.Errorf("%s, later: %s", name, bad)
				}
			})
		}
	}
}

// TestNobodyIsLost where none can tell who is right, and where a fabric is dead for all, not even for a moment.
func TestNobodyIsLost(t *testing.T) {
	left := func(name string) bool { return name == "a" || name == "b" }
	for name, c := range map[string]struct {
		members string
		cut     func(from, to string, by Fabric) bool
	}{
		"two, one way":    {"ab", func(from, _ string, by Fabric) bool { return by == Ethernet && from == "a" }},
		"two, both ways":  {"ab", func(_, _ string, by Fabric) bool { return by == Ethernet }},
		"two, all":        {"ab", func(string, string, Fabric) bool { return true }},
		"three, all":      {"abc", func(string, string, Fabric) bool { return true }},
		"three, a cable":  {"abc", func(from, to string, by Fabric) bool { return by == Ethernet && from != "c" && to != "c" }},
		"two and two":     {"abcd", func(from, to string, by Fabric) bool { return by == Ethernet && left(from) != left(to) }},
		"two and three":   {"abcde", func(from, to string, by Fabric) bool { return by == Ethernet && left(from) != left(to) }},
		"a fabric, dead":  {"abc", func(_, _ string, by Fabric) bool { return by == Ethernet }},
		"of five members": {"abcde", func(_, _ string, by Fabric) bool { return by == Ethernet }},
	} {
		for seed := range uint64(4) {
			fleet(t, seed, c.members, func(r *rig) {
				r.lose(30)
				time.Sleep(time.Second + time.Duration(seed)*11*time.Millisecond)
				r.lose(0) // or else one of a pair may lose the other by itself
				r.part(c.cut)
				for f := range Fabric(Fabrics) {
					if bad := r.during(2*time.Second, f, ""); bad != "" {
						t.Errorf("%s, seed %d: %s", name, seed, bad)
					}
				}
			})
		}
	}
}

// TestDeadFabric: nobody is lost even where one has missed messages just before the fabric died, and so is the first whose
// sessions go down.
func TestDeadFabric(t *testing.T) {
	for seed := range uint64(8) {
		fleet(t, seed, "abc", func(r *rig) {
			time.Sleep(time.Duration(seed) * 11 * time.Millisecond)
			r.part(func(_, to string, by Fabric) bool { return by == Ethernet && to == "a" })
			time.Sleep(2*DefaultInterval - 10*time.Millisecond)
			r.part(func(_, _ string, by Fabric) bool { return by == Ethernet })
			if bad := r.during(5*time.Second, Ethernet, ""); bad != "" {
				t.Errorf("seed %d: %s", seed, bad)
			}
		})
	}
}

// TestNeverAll: whatever is cut between whom and when, of two members none is lost, and never are all.
func TestNeverAll(t *testing.T) {
	blamed := 0
	for seed := range uint64(8) {
		names := []string{"ab", "abc", "abcd", "abcde"}[seed%4]
		fleet(t, seed, names, func(r *rig) {
			for range 60 {
				cuts := map[string]bool{}
				r.mu.Lock()
				dense := r.random.IntN(100)
				for _, from := range names {
					for _, to := range names {
						cuts[fmt.Sprint(string(from), string(to), Ethernet)] = r.random.IntN(100) < dense
						cuts[fmt.Sprint(string(from), string(to), InfiniBand)] = r.random.IntN(100) < dense/4
					}
				}
				lasts := time.Duration(r.random.IntN(int(2 * time.Second)))
				r.cut = func(from, to string, by Fabric) bool { return cuts[fmt.Sprint(from, to, by)] }
				r.mu.Unlock()
				for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					for f := range Fabric(Fabrics) {
						lost := r.lost(f)
						blamed += len(lost)
						if lost == names || len(names) == 2 && lost != "" {
							t.Fatalf("seed %d: %q have lost %v", seed, lost, f)
						}
					}
				}
			}
		})
	}
	if blamed == 0 {
		t.Error("nobody is ever lost")
	}
}

// TestNeverHeard: a member that never heard anybody on a fabric has lost it, after the others had time to come.
func TestNeverHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		defer r.close()
		r.cut = func(_, to string, by Fabric) bool { return by == Ethernet && to == "b" }
		r.start("a", "b", "c")
		if bad := r.during(5*time.Second, Ethernet, ""); bad != "" {
			t.Errorf("early: %s", bad)
		}
		time.Sleep(foundOut)
		if bad := r.during(5*time.Second, Ethernet, "b"); bad != "" {
			t.Error(bad)
		}
	})
}

// TestDown: a member whose process has died is down for all, on all fabrics, within the detection time; who has lost a fabric,
// and the others, are not. Its next process is up again, and not down before it was.
func TestDown(t *testing.T) {
	fleet(t, 1, "abc", func(r *rig) {
		r.kill("c")
		time.Sleep(3*DefaultInterval + 3*time.Millisecond)
		for _, name := range []string{"a", "b"} {
			n := r.members[name]
			if !n.Down("c") || n.Down("a") || n.Down("b") || n.Down("nobody") {
				t.Errorf("for %s c is down: %v; a: %v; b: %v", name, n.Down("c"), n.Down("a"), n.Down("b"))
			}
			if lines := n.logged("fleet_peer_down"); len(lines) != 2 || !strings.HasPrefix(lines[0], `level=WARN msg=fleet_peer_down member=c fabric=`) ||
				!strings.Contains(lines[0], `diagnostic="Control Detection Time Expired"`) {
				t.Errorf("%s logs %q", name, lines)
			}
			if f := r.lost(Ethernet) + r.lost(InfiniBand); f != "" {
				t.Errorf("%q", f)
			}
		}
		r.start("c")
		time.Sleep(time.Millisecond)
		if r.members["a"].Down("c") {
			t.Error("the next process is down")
		}
		r.up()
		if lines := r.members["a"].logged("fleet_peer_up"); len(lines) != 6 {
			t.Errorf("logged is %q", lines)
		}
	})
}
