// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"math/rand/v2"
	"testing"

	"causeway/fleet/shards"
)

// TestPins pins shards at random, with any history: a pinned one is its member's while that has a weight, all shards have an
// owner and a successor, and nobody but for pins has more than its part. Without pins the division is fair again.
func TestPins(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 10 { // some 300 pins, of members that number 2 to 9
		a := shards.Plan(bridges(2+r.IntN(8)), nil)
		pins := map[shards.Shard]string{}
		for range 1 + r.IntN(60) {
			s, m := shards.Shard(r.IntN(shards.Hosts)), a.Members[r.IntN(len(a.Members))].Name
			if r.IntN(4) == 0 {
				s += shards.Shard(r.IntN(shards.Groups))
			}
			b, err := a.Pin(s, m)
			if err != nil {
				t.Fatal(err)
			}
			a, pins[s] = b, m
			if r.IntN(8) == 0 {
				members := bridges(len(a.Members))
				members[len(members)-1].Weight = float64(r.IntN(2))
				a = shards.Plan(members, a)
			}
			whole(t, a)
		}
		weight := map[string]float64{}
		for _, m := range a.Members {
			weight[m.Name] = m.Weight
		}
		for s, m := range pins {
			if weight[m] > 0 && a.OwnerOf(s) != m {
				t.Fatalf("%v is pinned to %s, and %s's", s, m, a.OwnerOf(s))
			}
		}
		if b := shards.Plan(a.Members, a); moved(a, b, func(string) bool { return true }) != 0 {
			t.Error("a plan of the same members moved something")
		}
		for s := range pins {
			b, err := a.Unpin(s)
			if err != nil {
				t.Fatal(err)
			}
			a = b
		}
		whole(t, a)
		fair(t, a)
	}
}

// TestMove moves shards at random: each is then whose it is to be, the division stays fair, and one other moves at most.
func TestMove(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	a := shards.Plan(bridges(5), nil)
	for range 200 {
		s, to := shards.Shard(r.IntN(shards.Count)), a.Members[r.IntN(5)].Name
		b, err := a.Move(s, to)
		if was := a.OwnerOf(s) == to; was != (err != nil) {
			t.Fatalf("%v of %s to %s: %v", s, a.OwnerOf(s), to, err)
		} else if was {
			continue
		}
		if n := moved(a, b, func(string) bool { return true }); b.OwnerOf(s) != to || n > 2 {
			t.Fatalf("%v is %s's, not %s's; %d shards moved", s, b.OwnerOf(s), to, n)
		}
		whole(t, b)
		fair(t, b)
		a = b
	}
}

// TestBadChanges has operators be wrong.
func TestBadChanges(t *testing.T) {
	a := shards.Plan(bridges(2), nil)
	pinned, _ := a.Pin(5, "bridge1")
	for what, change := range map[string]func() (*shards.Assignment, error){
		"shards: the fleet has no member bridge7 that is alive; there are bridge0, bridge1": func() (*shards.Assignment, error) { return a.Pin(5, "bridge7") },
		"shards: host/5 is not pinned":                        func() (*shards.Assignment, error) { return a.Unpin(5) },
		"shards: host/5 is pinned to bridge1; unpin it first": func() (*shards.Assignment, error) { return pinned.Move(5, "bridge0") },
		"shards: host/6 is " + a.OwnerOf(6) + "'s already":    func() (*shards.Assignment, error) { return a.Move(6, a.OwnerOf(6)) },
		`shards: "host/64" is no shard; write host/0 to host/63 or group/0 to group/4095`: func() (*shards.Assignment, error) {
			_, err := shards.ParseShard("host/64")
			return nil, err
		},
	} {
		if _, err := change(); err == nil || err.Error() != what {
			t.Errorf("%v; want %s", err, what)
		}
	}
	for s := range shards.Shard(shards.Count) {
		if back, err := shards.ParseShard(s.String()); err != nil || back != s {
			t.Fatalf("%v: %v, %v", s, back, err)
		}
	}
}
