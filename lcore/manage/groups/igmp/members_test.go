// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/lcore/frame"
)

// A segment is a link with members of a group, and one or two routers, of which the first one's address is the lower.
// Nothing that is said there is lost.
type segment struct {
	t       *testing.T
	group   netip.Addr
	sources []netip.Addr
	random  *rand.Rand
	now     time.Time
	routers []*router
	members []*member
	told    []string
}

// A router is the bridge, or one that is as it is.
type router struct {
	at netip.Addr
	q  *Querier
	l  Listeners
}

// A member is a host as RFC 3376 §5 and RFC 3810 §6 have it, or as those of an older version do.
type member struct {
	s       *segment
	name    string
	version uint8
	newest  bool
	exclude bool
	sources []netip.Addr

	answer, answerAbout time.Time    // when it answers a query, and one about sources; zero: it need not
	about               []netip.Addr // these
	again               time.Time    // when it says once more what it has said
	last                frame.GroupRecord
}

func newSegment(t *testing.T, six bool, routers int, random *rand.Rand) *segment {
	s := &segment{t: t, group: netip.MustParseAddr("239.1.2.3"), random: random, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	newest := uint8(3)
	if six {
		s.group, newest = netip.MustParseAddr("ff05::1:3"), 2
	}
	for i := range 3 {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		if six {
			a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i)})
		}
		s.sources = append(s.sources, a)
	}
	for i := range routers {
		r := &router{at: netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)})}
		link := frame.Link{MAC: frame.MAC{2, 5: byte(1 + i)}}
		r.q = NewQuerier(Port{Link: link, IPv4: r.at, Send: func(_ int, b []byte) bool { s.asked(r, b); return true }})
		r.q.Enabled = true
		if six {
			r.at = link.MAC.LinkLocal()
		}
		s.routers = append(s.routers, r)
	}
	for version := newest; version > 0; version-- {
		for i := range 2 {
			s.members = append(s.members, &member{s: s, name: fmt.Sprintf("host %d of version %d", i, version), version: version, newest: version == newest})
		}
	}
	return s
}

// asked has the others hear a router's query.
func (s *segment) asked(by *router, b []byte) {
	f, _ := frame.Open(b)
	var m frame.Membership
	if f.IPv4 != nil {
		m, _ = frame.ParseIGMP(f.IPv4, f.Payload)
	} else {
		m, _ = frame.ParseMLD(f.IPv6, f.Payload)
	}
	if m.Query == nil {
		s.t.Fatalf("sent %x", b)
	}
	if m.Query.Group == s.group || m.Query.Group.IsUnspecified() && m.Query.Group.Is4() == s.group.Is4() {
		s.note("%v asks %+v", by.at, *m.Query)
		for _, x := range s.members {
			x.queried(m.Query)
		}
		for _, r := range s.routers {
			if r != by {
				r.q.Heard(by.at, m.Query, s.now)
				if m.Query.Group == s.group {
					r.l.Queried(m.Query, s.now)
				}
			}
		}
	}
}

func (s *segment) note(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf("%6.1f ", s.now.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds())+fmt.Sprintf(format, args...))
}

func (s *segment) within(d time.Duration) time.Time {
	return s.now.Add(time.Duration(s.random.Int64N(int64(d))))
}

func (s *segment) some() (all []netip.Addr) {
	for _, a := range s.sources {
		if s.random.IntN(2) == 0 {
			all = append(all, a)
		}
	}
	return all
}

// sooner returns the earlier of two times, of which the first may be none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func (m *member) queried(q *frame.Query) {
	within := max(q.MaxResp, time.Second)
	switch {
	case m.version == 1 && m.s.group.Is4():
		m.answer = sooner(m.answer, m.s.within(10*time.Second)) // it knows no other query than that for all
	case m.newest && len(q.Sources) > 0:
		for _, a := range q.Sources {
			if !slices.Contains(m.about, a) {
				m.about = append(m.about, a)
			}
		}
		m.answerAbout = sooner(m.answerAbout, m.s.within(within))
	default:
		m.answer = sooner(m.answer, m.s.within(within))
	}
}

func minus(a, b []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(a), func(x netip.Addr) bool { return slices.Contains(b, x) })
}

// say sends a record to the routers. Older hosts that hear another's report of theirs need not answer.
func (m *member) say(r frame.GroupRecord) {
	r.Group = m.s.group
	m.s.note("%s says %v %v", m.name, r.Type, r.Sources)
	for _, x := range m.s.routers {
		x.l.Reported(x.q, m.version, r, m.s.now)
	}
	for _, x := range m.s.members {
		if !m.newest && !x.newest && x != m && !r.Leaves() {
			x.answer = time.Time{}
		}
	}
}

// want changes what the host wants. Those of an older version want all sources, or none.
func (m *member) want(exclude bool, sources []netip.Addr) {
	wasExclude, was := m.exclude, m.sources
	if !m.newest {
		sources = nil
	}
	m.exclude, m.sources, m.again = exclude, sources, m.s.within(time.Second)
	types := map[bool]frame.RecordType{true: frame.ToExclude, false: frame.ToInclude}
	more, less := minus(sources, was), minus(was, sources)
	if exclude {
		more, less = less, more
	}
	switch {
	case !m.newest && !exclude:
		m.again = time.Time{}
		if wasExclude && (m.version > 1 || !m.s.group.Is4()) {
			m.say(frame.GroupRecord{Type: frame.ToInclude})
		}
		return
	case !m.newest:
		m.last = frame.GroupRecord{Type: frame.ModeIsExclude}
	case exclude != wasExclude:
		m.last = frame.GroupRecord{Type: types[exclude], Sources: sources}
	default:
		if len(less) > 0 {
			m.say(frame.GroupRecord{Type: frame.BlockOldSources, Sources: less})
		}
		m.last = frame.GroupRecord{Type: frame.AllowNewSources, Sources: more}
	}
	m.say(m.last)
}

func (m *member) tick() {
	now := m.s.now
	if due(m.again, now) {
		m.again = time.Time{}
		m.say(m.last)
	}
	if due(m.answer, now) {
		m.answer, m.answerAbout, m.about = time.Time{}, time.Time{}, nil
		if m.exclude {
			m.say(frame.GroupRecord{Type: frame.ModeIsExclude, Sources: m.sources})
		} else if len(m.sources) > 0 {
			m.say(frame.GroupRecord{Type: frame.ModeIsInclude, Sources: m.sources})
		}
	}
	if due(m.answerAbout, now) {
		wanted := minus(m.about, minus(m.about, m.sources))
		if m.exclude {
			wanted = minus(m.about, m.sources)
		}
		m.answerAbout, m.about = time.Time{}, nil
		if len(wanted) > 0 {
			m.say(frame.GroupRecord{Type: frame.ModeIsInclude, Sources: wanted})
		}
	}
}

// carries reports whether a router forwards what a source sends.
func (r *router) carries(a netip.Addr) bool {
	s := r.l.sources[a]
	return r.l.exclude && (s == nil || !s.until.IsZero()) || !r.l.exclude && s != nil
}

// check checks that each member gets what it wants by each router.
func (s *segment) check() {
	for _, m := range s.members {
		for _, a := range s.sources {
			if slices.Contains(m.sources, a) == m.exclude {
				continue
			}
			for _, r := range s.routers {
				if !r.carries(a) {
					for _, line := range s.told[max(0, len(s.told)-40):] {
						s.t.Log(line)
					}
					s.t.Fatalf("%s wants %v, and %v does not carry it: %+v", m.name, a, r.at, r.l)
				}
			}
		}
	}
}

func (s *segment) pass(d time.Duration) {
	const step = 100 * time.Millisecond
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(step)
		for _, m := range s.members {
			m.tick()
		}
		for _, r := range s.routers {
			r.q.Tick(s.now)
			r.l.Tick(r.q, s.group, step, s.now)
		}
		s.check()
	}
}

// FuzzMembers has hosts of all versions come, change their minds and leave: each gets what it wants while it wants it, by a bridge that is the
// querier, and by one beside a querier; and a group that nobody wants ends.
func FuzzMembers(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := newSegment(t, random.IntN(2) == 0, 1+random.IntN(2), random)
		s.pass(s.within(20 * time.Second).Sub(s.now))
		only := random.IntN(3) // hosts of the newest version alone, with those of the one before, of all
		for range 60 {
			m := s.members[random.IntN(min(len(s.members), 2+2*only))]
			switch random.IntN(4) {
			case 0:
				m.want(false, nil)
			case 1:
				m.want(true, nil)
			case 2:
				m.want(true, s.some())
			case 3:
				m.want(!m.newest, s.some())
			}
			longest := []time.Duration{2 * time.Second, 10 * time.Second, 200 * time.Second}[random.IntN(3)]
			s.pass(s.within(longest).Sub(s.now))
		}
		for _, m := range s.members {
			m.want(false, nil)
		}
		s.pass(2*standard.membership() + time.Minute)
		for _, r := range s.routers {
			if r.l.Any() {
				t.Fatalf("nobody wants the group, and %v carries it: %+v", r.at, r.l)
			}
		}
	})
}
