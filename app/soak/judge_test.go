// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/ibside/stamp"
)

// judged is a flow to two receivers, without a clock of its own.
type judged struct {
	*flow
	now time.Time
}

// send sends messages.
func (j *judged) send(n int) {
	for range n {
		j.next(j.now)
	}
}

// message is the one with a number, as it was sent.
func (j *judged) message(n uint64) message {
	b := stampedBy(j.flow, n)
	imm, has := immOf(j.stream, n, len(b))
	return message{b, has, imm}
}

// come has messages arrive at a receiver.
func (j *judged) come(at int, numbers ...uint64) {
	for _, n := range numbers {
		j.arrive(at, j.message(n))
	}
}

// both has messages arrive at both.
func (j *judged) both(numbers ...uint64) {
	j.come(0, numbers...)
	j.come(1, numbers...)
}

func (j *judged) later(d time.Duration) {
	j.now = j.now.Add(d)
	j.next(j.now)
}

// newJudged returns a flow that is steady after its first message. Every fifth is too short for a stamp.
func newJudged() *judged {
	j := &judged{newFlow("a → b", "test", 7, 2, []int{64, 65, 66, 4, 68}), time.Now()}
	j.send(1)
	j.both(1)
	return j
}

// flowCases are the things that can happen to messages, and the fault that each is.
var flowCases = []struct {
	name string
	do   func(j *judged)
	want string // "": no fault
}{
	{"all arrive", func(j *judged) { j.send(5); j.both(2, 3, 4, 5, 6) }, ""},
	{"one is lost on its way to one receiver", func(j *judged) { j.send(4); j.come(0, 2, 3, 4); j.come(1, 2, 4) }, "message 3 is lost on its way to receiver 1"},
	{"a message without a stamp is lost", func(j *judged) { j.send(7); j.both(2, 4, 5) }, "message 3 is lost"},
	{"the last are lost", func(j *judged) { j.send(3); j.both(2); j.heard = j.now; j.later(stalledFor + 1) }, "nothing has arrived for 1m0s; messages [3 4] are under way"},
	{"a slow machine", func(j *judged) { j.send(3); j.both(2); j.heard = j.now; j.later(stalledFor - 1); j.both(3, 4) }, ""},
	{"twice", func(j *judged) { j.send(3); j.both(2, 3, 4); j.come(1, 3) }, "message 3 has arrived again at receiver 1"},
	{"overtaken", func(j *judged) { j.send(3); j.both(3, 2) }, "message 2 has arrived at receiver 0 after message 3"},
	{"never sent", func(j *judged) { j.send(3); j.both(9) }, "message 9 has arrived, of 4 that were sent"},
	{"damaged", func(j *judged) {
		j.send(1)
		b := stampedBy(j.flow, 2)
		b[40] ^= 1
		j.arrive(0, message{payload: b})
	}, "damaged, or another flow's"},
	{"cut", func(j *judged) { j.send(1); j.arrive(0, message{payload: stampedBy(j.flow, 2)[:50]}) }, "damaged, or another flow's"},
	{"another flow's", func(j *judged) {
		j.send(1)
		other := newFlow("c", "test", 8, 1, j.sizes)
		j.arrive(0, message{payload: stampedBy(other, 2)})
	}, "damaged, or another flow's"},
	{"its immediate data is gone", func(j *judged) { j.send(5); j.arrive(0, message{payload: stampedBy(j.flow, 6)}) }, "with the immediate data 0x0 (false)"},
	{"immediate data that it had not", func(j *judged) {
		j.send(1)
		j.arrive(0, message{stampedBy(j.flow, 2), true, immMark})
	}, "(true), not"},
	{"another's immediate data", func(j *judged) {
		j.send(5)
		m := j.message(6)
		m.imm++
		j.arrive(0, m)
	}, "message 6 has arrived with the immediate data"},
	{"a sender that cannot send", func(j *judged) { j.send(1); j.unsent(2, errors.New("no buffer space")) }, "message 2 could not be sent"},

	{"lost while shaken", func(j *judged) { j.send(2); j.shake(true); j.send(2); j.both(5) }, ""},
	{"twice while shaken", func(j *judged) { j.shake(true); j.send(1); j.both(2, 2) }, "arrived again"},
	{"overtaken while shaken", func(j *judged) { j.shake(true); j.send(2); j.both(3, 2) }, "after message 3"},
	{"overtaken, and its proxy QP is made anew", func(j *judged) { j.shake(false); j.send(2); j.both(3, 2) }, ""},
	{"lost while it probes", func(j *judged) { j.shake(true); j.probe(); j.send(1); j.later(probeFor + 1) }, ""},
	{"lost when it is steady again", func(j *judged) {
		j.shake(false)
		j.send(3)
		j.probe()
		j.later(probeFor + 1) // message 5
		j.both(5)
		j.send(2)
		j.both(7)
	}, "message 6 is lost"},
	{"late by a whole disturbance", func(j *judged) {
		j.send(1)
		j.shake(true)
		j.later(probeFor + 1)
		j.both(2)
	}, ""},
}

// TestFlow checks that each thing that can go wrong with a message is a fault, and that nothing else is.
func TestFlow(t *testing.T) {
	for _, c := range flowCases {
		t.Run(c.name, func(t *testing.T) {
			j := newJudged()
			c.do(j)
			faults := j.faults
			if c.want == "" && len(faults) > 0 || c.want != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("faults %q, want %q", faults, c.want)
			}
		})
	}
}

// TestWindow checks that a flow never has more under way than its window, and one message while it probes.
func TestWindow(t *testing.T) {
	j := &judged{newFlow("a → b", "test", 7, 2, []int{64}), time.Now()}
	j.send(100)
	if j.sent != 1 {
		t.Errorf("while it probes it has sent %d", j.sent)
	}
	j.both(1)
	j.send(100)
	if j.sent != 1+window {
		t.Errorf("without an arrival it has sent %d", j.sent)
	}
	j.both(2)
	j.send(100)
	if j.sent != 2+window || j.idle() {
		t.Errorf("after one arrival it has sent %d", j.sent)
	}
}

// TestMessages checks that the messages of flows are those of package stamp, and that short ones have their number.
func TestMessages(t *testing.T) {
	f := newFlow("a → b", "test", 7, 1, sizes)
	for n := range uint64(3 * len(sizes)) {
		b := stampedBy(f, n)
		if s, v := stamp.Read(b); !v.Intact() || v.Stamped() && (s.Number != n || s.Stream != 7) || len(b) != f.sizeOf(n) {
			t.Errorf("message %d: %+v, %v, %d bytes", n, s, v, len(b))
		}
		if imm, has := immOf(7, n, len(b)); len(b) < stamp.Len && !has || imm&^immMark>>immNumberBits != 7 {
			t.Errorf("message %d of %d bytes: immediate data %#x, %v", n, len(b), imm, has)
		}
	}
}
