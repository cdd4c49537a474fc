// SPDX-License-Identifier: Apache-2.0

package assignment_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/gids/assignment"

	"pgregory.net/rapid"
)

// Sources of these tests: 0 is the bridge's own, 1 and 2 are the addresses of hosts 1 and 2, 3 was made for host 3, 4
// and 5 are reserved, as is 0, and 6 fits no host.
func host(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(n)}) }

func source(n int) ibside.Source {
	return ibside.Source{Number: uint8(n), GID: ib.GIDFromGUID(0xfe80<<48, ib.GUID(0x100+n))}
}

func sources(ns ...int) []ibside.Source {
	out := []ibside.Source{source(0)}
	for _, n := range ns {
		out = append(out, source(n))
	}
	return out
}

// A fixture is Sources, and a record of the calls of Given.
type fixture struct {
	*assignment.Sources
	from map[netip.Addr]uint8 // what each host sends from
	own  map[netip.Addr]ib.GID
	all  []ibside.Source

	rules assignment.Rules
}

func newFixture() *fixture {
	b := &fixture{all: sources(), from: map[netip.Addr]uint8{}, own: map[netip.Addr]ib.GID{host(1): source(1).GID, host(2): source(2).GID}}
	b.rules = assignment.Rules{
		Own: func(h netip.Addr) ib.GID { return b.own[h] },
		Fits: func(h netip.Addr, g ib.GID) assignment.Fit {
			switch {
			case g == source(3).GID && h == host(3):
				return assignment.Made
			case g == source(4).GID || g == source(5).GID, g == source(0).GID: // the bridge's own, too: a prefix may have it
				return assignment.Spare
			}
			return assignment.Unfit
		},
		Given: func(h netip.Addr, s ibside.Source) { b.from[h] = s.Number },
	}
	b.Sources = assignment.NewSources(b.rules)
	return b
}

func (b *fixture) follow(ns ...int) {
	b.all = sources(ns...)
	for _, lost := range b.Follow(b.all) {
		b.from[lost.Host] = 0
	}
}

// TestGive checks that each host gets the best source that there is for it.
func TestGive(t *testing.T) {
	for _, c := range []struct {
		name    string
		sources []int
		hosts   []int
		want    []uint8
	}{
		{"none but the bridge's", nil, []int{1, 3}, []uint8{0, 0}},
		{"its address, before a spare one", []int{4, 1}, []int{1}, []uint8{1}},
		{"made for it, before a spare one", []int{4, 3}, []int{3}, []uint8{3}},
		{"another's", []int{1, 3, 6}, []int{4}, []uint8{0}},
		{"spare ones, in order, while there are any", []int{4, 5}, []int{7, 8, 9}, []uint8{4, 5, 0}},
	} {
		b := newFixture()
		b.follow(c.sources...)
		var got []uint8
		for _, h := range c.hosts {
			got = append(got, b.Give(host(h)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestGiveWhatIsTaken checks that a host's address is taken from the host that was using it, which gets another source,
// or none.
func TestGiveWhatIsTaken(t *testing.T) {
	for _, c := range []struct {
		sources []int
		five    uint8
	}{{[]int{4}, 0}, {[]int{4, 5}, 5}} {
		b := newFixture()
		b.follow(c.sources...)
		b.Give(host(5))
		b.own[host(1)] = source(4).GID
		if n := b.Give(host(1)); n != 4 || b.from[host(5)] != c.five || b.from[host(1)] != 4 {
			t.Errorf("%v: host 1 sends from %d, all from %v", c.sources, n, b.from)
		}
	}
}

// TestRefit checks that a host that had a GID because it was its address loses it when this no longer holds, and that
// no other host loses its GID.
func TestRefit(t *testing.T) {
	b := newFixture()
	b.follow(1, 2, 4)
	for n := range 5 {
		b.Give(host(n))
	}
	owners := b.Owners()
	b.own[host(1)], b.own[host(2)] = source(2).GID, source(2).GID
	lost := b.Refit(owners)
	if len(owners) != 2 || len(lost) != 1 || lost[0] != (assignment.Lost{Host: host(1), GID: source(1).GID}) {
		t.Errorf("owners %v, lost %v", owners, lost)
	}
	b.own[host(9)] = source(1).GID
	b.GiveFreed(slices.Values([]netip.Addr{host(9)}))
	if _, has := b.Of(host(1)); has || b.from[host(9)] != 1 {
		t.Errorf("host 1 has a source: %v; host 9, whose address it is now, sends from %d", has, b.from[host(9)])
	}
}

// TestRefitGives checks that a host whose address changes gets the GID that is its address now.
func TestRefitGives(t *testing.T) {
	b, hosts := newFixture(), slices.Values([]netip.Addr{host(8)})
	b.follow(6)
	b.GiveFreed(hosts)
	before := b.from[host(8)]
	b.own[host(8)] = source(6).GID
	b.Refit(b.Owners())
	b.GiveFreed(hosts)
	if before != 0 || b.from[host(8)] != 6 {
		t.Errorf("sends from %d, before from %d", b.from[host(8)], before)
	}
}

// TestFollow checks that after any changes no source is given twice, none is free that fits a host without one, each
// host has its address if the port has it, and the caller has been told.
func TestFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, hosts := newFixture(), map[netip.Addr]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h := host(rapid.IntRange(1, 7).Draw(t, "host"))
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				b.follow(rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 6, rapid.ID[int]).Draw(t, "sources")...)
			case 1:
				hosts[h] = true
				b.from[h] = b.Give(h)
			case 2:
				delete(hosts, h)
				delete(b.from, h)
				b.Drop(h)
			}
			b.GiveFreed(maps.Keys(hosts))
			if err := b.check(hosts); err != "" {
				t.Fatal(err)
			}
		}
	})
}

func (b *fixture) check(hosts map[netip.Addr]bool) string {
	holder, n := map[uint8]netip.Addr{}, 0
	for h := range hosts {
		s, has := b.Of(h)
		if s.Number != b.from[h] {
			return fmt.Sprintf("%v has source %d, and sends from %d", h, s.Number, b.from[h])
		}
		if !has {
			continue
		}
		if !slices.Contains(b.all, s) {
			return fmt.Sprintf("%v has source %d, which has gone", h, s.Number)
		}
		if other, taken := holder[s.Number]; taken {
			return fmt.Sprintf("%v and %v both have source %d", h, other, s.Number)
		}
		holder[s.Number] = h
		n++
	}
	if b.Len() != n {
		return fmt.Sprintf("%d hosts have a source, and %d are counted", n, b.Len())
	}
	for h := range hosts {
		for _, s := range b.all[1:] {
			_, taken := holder[s.Number]
			if own := s.GID == b.own[h]; own && b.from[h] != s.Number || b.from[h] == 0 && !taken && b.rules.Fits(h, s.GID) != assignment.Unfit {
				return fmt.Sprintf("%v has source %d, and could have had %d", h, b.from[h], s.Number)
			}
		}
	}
	return ""
}
