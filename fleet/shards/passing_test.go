// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"slices"
	"testing"

	"causeway/fleet/shards"
)

// A bridge is drained in two steps: by the first it has all that it had, and each shard is passing to whom a plan gives it; by the
// second that one has it. When a bridge goes between, what was passing to others still is.
func TestPassing(t *testing.T) {
	before := shards.Plan(bridges(3), nil)
	drained := bridges(3)
	drained[0].Weight = 0
	plan := shards.Plan(drained, before)
	first := plan.After(before)
	var all []shards.Shard
	for s := range shards.Shard(shards.Count) {
		if first.OwnerOf(s) != before.OwnerOf(s) || first.MeantFor(s) != plan.OwnerOf(s) || first.Passing[s] != (before.OwnerOf(s) == "bridge0") {
			t.Fatalf("%v: %s has it, and it is meant for %s; it was %s's, and is to be %s's", s, first.OwnerOf(s), first.MeantFor(s), before.OwnerOf(s), plan.OwnerOf(s))
		}
		if first.Passing[s] {
			all = append(all, s)
		}
	}
	if again := shards.Plan(drained, first).After(first); again.Owner != first.Owner || again.Successor != first.Successor || again.Passing != first.Passing {
		t.Error("a plan changes what was passing")
	}
	half := first.Passed(all[:len(all)/2])
	whole(t, half)
	for i, s := range all {
		if passed := i < len(all)/2; half.Passing[s] == passed || (half.OwnerOf(s) == "bridge0") == passed || half.MeantFor(s) != plan.OwnerOf(s) {
			t.Errorf("%v: %s has it, and it is meant for %s", s, half.OwnerOf(s), half.MeantFor(s))
		}
	}
	gone := shards.Plan(drained[1:], half).After(half)
	whole(t, gone)
	for _, s := range all {
		if gone.Passing[s] || gone.OwnerOf(s) != plan.OwnerOf(s) {
			t.Errorf("%v of a bridge that died is %s's, and was to be %s's", s, gone.OwnerOf(s), plan.OwnerOf(s))
		}
	}
	back := shards.Plan(bridges(3), first).After(first)
	for s := range shards.Shard(shards.Count) {
		if back.OwnerOf(s) != before.OwnerOf(s) || back.Passing[s] {
			t.Errorf("%v passes, though bridge0 takes part again", s)
		}
	}
}

// An operator moves a shard that is passing: to where it is going, which it is told, or elsewhere. When its owner dies meanwhile, it is
// where it was going, though it suits another one better.
func TestMovePassing(t *testing.T) {
	before := shards.Plan(bridges(3), nil)
	s := shards.Shard(5)
	other := before.SuccessorOf(s)
	moved, err := before.Move(s, other)
	if err != nil {
		t.Fatal(err)
	}
	passing := moved.After(before)
	if _, err := passing.Move(s, other); err == nil {
		t.Error("it is moved to where it is going")
	}
	for _, m := range before.Members {
		if m.Name == before.OwnerOf(s) || m.Name == before.SuccessorOf(s) {
			continue
		}
		moved, err := before.Move(s, m.Name)
		if err != nil {
			t.Fatal(err)
		}
		rest := slices.DeleteFunc(bridges(3), func(o shards.Member) bool { return o.Name == before.OwnerOf(s) })
		if got := shards.Plan(rest, moved.After(before)).OwnerOf(s); got != m.Name {
			t.Errorf("its owner died, and it is %s's; it was passing to %s", got, m.Name)
		}
	}
	back, err := passing.Move(s, before.OwnerOf(s))
	if err != nil {
		t.Fatal(err)
	}
	if back = back.After(passing); back.Passing[s] || back.OwnerOf(s) != before.OwnerOf(s) {
		t.Errorf("moved back, it is %s's, and passing: %t", back.OwnerOf(s), back.Passing[s])
	}
}
