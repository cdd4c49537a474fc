// SPDX-License-Identifier: Apache-2.0

package shares_test

import (
	"math/rand/v2"
	"testing"

	"causeway/fleet/shares"
)

// TestPins pins shares at random, with any history: a pinned one is its member's while that has a weight, all shares have an
// owner and an heir, and nobody but for pins has more than its part. Without pins the division is fair again.
func TestPins(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 10 { // some 300 pins, of members that number 2 to 9
		a := shares.Plan(bridges(2+r.IntN(8)), nil)
		pins := map[shares.Share]string{}
		for range 1 + r.IntN(60) {
			s, m := shares.Share(r.IntN(shares.Hosts)), a.Members[r.IntN(len(a.Members))].Name
			if r.IntN(4) == 0 {
				s += shares.Share(r.IntN(shares.Groups))
			}
			b, err := a.Pin(s, m)
			if err != nil {
				t.Fatal(err)
			}
			a, pins[s] = b, m
			if r.IntN(8) == 0 {
				members := bridges(len(a.Members))
				members[len(members)-1].Weight = float64(r.IntN(2))
				a = shares.Plan(members, a)
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
		if b := shares.Plan(a.Members, a); moved(a, b, func(string) bool { return true }) != 0 {
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

// TestMove moves shares at random: each is then whose it is to be, the division stays fair, and one other moves at most.
func TestMove(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	a := shares.Plan(bridges(5), nil)
	for range 200 {
		s, to := shares.Share(r.IntN(shares.Count)), a.Members[r.IntN(5)].Name
		b, err := a.Move(s, to)
		if was := a.OwnerOf(s) == to; was != (err != nil) {
			t.Fatalf("%v of %s to %s: %v", s, a.OwnerOf(s), to, err)
		} else if was {
			continue
		}
		if n := moved(a, b, func(string) bool { return true }); b.OwnerOf(s) != to || n > 2 {
			t.Fatalf("%v is %s's, not %s's; %d shares moved", s, b.OwnerOf(s), to, n)
		}
		whole(t, b)
		fair(t, b)
		a = b
	}
}

// TestBadChanges has operators be wrong.
func TestBadChanges(t *testing.T) {
	a := shares.Plan(bridges(2), nil)
	pinned, _ := a.Pin(5, "bridge1")
	for what, change := range map[string]func() (*shares.Assignment, error){
		"shares: the fleet has no member bridge7 that is alive; there are bridge0, bridge1": func() (*shares.Assignment, error) { return a.Pin(5, "bridge7") },
		"shares: host/5 is not pinned":                        func() (*shares.Assignment, error) { return a.Unpin(5) },
		"shares: host/5 is pinned to bridge1; unpin it first": func() (*shares.Assignment, error) { return pinned.Move(5, "bridge0") },
		"shares: host/6 is " + a.OwnerOf(6) + "'s already":    func() (*shares.Assignment, error) { return a.Move(6, a.OwnerOf(6)) },
		`shares: "host/64" is no share; write host/0 to host/63 or group/0 to group/4095`: func() (*shares.Assignment, error) {
			_, err := shares.ParseShare("host/64")
			return nil, err
		},
	} {
		if _, err := change(); err == nil || err.Error() != what {
			t.Errorf("%v; want %s", err, what)
		}
	}
	for s := range shares.Share(shares.Count) {
		if back, err := shares.ParseShare(s.String()); err != nil || back != s {
			t.Fatalf("%v: %v, %v", s, back, err)
		}
	}
}
