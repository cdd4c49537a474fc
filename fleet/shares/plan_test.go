// SPDX-License-Identifier: Apache-2.0

package shares_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"causeway/fleet/shares"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

func bridges(n int) (all []shares.Member) {
	for i := range n {
		all = append(all, shares.Member{Name: fmt.Sprintf("bridge%d", i), Weight: 1})
	}
	return all
}

// moved counts the shares whose owner was present before and after, and is another.
func moved(a, b *shares.Assignment, still func(name string) bool) (n int) {
	for s := range shares.Share(shares.Count) {
		if was := a.OwnerOf(s); was != b.OwnerOf(s) && still(was) {
			n++
		}
	}
	return n
}

// whole checks that each share has an owner, and an heir who is another.
func whole(t *testing.T, a *shares.Assignment) {
	t.Helper()
	owners := 0
	for _, m := range a.Members {
		if m.Weight > 0 {
			owners++
		}
	}
	for s := range shares.Share(shares.Count) {
		if a.OwnerOf(s) == "" || a.OwnerOf(s) == a.HeirOf(s) || a.HeirOf(s) == "" && owners > 1 {
			t.Fatalf("%v: owner %q, heir %q, of %d", s, a.OwnerOf(s), a.HeirOf(s), owners)
		}
	}
}

// fair checks that nobody has more than its part, rounded up, or less than it, rounded down.
func fair(t *testing.T, a *shares.Assignment) {
	t.Helper()
	total := 0.0
	for _, m := range a.Members {
		total += m.Weight
	}
	for _, m := range a.Members {
		hosts, groups := a.Load(m.Name)
		for _, x := range []struct{ has, of int }{{hosts, shares.Hosts}, {groups, shares.Groups}} {
			exact := float64(x.of) * m.Weight / total
			if float64(x.has) < math.Floor(exact) || float64(x.has) > math.Ceil(exact) {
				t.Errorf("%s of weight %v has %d of %d, its part is %.2f", m.Name, m.Weight, x.has, x.of, exact)
			}
		}
	}
}

// Bridges come and go one after another: at each step all shares are divided evenly, and only those of a bridge that goes,
// or those that one that comes is to have, move.
func TestPlan(t *testing.T) {
	a := shares.Plan(bridges(1), nil)
	for n := 2; n <= shares.MaxMembers; n++ {
		b := shares.Plan(bridges(n), a)
		whole(t, b)
		fair(t, b)
		newcomer := fmt.Sprintf("bridge%d", n-1)
		hosts, groups := b.Load(newcomer)
		if got := moved(a, b, func(string) bool { return true }); got != hosts+groups {
			t.Errorf("%d shares moved for the %dth bridge, which has %d", got, n, hosts+groups)
		}
		a = b
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(shares.MaxMembers)
	for len(order) > 1 {
		gone := fmt.Sprintf("bridge%d", order[0])
		order = order[1:]
		var left []shares.Member
		for _, i := range order {
			left = append(left, shares.Member{Name: fmt.Sprintf("bridge%d", i), Weight: 1})
		}
		b := shares.Plan(left, a)
		whole(t, b)
		fair(t, b)
		if n := moved(a, b, func(name string) bool { return name != gone }); n != 0 {
			t.Errorf("%d shares of others moved when %s went, of %d", n, gone, len(order)+1)
		}
		for s := range shares.Share(shares.Count) {
			if a.OwnerOf(s) == gone && b.OwnerOf(s) != a.HeirOf(s) {
				t.Fatalf("%v of %s went to %s, its heir was %s", s, gone, b.OwnerOf(s), a.HeirOf(s))
			}
		}
		a = b
	}
}

// Weights, also of 0, with any history.
func TestPlanWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		var a *shares.Assignment
		for range 4 {
			members := bridges(1 + r.IntN(9))
			for i := range members[1:] {
				members[i+1].Weight = float64(r.IntN(5)) / 2
			}
			a = shares.Plan(members, a)
			whole(t, a)
			fair(t, a)
		}
		if b := shares.Plan(a.Members, a); moved(a, b, func(string) bool { return true }) != 0 {
			t.Error("a plan of the same members moved something")
		}
	}
}

// A million hosts and a hundred thousand groups, whose addresses were given out in order, by two to 64 bridges. What no
// division of 64 whole host shares can do better is allowed: twelve bridges own five or six each.
func TestPlanIsEven(t *testing.T) {
	var perShare [shares.Count]int
	const hosts, groups = 1_000_000, 100_000
	for i := range hosts {
		var m frame.MAC
		binary.BigEndian.PutUint32(m[2:], uint32(i))
		m[0] = []byte{0x02, 0x0c, 0xb8}[i%3]
		perShare[shares.OfHost(m)]++
	}
	for i := range groups {
		g := ib.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff}
		binary.BigEndian.PutUint32(g[12:], uint32(0x0f000000+i))
		perShare[shares.OfGroup(g)]++
	}
	for n := 2; n <= shares.MaxMembers; n++ {
		a := shares.Plan(bridges(n), nil)
		var load [2][shares.MaxMembers]int
		for s, o := range a.Owner {
			load[min(1, s/shares.Hosts)][o] += perShare[s]
		}
		for kind, x := range []struct {
			of, shares int
			name       string
		}{{hosts, shares.Hosts, "hosts"}, {groups, shares.Groups, "groups"}} {
			most := 0
			for _, l := range load[kind] {
				most = max(most, l)
			}
			mean := float64(x.of) / float64(n)
			whole := math.Ceil(float64(x.shares)/float64(n)) * float64(n) / float64(x.shares)
			if ratio := float64(most) / mean; ratio > max(1.1, whole*1.03) {
				t.Errorf("%d bridges, %s: the most loaded has %.3f of the mean", n, x.name, ratio)
			}
		}
	}
}

func TestShareNames(t *testing.T) {
	for s, want := range map[shares.Share]string{0: "host/0", 63: "host/63", 64: "group/0", shares.Count - 1: "group/4095"} {
		if s.String() != want {
			t.Errorf("%v, and not %s", s, want)
		}
	}
}

func TestMembers(t *testing.T) {
	for text, want := range map[string]shares.Member{"a": {"a", 1}, "b:2.5": {"b", 2.5}, "c:0": {"c", 0}} {
		if m, err := shares.ParseMember(text); err != nil || m != want {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	for _, bad := range []string{"", ":1", "a:", "a:x", "a:-1", "a:NaN", "a:1001"} {
		if m, err := shares.ParseMember(bad); err == nil {
			t.Errorf("%q: %v", bad, m)
		}
	}
	for _, bad := range [][]shares.Member{nil, bridges(65), {{"a", 0}}, {{"a", 1}, {"a", 1}}, {{"a", -1}}} {
		if shares.Check(bad) == nil {
			t.Errorf("%v may be a fleet", bad)
		}
	}
}
