// SPDX-License-Identifier: Apache-2.0

package limit_test

import (
	"slices"
	"testing"
	"time"

	"causeway/lcore/manage/limit"
)

var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// TestRate checks that a second's tokens are there at once, and come again one by one.
func TestRate(t *testing.T) {
	r, now := limit.NewRate(4), begin
	take := func(most int) (n int) {
		for r.Allows(now) && n < most {
			r.Take(now)
			n++
		}
		return n
	}
	if n := take(9); n != 4 || r.IsFull(now) {
		t.Errorf("%d at first, want 4", n)
	}
	if now = now.Add(510 * time.Millisecond); take(9) != 2 {
		t.Error("half a second does not bring 2")
	}
	if now = now.Add(time.Hour); !r.IsFull(now) || take(9) != 4 {
		t.Error("an hour brings more than a second")
	}
	r.Set(2)
	if now = now.Add(time.Hour); take(9) != 2 {
		t.Error("the rate has not changed")
	}
	if r.Set(0); take(9) != 9 {
		t.Error("0 limits")
	}
	if none := (limit.Rate{}); !none.Allows(now) {
		t.Error("the zero value limits")
	}
}

// TestLRU checks in which order entries go.
func TestLRU(t *testing.T) {
	l, class, used, young := limit.NewLRU[string](2), map[string]int{}, map[string]bool{}, map[string]bool{}
	put := func(c int, keys ...string) {
		for _, k := range keys {
			class[k] = c
			l.Put(k, c)
		}
	}
	look := func(k string) (int, limit.Verdict) {
		switch {
		case used[k]:
			delete(used, k)
			return class[k], limit.Used
		case young[k]:
			return class[k], limit.Young
		}
		return class[k], limit.Idle
	}
	put(1, "kept", "late")
	put(0, "a", "b", "c", "d")
	put(0, "a") // again
	used["b"] = true
	class["c"] = 1
	var order []string
	for range 6 {
		k, found := l.Oldest(9, look)
		if !found {
			t.Fatal("none is found")
		}
		l.Remove(k)
		order = append(order, k)
	}
	if want := []string{"d", "a", "b", "kept", "late", "c"}; !slices.Equal(order, want) {
		t.Errorf("they go as %v, want %v", order, want)
	}
	if k, found := l.Oldest(9, look); found {
		t.Errorf("%q is still there", k)
	}
	put(0, "x")
	put(1, "y")
	young["x"] = true
	if k, _ := l.Oldest(9, look); k != "y" {
		t.Errorf("%q goes, while x is too young", k)
	}
}

// TestLRULooks checks that looks are bounded, and that the next ones begin where the last ones ended.
func TestLRULooks(t *testing.T) {
	l, used := limit.NewLRU[int](1), map[int]bool{}
	for k := range 10 {
		l.Put(k, 0)
		used[k] = true
	}
	look := func(k int) (int, limit.Verdict) {
		if used[k] {
			delete(used, k)
			return 0, limit.Used
		}
		return 0, limit.Idle
	}
	for i := range 5 {
		if k, found := l.Oldest(2, look); found {
			t.Fatalf("look %d finds %d", i, k)
		}
	}
	if k, found := l.Oldest(2, look); !found || k != 0 {
		t.Errorf("%d, %v; want 0", k, found)
	}
}
