// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/neighbours/schedule"

	"pgregory.net/rapid"
)

var (
	host  = netip.MustParseAddr("10.9.0.1")
	first = frame.MAC{2, 0, 0, 0, 0, 1}
	other = frame.MAC{2, 0, 0, 0, 0, 2}
	third = frame.MAC{2, 0, 0, 0, 0, 3}
	begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

func at(d time.Duration) time.Time { return begin.Add(d) }

// asked is a step and when it was taken.
type asked struct {
	after time.Duration
	step  schedule.Step
}

// age lets time pass for one silent host, and returns which steps were taken and when.
func age(b *schedule.Hosts, d time.Duration, use func(now time.Time) schedule.Use) []asked {
	var out []asked
	for now := begin; now.Before(at(d)); now = now.Add(250 * time.Millisecond) {
		n := b.Due(now)
		if n == nil {
			continue
		}
		step := b.Age(n, use(now), now)
		switch step {
		case schedule.Rest:
			if b.Due(now) != nil {
				return append(out, asked{now.Sub(begin), step}) // the loop would never end
			}
			continue
		case schedule.Remove:
			b.Drop(n.IP)
		default:
			b.Asked(n, now)
		}
		out = append(out, asked{now.Sub(begin), step})
	}
	return out
}

// TestAge checks that a silent host is probed three times, when it no longer counts as reachable; and then removed, or
// searched for by broadcast while it has proxy QPs.
func TestAge(t *testing.T) {
	const s, m = time.Second, time.Minute
	alone, all, silent, remove := schedule.Probe, schedule.Find, schedule.Silent, schedule.Remove
	for _, c := range []struct {
		name  string
		use   schedule.Use
		inUse bool // its proxy QPs
		long  time.Duration
		want  []asked
	}{
		{"idle", schedule.Use{OnLink: true}, false, time.Hour, []asked{{10 * m, alone}, {10*m + s, alone}, {10*m + 2*s, alone}, {10*m + 3*s, remove}}},
		{"behind a router", schedule.Use{}, false, time.Hour, []asked{{10 * m, remove}}},
		{"behind a router, with proxy QPs", schedule.Use{ProxyQPs: true}, true, time.Hour, nil},
		{
			"in use", schedule.Use{ProxyQPs: true, OnLink: true}, true, 3*m + 30*s,
			[]asked{{m, alone}, {m + s, alone}, {m + 2*s, alone}, {m + 3*s, silent}, {2*m + 3*s, all}, {3*m + 3*s, all}},
		},
		{
			"with proxy QPs that nobody uses", schedule.Use{ProxyQPs: true, OnLink: true}, false, 25 * m,
			[]asked{{10 * m, alone}, {10*m + s, alone}, {10*m + 2*s, alone}, {10*m + 3*s, silent}, {20*m + 3*s, all}},
		},
	} {
		b := schedule.NewHosts()
		b.Add(host, begin)
		got := age(b, c.long, func(now time.Time) schedule.Use {
			if c.inUse {
				c.use.At = now
			}
			return c.use
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestUseBegins checks that a host that comes into use is probed a minute later, though it would have counted as
// reachable for ten.
func TestUseBegins(t *testing.T) {
	b := schedule.NewHosts()
	b.Add(host, begin)
	got := age(b, 8*time.Minute, func(now time.Time) schedule.Use {
		if now.Before(at(5*time.Minute + 30*time.Second)) {
			return schedule.Use{OnLink: true}
		}
		return schedule.Use{OnLink: true, ProxyQPs: true, At: now}
	})
	if len(got) != 5 || got[0] != (asked{6 * time.Minute, schedule.Probe}) || !b.Find(host).IsSilent() {
		t.Errorf("asked %v", got)
	}
	b = schedule.NewHosts()
	b.Add(host, begin)
	age(b, 10*time.Minute+3*time.Second, func(time.Time) schedule.Use { return schedule.Use{OnLink: true, ProxyQPs: true} })
	if n := b.Find(host); n.Asked != 3 || n.IsSilent() {
		t.Errorf("asked %d times, silent: %v", n.Asked, n.IsSilent())
	}
}

// TestAnswered checks that a host that answers counts as reachable for the full time again.
func TestAnswered(t *testing.T) {
	b := schedule.NewHosts()
	b.Add(host, begin)
	use := schedule.Use{ProxyQPs: true, OnLink: true}
	for now := begin; now.Before(at(time.Hour)); now = now.Add(time.Second) {
		use.At = now
		n := b.Due(now)
		if n == nil {
			continue
		}
		switch b.Age(n, use, now) {
		case schedule.Probe:
			b.Asked(n, now)
			b.Heard(host, now.Add(10*time.Millisecond))
		case schedule.Rest:
		default:
			t.Fatalf("after %v it counts as silent", now.Sub(begin))
		}
	}
	if n := b.Find(host); n.Asked != 0 || n.IsSilent() || n.Heard.Before(at(58*time.Minute)) {
		t.Errorf("%+v", n)
	}
	if _, ok := b.Heard(netip.MustParseAddr("10.9.0.9"), begin); ok {
		t.Error("an unknown host's frame ended a claim")
	}
}

// TestKeepAndPostpone checks that a host that could not be probed or removed is due later.
func TestKeepAndPostpone(t *testing.T) {
	b := schedule.NewHosts()
	b.Add(host, begin)
	now := at(10 * time.Minute)
	n := b.Due(now)
	if n == nil || b.Age(n, schedule.Use{OnLink: true}, now) != schedule.Probe {
		t.Fatal("not asked")
	}
	b.Postpone(n, now.Add(time.Second))
	if b.Due(now) != nil || n.Asked != 0 {
		t.Errorf("postponed: %+v", n)
	}
	now = now.Add(time.Second)
	if n = b.Due(now); n == nil || b.Age(n, schedule.Use{}, now) != schedule.Remove {
		t.Fatal("not to be removed")
	}
	b.Keep(n)
	if b.Due(now.Add(59*time.Second)) != nil || b.Due(now.Add(time.Minute)) == nil {
		t.Error("kept, and not looked at a minute later")
	}
}

// claim claims the host's address, and probes as often as Judge says; it returns the MAC address that the host has
// then.
func claim(t *testing.T, b *schedule.Hosts, by frame.MAC, now time.Time) (schedule.Place, time.Duration) {
	t.Helper()
	if b.Contest(host, schedule.Place{MAC: by, VLAN: 5, Version: 2}, false, now) {
		t.Fatal("rejected at once")
	}
	for since := now; ; now = now.Add(50 * time.Millisecond) {
		n := b.Due(now)
		if n == nil {
			continue
		}
		step, to := b.Judge(n, now)
		if step == schedule.Rest {
			return to, now.Sub(since)
		}
		b.Asked(n, now)
	}
}

// TestClaim checks that an address moves when its holder has not answered two probes, in half a second, and that a
// return within a minute is a flap.
func TestClaim(t *testing.T) {
	b := schedule.NewHosts()
	b.Add(host, begin)
	b.Contest(host, schedule.Place{MAC: other, VLAN: 4, Version: 1}, false, begin)
	to, took := claim(t, b, other, begin)
	if want := (schedule.Place{MAC: other, VLAN: 5, Version: 2}); to != want || took != 500*time.Millisecond || b.Find(host).IsContested() || b.Due(at(took)) != nil {
		t.Fatalf("is at %+v after %v", to, took)
	}
	for _, c := range []struct {
		from, to frame.MAC
		when     time.Duration
		flaps    bool
	}{
		{first, other, 0, false},
		{other, first, 30 * time.Second, true},
		{first, third, 40 * time.Second, false},
		{third, first, 2 * time.Minute, false},
	} {
		if got := b.Moved(host, c.from, c.to, at(c.when)); got != c.flaps {
			t.Errorf("after %v: flaps %v", c.when, got)
		}
	}
	if b.Moved(netip.MustParseAddr("10.9.0.9"), first, other, begin) {
		t.Error("a stranger flaps")
	}
}

// TestRejectedClaim checks that a holder that answers keeps its address, that its rival is rejected for ten seconds
// without a probe, and that a third one waits until a claim is judged.
func TestRejectedClaim(t *testing.T) {
	b := schedule.NewHosts()
	b.Add(host, begin)
	contest := func(by frame.MAC, d time.Duration) bool {
		return b.Contest(host, schedule.Place{MAC: by}, false, at(d))
	}
	for i, c := range []struct {
		by       frame.MAC
		rejected bool
	}{{other, false}, {other, false}, {third, true}} {
		if contest(c.by, 0) != c.rejected || !b.Find(host).IsContested() {
			t.Errorf("claim %d is not pending, or one of a third station was not rejected", i)
		}
	}
	n := b.Due(begin)
	if step, _ := b.Judge(n, begin); step != schedule.Probe {
		t.Fatalf("step %v", step)
	}
	b.Asked(n, begin)
	if by, ok := b.Heard(host, at(100*time.Millisecond)); !ok || by != other || n.IsContested() || n.Asked != 0 || b.Due(at(time.Minute)) != nil {
		t.Errorf("rejected %v, %v: %+v", by, ok, n)
	}
	if !contest(other, 10*time.Second) || n.IsContested() {
		t.Error("within ten seconds a claim is judged again")
	}
	if contest(other, 10200*time.Millisecond) || !n.IsContested() {
		t.Error("after ten seconds it is still rejected")
	}
	if b.Contest(netip.MustParseAddr("10.9.0.9"), schedule.Place{MAC: other}, false, begin) {
		t.Error("a claim of an unknown host's address is rejected")
	}
}

// TestDueFirst checks that the host that is due first is returned, while hosts are added, removed and postponed.
func TestDueFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, due := schedule.NewHosts(), map[netip.Addr]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			ip := netip.AddrFrom4([4]byte{10, 9, 0, byte(rapid.IntRange(0, 15).Draw(t, "host"))})
			when := at(time.Duration(rapid.IntRange(0, 1000).Draw(t, "when")) * time.Second)
			n := b.Find(ip)
			switch {
			case n == nil:
				b.Add(ip, when)
				due[ip] = when.Add(time.Minute)
			case rapid.Bool().Draw(t, "drop"):
				b.Drop(ip)
				delete(due, ip)
			default:
				b.Postpone(n, when)
				due[ip] = when
			}
			var least time.Time
			for _, d := range due {
				if least.IsZero() || d.Before(least) {
					least = d
				}
			}
			switch n := b.Due(least); {
			case len(due) == 0 && b.Due(at(time.Hour)) != nil, len(due) > 0 && n == nil:
				t.Fatalf("%d hosts, due %v", len(due), n)
			case n != nil && !due[n.IP].Equal(least), len(due) > 0 && b.Due(least.Add(-1)) != nil:
				t.Fatalf("due at %v is %v, want one of %v", due[n.IP], n.IP, least)
			}
		}
	})
}
