// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"
	"slices"

	"causeway/fleet/shards"
)

// Egress is what a fleet did while messages passed, by captures at all ports.
type Egress struct {
	All         []Seen
	Assignments int               // made meanwhile
	Arrived     map[uint32]uint64 // how many different messages of each stream, by its listener
	Most        uint64            // of a stream may be lost
	Behind      uint64            // of a stream may be lost after it left
	Joined      bool              // members were in the groups from the beginning: what did not leave then was lost, too
}

// numbered is a message.
type numbered struct {
	stream uint32
	number uint64
}

// flow is what is known of a stream.
type flow struct {
	Seen           // the first one that was sent
	sent  []uint64 // the numbers
	left  uint64
	first uint64 // what is lost from this number on counts
	last  Seen   // the highest that left
}

// lost counts what did not leave, of what members that had joined the group could send.
func (f *flow) lost() uint64 {
	n := uint64(0)
	for _, number := range f.sent {
		if number >= f.first {
			n++
		}
	}
	return n - min(n, f.left)
}

// leave counts a message that left.
func (f *flow) leave(m Seen, joined bool) {
	if f.left == 0 && !joined {
		f.first = m.Number
	}
	if f.left++; f.left == 1 || m.Number > f.last.Number {
		f.last = m
	}
}

// Check returns what is wrong, and how many messages were lost of the stream that lost most.
//
// That the intervals in which members forwarded a shard are disjoint is checked by counting: in the order of their times,
// the messages of a shard leave by one member after another. Each change of hands needs an assignment of its own, which
// took the shard from one and gave it to the other: an old owner that goes on while the new one forwards makes two changes
// for each pair of messages, with no assignment between them. Assignments that do not concern the shard make this lenient,
// never wrong; where there was none, a shard must stay where it is.
func (e *Egress) Check() (wrong []string, lost uint64) {
	say := func(form string, args ...any) { wrong = append(wrong, fmt.Sprintf(form, args...)) }
	slices.SortStableFunc(e.All, func(a, b Seen) int { return a.At.Compare(b.At) })
	flows, sent := e.flows()
	left, owners := map[numbered]int{}, map[shards.Shard][]int{}
	for _, m := range e.All {
		key := numbered{m.Stream, m.Number}
		f, before := flows[m.Stream], left[key]
		switch {
		case m.Member == 0:
			continue
		case !sent[key] || f.ToIB != m.ToIB:
			say("m%d sent %v, which nobody had sent to that side", m.Member, key)
			continue
		case before != 0:
			say("m%d sent %v, which m%d had sent: twice", m.Member, key, before)
		case f.left > 0 && m.Number < f.last.Number:
			say("m%d sent %v after m%d had sent number %d: out of order", m.Member, key, f.last.Member, f.last.Number)
		}
		if before == 0 {
			f.leave(m, e.Joined)
			left[key] = m.Member
		}
		if o := owners[f.Shard]; f.Divided && (len(o) == 0 || o[len(o)-1] != m.Member) {
			owners[f.Shard] = append(o, m.Member)
		}
	}
	for s, o := range owners {
		if len(o)-1 > e.Assignments {
			say("%v was forwarded by the members %v in turn, in %d assignments: not disjoint", s, o, e.Assignments)
		}
	}
	for id, f := range flows {
		if n := f.lost(); n > e.Most {
			say("of stream %08x %d messages were sent and %d left: lost", id, len(f.sent), f.left)
		}
		lost = max(lost, f.lost())
		if e.Arrived[id] > f.left || f.left-e.Arrived[id] > e.Behind {
			say("of stream %08x %d messages left and %d arrived: lost behind the members", id, f.left, e.Arrived[id])
		}
	}
	if n := len(e.Arrived); n != len(flows) {
		say("%d streams were sent and %d arrived", len(flows), n)
	}
	return wrong, lost
}

// flows returns the streams, and which messages hosts and nodes sent.
func (e *Egress) flows() (map[uint32]*flow, map[numbered]bool) {
	flows, sent := map[uint32]*flow{}, map[numbered]bool{}
	for _, m := range e.All {
		key := numbered{m.Stream, m.Number}
		if m.Member != 0 || sent[key] {
			continue
		}
		if sent[key] = true; flows[m.Stream] == nil {
			flows[m.Stream] = &flow{Seen: m}
		}
		flows[m.Stream].sent = append(flows[m.Stream].sent, m.Number)
	}
	return flows, sent
}
