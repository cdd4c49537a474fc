// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"causeway/fleet/shards"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

func bridges(n int) (all []shards.Member) {
	for i := range n {
		all = append(all, shards.Member{Name: fmt.Sprintf("bridge%d", i), Weight: 1})
	}
	return all
}

// moved counts the shards whose owner was present before and after, and is another.
func moved(a, b *shards.Assignment, still func(name string) bool) (n int) {
	for s := range shards.Shard(shards.Count) {
		if was := a.OwnerOf(s); was != b.OwnerOf(s) && still(was) {
			n++
		}
	}
	return n
}

// whole checks that each shard has an owner, and a successor who is another.
func whole(t *testing.T, a *shards.Assignment) {
	t.Helper()
	owners := 0
	for _, m := range a.Members {
		if m.Weight > 0 {
			owners++
		}
	}
	for s := range shards.Shard(shards.Count) {
		if a.OwnerOf(s) == "" || a.OwnerOf(s) == a.SuccessorOf(s) || a.SuccessorOf(s) == "" && owners > 1 {
			t.Fatalf("%v: owner %q, successor %q, of %d", s, a.OwnerOf(s), a.SuccessorOf(s), owners)
		}
	}
}

// fair checks that nobody has more than its part, rounded up, or less than it, rounded down.
func fair(t *testing.T, a *shards.Assignment) {
	t.Helper()
	total := 0.0
	for _, m := range a.Members {
		total += m.Weight
	}
	for _, m := range a.Members {
		hosts, groups := a.Load(m.Name)
		for _, x := range []struct{ has, of int }{{hosts, shards.Hosts}, {groups, shards.Groups}} {
			exact := float64(x.of) * m.Weight / total
			if float64(x.has) < math.Floor(exact) || float64(x.has) > math.Ceil(exact) {
				t.Errorf("%s of weight %v has %d of %d, its part is %.2f", m.Name, m.Weight, x.has, x.of, exact)
			}
		}
	}
}

// Bridges come and go one after another: at each step all shards are divided evenly, and only those of a bridge that goes,
// or those that one that comes is to have, move.
func TestPlan(t *testing.T) {
	a := shards.Plan(bridges(1), nil)
	for n := 2; n <= shards.MaxMembers; n++ {
		b := shards.Plan(bridges(n), a)
		whole(t, b)
		fair(t, b)
		newcomer := fmt.Sprintf("bridge%d", n-1)
		hosts, groups := b.Load(newcomer)
		if got := moved(a, b, func(string) bool { return true }); got != hosts+groups {
			t.Errorf("%d shards moved for the %dth bridge, which has %d", got, n, hosts+groups)
		}
		a = b
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(shards.MaxMembers)
	for len(order) > 1 {
		gone := fmt.Sprintf("bridge%d", order[0])
		order = order[1:]
		var left []shards.Member
		for _, i := range order {
			left = append(left, shards.Member{Name: fmt.Sprintf("bridge%d", i), Weight: 1})
		}
		b := shards.Plan(left, a)
		whole(t, b)
		fair(t, b)
		if n := moved(a, b, func(name string) bool { return name != gone }); n != 0 {
			t.Errorf("%d shards of others moved when %s went, of %d", n, gone, len(order)+1)
		}
		for s := range shards.Shard(shards.Count) {
			if a.OwnerOf(s) == gone && b.OwnerOf(s) != a.SuccessorOf(s) {
				t.Fatalf("%v of %s went to %s, its successor was %s", s, gone, b.OwnerOf(s), a.SuccessorOf(s))
			}
		}
		a = b
	}
}

// Weights, also of 0, with any history.
func TestPlanWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		var a *shards.Assignment
		for range 4 {
			members := bridges(1 + r.IntN(9))
			for i := range members[1:] {
				members[i+1].Weight = float64(r.IntN(5)) / 2
			}
			a = shards.Plan(members, a)
			whole(t, a)
			fair(t, a)
		}
		if b := shards.Plan(a.Members, a); moved(a, b, func(string) bool { return true }) != 0 {
			t.Error("a plan of the same members moved something")
		}
	}
}

// A million hosts and a hundred thousand groups, whose addresses were given out in order, by two to 64 bridges. What no
// division of 64 whole host shards can do better is allowed: twelve bridges own five or six each.
func TestPlanIsEven(t *testing.T) {
	var perShard [shards.Count]int
	const hosts, groups = 1_000_000, 100_000
	for i := range hosts {
		var m frame.MAC
		binary.BigEndian.PutUint32(m[2:], uint32(i))
		m[0] = []byte{0x02, 0x0c, 0xb8}[i%3]
		perShard[shards.OfHost(m)]++
	}
	for i := range groups {
		g := ib.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff}
		binary.BigEndian.PutUint32(g[12:], uint32(0x0f000000+i))
		perShard[shards.OfGroup(g)]++
	}
	for n := 2; n <= shards.MaxMembers; n++ {
		a := shards.Plan(bridges(n), nil)
		var load [2][shards.MaxMembers]int
		for s, o := range a.Owner {
			load[min(1, s/shards.Hosts)][o] += perShard[s]
		}
		for kind, x := range []struct {
			of, shards int
			name       string
		}{{hosts, shards.Hosts, "hosts"}, {groups, shards.Groups, "groups"}} {
			most := 0
			for _, l := range load[kind] {
				most = max(most, l)
			}
			mean := float64(x.of) / float64(n)
			whole := math.Ceil(float64(x.shards)/float64(n)) * float64(n) / float64(x.shards)
			if ratio := float64(most) / mean; ratio > max(1.1, whole*1.03) {
				t.Errorf("%d bridges, %s: the most loaded has %.3f of the mean", n, x.name, ratio)
			}
		}
	}
}

func TestShardNames(t *testing.T) {
	for s, want := range map[shards.Shard]string{0: "host/0", 63: "host/63", 64: "group/0", shards.Count - 1: "group/4095"} {
		if s.String() != want {
			t.Errorf("%v, and not %s", s, want)
		}
	}
}

func TestMembers(t *testing.T) {
	for text, want := range map[string]shards.Member{"a": {"a", 1}, "b:2.5": {"b", 2.5}, "c:0": {"c", 0}} {
		if m, err := shards.ParseMember(text); err != nil || m != want {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	for _, bad := range []string{"", ":1", "a:", "a:x", "a:-1", "a:NaN", "a:1001"} {
		if m, err := shards.ParseMember(bad); err == nil {
			t.Errorf("%q: %v", bad, m)
		}
	}
	for _, bad := range [][]shards.Member{nil, bridges(65), {{"a", 0}}, {{"a", 1}, {"a", 1}}, {{"a", -1}}} {
		if shards.Check(bad) == nil {
			t.Errorf("%v may be a fleet", bad)
		}
	}
}
