// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/fleet/shares"
)

// egress is what a fleet did while messages passed, by captures at all ports.
type egress struct {
	all         []seen
	assignments int               // made meanwhile
	arrived     map[uint32]uint64 // how many different messages of each stream, by its listener
	most        uint64            // of a stream may be lost
	behind      uint64            // of a stream may be lost after it left
}

// numbered is a message.
type numbered struct {
	stream uint32
	number uint64
}

// flow is what is known of a stream.
type flow struct {
	toIB  bool
	share shares.Share
	sent  []uint64 // the numbers
	left  uint64
	first uint64 // of those that left, the number of the first
	last  seen   // and the highest
}

// lost counts what did not leave from the first on that did: before that, members join the group.
func (f *flow) lost() uint64 {
	n := uint64(0)
	for _, number := range f.sent {
		if f.left == 0 || number >= f.first {
			n++
		}
	}
	return n - min(n, f.left)
}

// leave counts a message that left.
func (f *flow) leave(m seen) {
	if f.left == 0 {
		f.first = m.number
	}
	if f.left++; f.left == 1 || m.number > f.last.number {
		f.last = m
	}
}

// check returns what is wrong, and how many messages were lost of the stream that lost most.
//
// That the intervals in which members forwarded a share are disjoint is checked by counting: in the order of their times,
// the messages of a share leave by one member after another. Each change of hands needs an assignment of its own, which
// took the share from one and gave it to the other: an old owner that goes on while the new one forwards makes two changes
// for each pair of messages, with no assignment between them. Assignments that do not concern the share make this lenient,
// never wrong; where there was none, a share must stay where it is.
func (e *egress) check() (wrong []string, lost uint64) {
	say := func(form string, args ...any) { wrong = append(wrong, fmt.Sprintf(form, args...)) }
	slices.SortStableFunc(e.all, func(a, b seen) int { return a.at.Compare(b.at) })
	flows, sent := e.flows()
	left, owners := map[numbered]int{}, map[shares.Share][]int{}
	for _, m := range e.all {
		key := numbered{m.stream, m.number}
		f, before := flows[m.stream], left[key]
		switch {
		case m.member == 0:
			continue
		case !sent[key] || f.toIB != m.toIB:
			say("m%d sent %v, which nobody had sent to that side", m.member, key)
			continue
		case before != 0:
			say("m%d sent %v, which m%d had sent: twice", m.member, key, before)
		case f.left > 0 && m.number < f.last.number:
			say("m%d sent %v after m%d had sent number %d: out of order", m.member, key, f.last.member, f.last.number)
		}
		if before == 0 {
			f.leave(m)
			left[key] = m.member
		}
		if o := owners[f.share]; len(o) == 0 || o[len(o)-1] != m.member {
			owners[f.share] = append(o, m.member)
		}
	}
	for s, o := range owners {
		if len(o)-1 > e.assignments {
			say("%v was forwarded by the members %v in turn, in %d assignments: not disjoint", s, o, e.assignments)
		}
	}
	for id, f := range flows {
		if n := f.lost(); n > e.most {
			say("of stream %08x %d messages were sent and %d left: lost", id, len(f.sent), f.left)
		}
		lost = max(lost, f.lost())
		if e.arrived[id] > f.left || f.left-e.arrived[id] > e.behind {
			say("of stream %08x %d messages left and %d arrived: lost behind the members", id, f.left, e.arrived[id])
		}
	}
	if n := len(e.arrived); n != len(flows) {
		say("%d streams were sent and %d arrived", len(flows), n)
	}
	return wrong, lost
}

// flows returns the streams, and which messages hosts and nodes sent.
func (e *egress) flows() (map[uint32]*flow, map[numbered]bool) {
	flows, sent := map[uint32]*flow{}, map[numbered]bool{}
	for _, m := range e.all {
		key := numbered{m.stream, m.number}
		if m.member != 0 || sent[key] {
			continue
		}
		if sent[key] = true; flows[m.stream] == nil {
			flows[m.stream] = &flow{toIB: m.toIB, share: m.share}
		}
		flows[m.stream].sent = append(flows[m.stream].sent, m.number)
	}
	return flows, sent
}

// rightEgress is the traffic of a host whose share goes from a member to another, and of a node whose group's share
// stays. Of the host's messages one is lost.
func rightEgress() *egress {
	e := &egress{assignments: 1, most: 1, arrived: map[uint32]uint64{1: 9, 2: 10}}
	began := time.Unix(1, 0)
	for i := range 10 {
		at := began.Add(time.Duration(i) * 10 * time.Millisecond)
		host, node := seen{at: at, toIB: true, share: 5, stream: 1, number: uint64(i)}, seen{at: at, share: shares.Hosts + 5, stream: 2, number: uint64(i)}
		e.all = append(e.all, host, node)
		host.at, node.at = at.Add(time.Millisecond), at.Add(time.Millisecond)
		host.member, node.member = 1+i/6, 3
		if i != 5 {
			e.all = append(e.all, host)
		}
		e.all = append(e.all, node)
	}
	return e
}

// of returns the index of a message that left.
func (e *egress) of(stream uint32, number uint64) int {
	return slices.IndexFunc(e.all, func(m seen) bool { return m.member != 0 && m.stream == stream && m.number == number })
}

// TestFleetEgress has the checker find each kind of mistake, and nothing else, in captures of which all else is right.
func TestFleetEgress(t *testing.T) {
	if wrong, lost := rightEgress().check(); len(wrong) != 0 || lost != 1 {
		t.Errorf("lost %d, %q", lost, wrong)
	}
	for want, spoil := range map[string]func(*egress){
		"m2 sent {1 3}, which m1 had sent: twice": func(e *egress) {
			again := e.all[e.of(1, 3)]
			again.member, again.at = 2, e.all[e.of(1, 7)].at
			e.all = append(e.all, again)
		},
		"m3 sent {2 4}, which m3 had sent: twice":                                               func(e *egress) { e.all = append(e.all, e.all[e.of(2, 4)]) },
		"m3 sent {2 4} after m3 had sent number 6: out of order":                                func(e *egress) { e.all[e.of(2, 4)].at = e.all[e.of(2, 6)].at.Add(time.Millisecond) },
		"host/5 was forwarded by the members [1 2 1 2] in turn, in 1 assignments: not disjoint": func(e *egress) { e.all[e.of(1, 7)].member = 1 },
		"group/5 was forwarded by the members [3 1 3] in turn, in 1 assignments: not disjoint":  func(e *egress) { e.all[e.of(2, 4)].member = 1 },
		"host/5 was forwarded by the members [1 2] in turn, in 0 assignments: not disjoint":     func(e *egress) { e.assignments = 0 },
		"of stream 00000001 10 messages were sent and 8 left: lost": func(e *egress) {
			i := e.of(1, 8)
			e.all, e.arrived = slices.Delete(e.all, i, i+1), map[uint32]uint64{1: 8, 2: 10}
		},
		"of stream 00000001 10 messages were sent and 9 left: lost":                   func(e *egress) { e.most = 0 },
		"of stream 00000002 10 messages left and 9 arrived: lost behind the members":  func(e *egress) { e.arrived[2] = 9 },
		"of stream 00000002 10 messages left and 8 arrived: lost behind the members":  func(e *egress) { e.behind, e.arrived[2] = 1, 8 },
		"of stream 00000002 10 messages left and 11 arrived: lost behind the members": func(e *egress) { e.behind, e.arrived[2] = 1, 11 },
		"m3 sent {2 10}, which nobody had sent to that side":                          func(e *egress) { e.all = append(e.all, seen{at: time.Unix(2, 0), member: 3, stream: 2, number: 10}) },
		"m3 sent {1 9}, which nobody had sent to that side":                           func(e *egress) { e.all = append(e.all, seen{at: time.Unix(2, 0), member: 3, stream: 1, number: 9}) },
		"2 streams were sent and 3 arrived":                                           func(e *egress) { e.arrived[3] = 1 },
	} {
		e := rightEgress()
		spoil(e)
		if wrong, _ := e.check(); !slices.Contains(wrong, want) || len(wrong) > 2 {
			t.Errorf("want %q, and at most what follows from it, got %q", want, wrong)
		}
	}
}

// messagesIn returns how many messages of a stream there are in a time.
func messagesIn(d time.Duration) uint64 { return uint64(d * fleetRate / time.Second) }

// judge checks what was captured since the traffic began, with what the listeners received.
func (x *fleetTraffic) judge(what string, most time.Duration, reports ...report) {
	x.f.t.Helper()
	e := egress{all: x.f.capture.take(), assignments: x.f.assignment() - x.assignment, arrived: map[uint32]uint64{}, most: messagesIn(most), behind: messagesIn(x.f.behind)}
	for _, r := range reports {
		for _, s := range r.Streams {
			var id uint32
			if _, err := fmt.Sscanf(s.Stream, "0x%x", &id); err != nil {
				x.f.t.Fatalf("%s: stream %q: %v", what, s.Stream, err)
			}
			e.arrived[id] += s.Unique
		}
	}
	wrong, lost := e.check()
	x.f.t.Logf("%s: %d messages captured, %d assignments; a stream lost %d at most", what, len(e.all), e.assignments, lost)
	if len(wrong) > 0 {
		x.f.t.Errorf("%s: %d mistakes at egress:\n%s", what, len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
}

// assignment returns the number of the newest assignment that a member which runs knows of.
func (f *bridgeFleet) assignment() (newest int) {
	f.t.Helper()
	for _, n := range slices.Sorted(maps.Keys(f.members)) {
		p := launch(f.t, "ctl", "-s", f.console(n), "show", "fleet")
		if p.wait() != exitOK {
			continue // it has ended
		}
		_, after, found := strings.Cut(p.stdout.String(), "its assignment number ")
		var number int
		if _, err := fmt.Sscan(strings.TrimRight(strings.Fields(after + " .")[0], "."), &number); err != nil || !found {
			f.t.Fatalf("m%d has no assignment: %v\n%s", n, err, &p.stdout)
		}
		newest = max(newest, number)
	}
	return newest
}

// conserved ends the members, and checks that each has sent what it received but for what it dropped, by its own counters,
// and that what it sent is what was captured. A cable that was cut may have had messages of the second member.
func (f *bridgeFleet) conserved() {
	f.t.Helper()
	for _, m := range f.members {
		m.end(syscall.SIGTERM)
	}
	for n, m := range f.members {
		for _, line := range m.lines() {
			if line["msg"] != "stopped" {
				continue
			}
			if line["conserved"] != true {
				f.t.Errorf("m%d: %v", n, line)
			}
			way := slices.Index([]string{"ib_to_roce", "roce_to_ib"}, fmt.Sprint(line["direction"]))
			f.capture.mu.Lock()
			captured, sent := f.capture.sent[n][way], uint64(line["sent"].(float64))
			f.capture.mu.Unlock()
			f.t.Logf("m%d, %v: %d sent, %d captured", n, line["direction"], sent, captured)
			if captured > sent || n != 2 && captured != sent {
				f.t.Errorf("m%d, %v: %d sent, and %d captured", n, line["direction"], sent, captured)
			}
		}
	}
}
