// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/lcore/manage/sidr/pending"

	"pgregory.net/rapid"
)

var (
	one   = netip.MustParseAddr("10.9.0.1")
	two   = netip.MustParseAddr("10.9.0.2")
	begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// TestQuota checks that a source that uses its whole quota leaves others theirs, and that ended requests make room
// again.
func TestQuota(t *testing.T) {
	q := pending.NewQuota[netip.Addr](3, 2)
	for i, c := range []struct {
		source netip.Addr
		give   bool
		want   pending.Room
	}{
		{one, false, pending.Free},
		{one, false, pending.Free},
		{one, false, pending.FullOfIt},
		{two, false, pending.Free},
		{two, false, pending.Full},
		{one, true, 0},
		{one, false, pending.Free},
		{two, true, 0},
		{one, false, pending.FullOfIt},
		{two, false, pending.Free},
	} {
		if c.give {
			q.Give(c.source)
		} else if got := q.Take(c.source); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
	if q.Taken() != 3 {
		t.Errorf("%d are under way", q.Taken())
	}
}

// TestAnswers compares Answers with a list.
func TestAnswers(t *testing.T) {
	const most, kept = 5, 20 * time.Second
	type entry struct {
		key, answer int
		at          time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		a, now := pending.NewAnswers[int, int](most, kept), begin
		var list []entry
		for key := range rapid.IntRange(1, 40).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "age") {
				a.Age(now)
				list = slices.DeleteFunc(list, func(e entry) bool { return now.Sub(e.at) >= kept })
			}
			if len(list) == most {
				list = list[1:]
			}
			a.Put(key, -key, now)
			list = append(list, entry{key, -key, now})
			for k := range key + 2 {
				i := slices.IndexFunc(list, func(e entry) bool { return e.key == k })
				if got, given := a.Find(k); given != (i >= 0) || given && got != list[i].answer {
					t.Fatalf("request %d: %d, %v, want one of %v", k, got, given, list)
				}
			}
		}
	})
}
