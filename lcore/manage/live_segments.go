// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"causeway/tables"
)

// past is what was counted in segments that are there no more.
type past struct {
	SegmentCounters
	Services [2]ServiceCounts
}

// countedIn returns what was counted in a segment.
func countedIn(s *segment) past {
	return past{SegmentCounters{s.neighbours.Counters(), s.groups.Counters(), s.proxyQPs.Counters()}, s.sidr.Counts()}
}

// everySegment yields those that are removed, too.
func (p *parts) everySegment() iter.Seq[*segment] {
	return slices.Values(slices.Concat(p.segments, p.ended))
}

// at returns the segment of a place; nil: there is none.
func (p *parts) at(place Place) *segment {
	for _, s := range p.segments {
		if s.cfg.Place == place {
			return s
		}
	}
	return nil
}

// numbersOf returns the numbers of the segments that a change makes, by place, or why there cannot be these segments. Those
// that stay keep theirs.
func (l *Loop) numbersOf(c *Change) (map[Place]uint8, error) {
	free, numbers := l.freeNumbers(), map[Place]uint8{}
	for _, s := range c.segments() {
		_, twice := numbers[s.Place]
		old := l.at(s.Place)
		switch {
		case twice:
			return nil, fmt.Errorf("manage: VLAN %d is that of two segments", s.VLAN)
		case old != nil:
			numbers[s.Place] = old.number
		case len(free) == 0:
			return nil, errors.New("manage: there is no number for another segment, until what is under way in one that was removed has ended; try again")
		default:
			numbers[s.Place], free = free[0], free[1:]
		}
	}
	return numbers, nil
}

// freeNumbers returns the numbers that no segment has, nor one that was removed as long as anything of it is used.
func (l *Loop) freeNumbers() (free []uint8) {
	for n := range uint8(tables.MaxSegments) {
		has := func(s *segment) bool { return s.number == n }
		if slices.ContainsFunc(l.segments, has) || slices.ContainsFunc(l.ended, has) || l.cfg.Rests != nil && l.cfg.Rests(n) {
			continue
		}
		free = append(free, n)
	}
	return free
}

// changeSegments removes and adds segments. Those that stay keep their numbers, and all that they have.
func (l *Loop) changeSegments(c *Change, numbers map[Place]uint8, now time.Time) {
	var stay []*segment
	for _, s := range l.segments {
		if c.of(s) != nil {
			stay = append(stay, s)
			continue
		}
		l.endSegment(s, now)
	}
	known := l.segments[0].groups
	l.segments = stay
	all := c.segments()
	x := l.cfg.shareOut(all, c.Shared)
	l.several.Store(len(all) > 1)
	for _, cfg := range all {
		if l.at(cfg.Place) == nil {
			l.beginSegment(numbers[cfg.Place], cfg, x, now).groups.Know(known)
		}
	}
	slices.SortFunc(l.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	for _, s := range l.segments {
		s.setShare(l.cfg, x, len(c.of(s).Groups))
		s.proxyQPs.SetLimits(x.ofProxyQPs(c.ProxyQPLimits))
	}
}

// lookedAt is the segment whose hosts and addresses learned nodes have nothing of: where nodes are learned there is one at a
// time, and a change may put another into its place.
type lookedAt struct{ p *parts }

func (x lookedAt) is() *segment { return x.p.segments[0] }

// hostsAt are its hosts.
type hostsAt struct{ lookedAt }

// Has implements learner.Hosts.
func (x hostsAt) Has(ip netip.Addr) bool {
	_, known := x.is().neighbours.Find(ip)
	confirmed, _ := x.is().neighbours.Standing(ip)
	return known && confirmed
}

// OnLink implements learner.Local.
func (x lookedAt) OnLink(ip netip.Addr) bool { return x.is().local.OnLink(ip) }

// Has implements learner.Local.
func (x lookedAt) Has(ip netip.Addr) bool { return x.is().local.Has(ip) }

// beginSegment makes a segment that has no hosts, groups and services yet.
func (l *Loop) beginSegment(number uint8, cfg Segment, x share, now time.Time) *segment {
	cfg.SegmentChange = SegmentChange{}
	s := newSegment(number, cfg, l.cfg, l.tables)
	l.makeSegment(s, x)
	if cfg.Attach != nil {
		cfg.Attach(number, l.partitions.Number(cfg.Bound))
	}
	l.segments, l.came = append(l.segments, s), true
	s.gids.Follow()
	if l.drained {
		s.neighbours.SetDrained(true, now)
	} else {
		s.neighbours.PlanAnnouncements(now)
	}
	l.log.Info("segment_added", "segment", s.name(), "number", number)
	return s
}

// endSegment removes a segment: first workers drop its frames, and then its tables are emptied. Its groups are left,
// and its requests for services ended, which takes time.
func (l *Loop) endSegment(s *segment, now time.Time) {
	if s.cfg.Detach != nil {
		s.cfg.Detach(s.number)
	}
	l.exchange.forget(s)
	s.sidr.Stop()
	s.groups.SetRanges(nil)
	s.groups.SetGuests(nil, now)              // they stay in other segments
	if err := s.groups.Set(nil); err != nil { // cannot be: there are none
		l.log.Error("segment_removed", "segment", s.name(), "error", err)
	}
	s.proxyQPs.Clear()
	s.neighbours.Clear(now)
	l.ended, l.came = append(l.ended, s), true
	l.log.Info("segment_removed", "segment", s.name(), "number", s.number)
}

// tickEnded forgets the segments that were removed, and in which nothing is under way any more.
func (p *parts) tickEnded(now, heard time.Time) {
	p.ended = slices.DeleteFunc(p.ended, func(s *segment) bool {
		s.groups.Tick(now, heard)
		if !s.groups.Left() || !s.sidr.Stopped() {
			return false
		}
		more := countedIn(s)
		add(reflect.ValueOf(&p.past).Elem(), reflect.ValueOf(&more).Elem())
		p.exchange.release(s)
		return true
	})
}
