// SPDX-License-Identifier: Apache-2.0

package assignment_test

import (
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/gids/assignment"
)

var begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func wanted(guids ...ib.GUID) []assignment.Wanted {
	var out []assignment.Wanted
	for _, g := range guids {
		out = append(out, assignment.Wanted{GUID: g, Host: host(int(g))})
	}
	return out
}

// next checks which aliases are requested and given back at a time.
func next(t *testing.T, a *assignment.Aliases, when string, now time.Time, want []assignment.Wanted, set, drop []ib.GUID) {
	t.Helper()
	s, d := a.Next(want, now)
	slices.Sort(d)
	if !slices.Equal(s, set) || !slices.Equal(d, drop) {
		t.Errorf("%s: asked for %v, gave back %v; want %v, %v", when, s, d, set, drop)
	}
}

// TestAliases checks that four at a time are requested, in order, each once; and that aliases are dropped that are not
// wanted any more.
func TestAliases(t *testing.T) {
	a, all := assignment.NewAliases(), wanted(9, 8, 7, 6, 5)
	next(t, a, "at first", begin, all, []ib.GUID{9, 8, 7, 6}, nil)
	if a.IsDue(begin) || !a.IsDue(begin.Add(time.Second)) {
		t.Error("hosts are to be looked at each second")
	}
	next(t, a, "under way", begin, all, nil, nil)
	a.Set(8)
	if !a.IsDue(begin) || a.Len() != 1 || !a.Has(8) || !a.Has(5) || a.Has(4) || a.Host(8) != host(8) {
		t.Errorf("%d are set", a.Len())
	}
	next(t, a, "one is there", begin, all, []ib.GUID{5}, nil)
	for _, g := range []ib.GUID{9, 7, 6, 5} {
		a.Set(g)
	}
	next(t, a, "all are there", begin, all, nil, nil)
	next(t, a, "two have gone", begin, wanted(9, 7, 5), nil, []ib.GUID{6, 8})
	next(t, a, "and come again", begin, all, nil, nil)
	a.Dropped(6)
	a.Dropped(8)
	next(t, a, "and are requested again", begin, all, []ib.GUID{8, 6}, nil)
	if a.Len() != 3 {
		t.Errorf("%d are set", a.Len())
	}
}

// TestRejectedAlias checks that an alias that was rejected is requested again after 1, 2, 4 ... 60 s, and removed when
// it is not wanted.
func TestRejectedAlias(t *testing.T) {
	a, now := assignment.NewAliases(), begin
	for _, wait := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		next(t, a, "due", now, wanted(1), []ib.GUID{1}, nil)
		a.Failed(1, now)
		now = now.Add(time.Duration(wait)*time.Second - 1)
		next(t, a, "not yet", now, wanted(1), nil, nil)
		now = now.Add(1)
	}
	next(t, a, "unwanted", now, nil, nil, nil)
	if a.Has(1) {
		t.Error("not dropped")
	}
	next(t, a, "begins anew", now, wanted(1), []ib.GUID{1}, nil)
}

// TestFullPort checks that nothing is requested of a full port for a minute, or until an alias has been given back.
func TestFullPort(t *testing.T) {
	a := assignment.NewAliases()
	next(t, a, "at first", begin, wanted(1, 2), []ib.GUID{1, 2}, nil)
	a.Set(1)
	a.Full(2, begin)
	next(t, a, "full", begin.Add(59*time.Second), wanted(1, 2, 3), nil, nil)
	next(t, a, "a minute later", begin.Add(time.Minute), wanted(1, 2), []ib.GUID{2}, nil)
	a.Full(2, begin.Add(time.Minute))
	next(t, a, "one goes", begin.Add(time.Minute), wanted(2), nil, []ib.GUID{1})
	a.Dropped(1)
	next(t, a, "there is room", begin.Add(time.Minute), wanted(2), []ib.GUID{2}, nil)
}

// TestDropped checks that four are dropped at a time, each once.
func TestDropped(t *testing.T) {
	a, all := assignment.NewAliases(), wanted(1, 2, 3, 4, 5, 6)
	for range 2 {
		set, _ := a.Next(all, begin)
		for _, g := range set {
			a.Set(g)
		}
	}
	_, first := a.Next(nil, begin)
	if _, more := a.Next(nil, begin); len(first) != 4 || len(more) != 0 {
		t.Errorf("gave back %v, and then %v", first, more)
	}
	for _, g := range first {
		a.Dropped(g)
	}
	if _, rest := a.Next(nil, begin); len(rest) != 2 || a.Len() != 2 {
		t.Errorf("then gave back %v", rest)
	}
}

// TestFullBeforeDrop checks that a port which had no room is asked again at once when it has given an alias back before it
// said so.
func TestFullBeforeDrop(t *testing.T) {
	a := assignment.NewAliases()
	next(t, a, "at first", begin, wanted(1), []ib.GUID{1}, nil)
	a.Set(1)
	next(t, a, "another", begin, wanted(2), []ib.GUID{2}, []ib.GUID{1})
	a.Dropped(1)
	a.Full(2, begin)
	next(t, a, "there is room", begin, wanted(2), []ib.GUID{2}, nil)
	a.Full(2, begin)
	next(t, a, "there is none", begin, wanted(2), nil, nil)
}
