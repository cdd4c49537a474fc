// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"slices"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// rightEgress is the traffic of a host whose shard goes from a member to another, and of a node whose group's shard
// stays. Of the host's messages one is lost.
func rightEgress() *Egress {
	e := &Egress{Assignments: 1, Most: 1, Arrived: map[uint32]uint64{1: 9, 2: 10}}
	began := time.Unix(1, 0)
	for i := range 10 {
		at := began.Add(time.Duration(i) * 10 * time.Millisecond)
		host, node := Seen{At: at, ToIB: true, Divided: true, Shard: 5, Stream: 1, Number: uint64(i)}, Seen{At: at, Divided: true, Shard: shards.Hosts + 5, Stream: 2, Number: uint64(i)}
		e.All = append(e.All, host, node)
		host.At, node.At = at.Add(time.Millisecond), at.Add(time.Millisecond)
		host.Member, node.Member = 1+i/6, 3
		if i != 5 {
			e.All = append(e.All, host)
		}
		e.All = append(e.All, node)
	}
	return e
}

// of returns the index of a message that left.
func (e *Egress) of(stream uint32, number uint64) int {
	return slices.IndexFunc(e.All, func(m Seen) bool { return m.Member != 0 && m.Stream == stream && m.Number == number })
}

// TestEgressBegins has a stream lose its first message: members that have joined its group already should have sent it.
func TestEgressBegins(t *testing.T) {
	for joined, want := range map[bool]uint64{false: 1, true: 2} {
		e := rightEgress()
		i := e.of(1, 0)
		e.Joined, e.Most, e.All, e.Arrived[1] = joined, 2, slices.Delete(e.All, i, i+1), 8
		if wrong, lost := e.Check(); len(wrong) != 0 || lost != want {
			t.Errorf("joined: %v: lost %d, %q", joined, lost, wrong)
		}
	}
}

// TestEgressAnswers has the members take turns with what nodes have answered to each of them, which shards do not divide.
func TestEgressAnswers(t *testing.T) {
	e := rightEgress()
	for i := range e.All {
		if m := &e.All[i]; m.Stream == 2 {
			m.Divided = false
			if m.Member != 0 {
				m.Member = 1 + int(m.Number%2)
			}
		}
	}
	if wrong, lost := e.Check(); len(wrong) != 0 || lost != 1 {
		t.Errorf("lost %d, %q", lost, wrong)
	}
}

// TestEgress has the checker find each kind of mistake, and nothing else, in captures of which all else is right.
func TestEgress(t *testing.T) {
	if wrong, lost := rightEgress().Check(); len(wrong) != 0 || lost != 1 {
		t.Errorf("lost %d, %q", lost, wrong)
	}
	for want, spoil := range map[string]func(*Egress){
		"m2 sent {1 3}, which m1 had sent: twice": func(e *Egress) {
			again := e.All[e.of(1, 3)]
			again.Member, again.At = 2, e.All[e.of(1, 7)].At
			e.All = append(e.All, again)
		},
		"m3 sent {2 4}, which m3 had sent: twice":                                               func(e *Egress) { e.All = append(e.All, e.All[e.of(2, 4)]) },
		"m3 sent {2 4} after m3 had sent number 6: out of order":                                func(e *Egress) { e.All[e.of(2, 4)].At = e.All[e.of(2, 6)].At.Add(time.Millisecond) },
		"host/5 was forwarded by the members [1 2 1 2] in turn, in 1 assignments: not disjoint": func(e *Egress) { e.All[e.of(1, 7)].Member = 1 },
		"group/5 was forwarded by the members [3 1 3] in turn, in 1 assignments: not disjoint":  func(e *Egress) { e.All[e.of(2, 4)].Member = 1 },
		"host/5 was forwarded by the members [1 2] in turn, in 0 assignments: not disjoint":     func(e *Egress) { e.Assignments = 0 },
		"of stream 00000001 10 messages were sent and 8 left: lost": func(e *Egress) {
			i := e.of(1, 8)
			e.All, e.Arrived = slices.Delete(e.All, i, i+1), map[uint32]uint64{1: 8, 2: 10}
		},
		"of stream 00000001 10 messages were sent and 9 left: lost":                   func(e *Egress) { e.Most = 0 },
		"of stream 00000002 10 messages left and 9 arrived: lost behind the members":  func(e *Egress) { e.Arrived[2] = 9 },
		"of stream 00000002 10 messages left and 8 arrived: lost behind the members":  func(e *Egress) { e.Behind, e.Arrived[2] = 1, 8 },
		"of stream 00000002 10 messages left and 11 arrived: lost behind the members": func(e *Egress) { e.Behind, e.Arrived[2] = 1, 11 },
		"m3 sent {2 10}, which nobody had sent to that side":                          func(e *Egress) { e.All = append(e.All, Seen{At: time.Unix(2, 0), Member: 3, Stream: 2, Number: 10}) },
		"m3 sent {1 9}, which nobody had sent to that side":                           func(e *Egress) { e.All = append(e.All, Seen{At: time.Unix(2, 0), Member: 3, Stream: 1, Number: 9}) },
		"2 streams were sent and 3 arrived":                                           func(e *Egress) { e.Arrived[3] = 1 },
	} {
		e := rightEgress()
		spoil(e)
		if wrong, _ := e.Check(); !slices.Contains(wrong, want) || len(wrong) > 2 {
			t.Errorf("want %q, and at most what follows from it, got %q", want, wrong)
		}
	}
}
