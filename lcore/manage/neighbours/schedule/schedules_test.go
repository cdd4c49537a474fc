// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/lcore/manage/neighbours/schedule"
)

func addresses(n int) []netip.Addr {
	var out []netip.Addr
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{10, 9, 1, byte(i)}))
	}
	return out
}

// TestSearch checks that a host is searched for after 1, 2, 4 ... 60 s, until it is known.
func TestSearch(t *testing.T) {
	var s schedule.Search
	s.Add(host)
	known, full := false, false
	var at []int
	second := 0
	pass := func(until int) {
		for ; second < until; second++ {
			s.Tick(begin.Add(time.Duration(second)*time.Second), 1, func(netip.Addr) bool { return known }, func(netip.Addr) bool {
				if !full {
					at = append(at, second)
				}
				return !full
			})
		}
	}
	pass(180)
	if want := []int{0, 1, 3, 7, 15, 31, 63, 123}; !slices.Equal(at, want) {
		t.Errorf("asked at %v s, want %v", at, want)
	}
	at, full = nil, true
	pass(200)
	full = false
	pass(201)
	if !slices.Equal(at, []int{200}) || len(s.Hosts()) != 1 {
		t.Errorf("asked at %v s, when there is room again", at)
	}
	known = true
	pass(500)
	if len(at) != 1 || len(s.Hosts()) != 0 {
		t.Errorf("asked at %v s, though it is known", at)
	}
}

// TestSearchMost checks that no more hosts than the limit are searched for at a time, the others next, and hosts that
// are not wanted never.
func TestSearchMost(t *testing.T) {
	var s schedule.Search
	all := addresses(10)
	for _, ip := range all {
		s.Add(ip)
	}
	s.Keep(func(ip netip.Addr) bool { return ip != all[1] })
	want := slices.Delete(slices.Clone(all), 1, 2)
	if !slices.Equal(s.Hosts(), want) {
		t.Errorf("searches for %v", s.Hosts())
	}
	var asked []netip.Addr
	for i := range 3 {
		s.Tick(begin, 4, func(netip.Addr) bool { return false }, func(ip netip.Addr) bool {
			asked = append(asked, ip)
			return true
		})
		if len(asked) != min(4*(i+1), len(want)) {
			t.Errorf("asked %d times", len(asked))
		}
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}
}

// announced lets time pass, and returns when each address was announced, in tenths of a second.
func announced(a *schedule.Announcements, tenths int, ready func(tenth int) bool) map[netip.Addr][]int {
	out := map[netip.Addr][]int{}
	for i := range tenths {
		for range 3 { // it may be called more often
			a.Tick(begin.Add(time.Duration(i)*100*time.Millisecond), func() bool { return ready(i) }, func(ip netip.Addr) bool {
				out[ip] = append(out[ip], i)
				return true
			})
		}
	}
	return out
}

// TestAnnouncements checks that an address is announced as often as its protocol requires, when the bridge is ready, or
// after five seconds.
func TestAnnouncements(t *testing.T) {
	six := netip.MustParseAddr("fd09::1")
	for _, c := range []struct {
		name      string
		ready     func(int) bool
		four, six []int
	}{
		{"ready", func(int) bool { return true }, []int{0, 20}, []int{0, 10, 20}},
		{"ready a second later", func(i int) bool { return i >= 10 }, []int{10, 30}, []int{10, 20, 30}},
		{"never ready", func(int) bool { return false }, []int{50, 70}, []int{50, 60, 70}},
	} {
		var a schedule.Announcements
		a.Begin(begin)
		a.Plan(host)
		a.Plan(six)
		got := announced(&a, 200, c.ready)
		if !slices.Equal(got[host], c.four) || !slices.Equal(got[six], c.six) {
			t.Errorf("%s: IPv4 at %v, want %v; IPv6 at %v, want %v", c.name, got[host], c.four, got[six], c.six)
		}
	}
}

// TestManyAnnouncements checks that announcements are spread over time, and that cancelled ones are not sent.
func TestManyAnnouncements(t *testing.T) {
	var a schedule.Announcements
	all := addresses(100)
	for _, ip := range all {
		a.Plan(ip)
	}
	a.Drop(func(ip netip.Addr) bool { return ip == all[0] })
	at := map[int]int{}
	for _, tenths := range announced(&a, 100, func(int) bool { return true }) {
		if len(tenths) != 2 {
			t.Errorf("announced %d times", len(tenths))
		}
		at[tenths[0]]++
	}
	if at[0] != 32 || at[1] != 32 || at[2] != 32 || at[3] != 3 {
		t.Errorf("announced, by tenths of a second: %v", at)
	}
	a.Plan(host)
	a.Clear()
	if got := announced(&a, 100, func(int) bool { return true }); len(got) != 0 {
		t.Errorf("announced %v", got)
	}
}

// TestDefend checks that a claimed address is announced once in ten seconds, and that an announcement that could not be
// sent is tried again.
func TestDefend(t *testing.T) {
	var a schedule.Announcements
	for _, c := range []struct {
		after time.Duration
		sent  bool // sending works
		want  bool
	}{{0, false, false}, {0, true, true}, {9 * time.Second, true, false}, {10 * time.Second, true, true}} {
		if got := a.Defend(host, at(c.after), func(netip.Addr) bool { return c.sent }); got != c.want {
			t.Errorf("after %v: %v", c.after, got)
		}
	}
}
